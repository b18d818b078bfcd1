"""Keeps the number of state files bounded: merges the partials of a bucket that has many of them."""

from __future__ import annotations

from collections import defaultdict

from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.partials import BUCKET, merged_panes
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_state import state_of
from laminar_dagster.engine.writing import write_frame
from state_store import DataFile
from state_store import format as f

FILES_PER_BUCKET = 48


def compact_if_due(runtime: Runtime, threshold: int | None = None) -> int:
    """Merge the fullest bucket if it has more than `threshold` files; gives how many files went.

    One bucket per epoch: bounded work. Killed before its commit, it leaves the state as it was.
    """
    by_bucket: dict[str | None, list[DataFile]] = defaultdict(list)
    for file in runtime.store.table(f.PARTIALS).files():
        by_bucket[file.partition[BUCKET]].append(file)
    bucket, files = max(by_bucket.items(), key=lambda entry: len(entry[1]), default=(None, []))
    if len(files) <= (FILES_PER_BUCKET if threshold is None else threshold):
        return 0
    with runtime.timed("compact"):
        _merge(runtime, str(bucket), files)
    return len(files)


def _merge(runtime: Runtime, bucket: str, files: list[DataFile]) -> None:
    rows = sum(file.rows for file in files)
    runtime.fit_to(rows)
    closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
    panes = merged_panes(runtime, files, state_of(runtime.plan.query).still_open(runtime, closed))
    written = write_frame(runtime, f.PARTIALS, panes, rows=rows, folder=f"{BUCKET}={bucket}")
    runtime.store.replace(f.PARTIALS, runtime.epoch, add=written, remove=files)
