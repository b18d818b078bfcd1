"""What a commit left for the next epoch to go on from: places in the sources, and windows that are open. No Spark."""

from __future__ import annotations

from typing import Any

from laminar_dagster.engine.closing import closed_until
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Window
from state_store import CommitRow, StoreReader
from state_store import format as f


def positions(reader: StoreReader, commit: CommitRow) -> dict[str, Any]:
    """How far each source is taken; of sources that keep a ledger, every commit taken with its size."""
    found: dict[str, Any] = dict(commit.positions)
    ledger: dict[str, dict[str, int]] = {}
    for row in reader.read(f.SOURCE_FILES, commit).to_pylist():
        ledger.setdefault(row["source"], {})[row["id"]] = row["size"]
    return {**found, **ledger}


def open_timers(query: Query, reader: StoreReader, commit: CommitRow) -> frozenset[Window]:
    closed = closed_until(query, commit.watermark)
    rows = reader.read(f.TIMERS, commit).to_pylist()
    windows = (Window(row["window_start"], row["window_end"]) for row in rows)
    return frozenset(window for window in windows if closed is None or window.end > closed)
