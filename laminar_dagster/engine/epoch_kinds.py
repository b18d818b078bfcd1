"""What an epoch was for, as its rows in the log say it: new rows, or one of the three corrections."""

from __future__ import annotations

TICK, BACKFILL, FOLD, UPSTREAM = "tick", "backfill", "fold_late", "correction"
CORRECTIONS = (BACKFILL, FOLD, UPSTREAM)
# Never in a log: windows computed anew to see whether they are what the view shows.
CHECK = "check"
