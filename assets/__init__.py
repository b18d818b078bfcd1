"""The Dagster project that `dagster dev` shows, and the example to copy: one `.sql` file is one view."""
