"""Sources: what is new in them, commit by commit, and how their rows are read."""
