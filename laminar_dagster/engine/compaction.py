"""Keeps the number of state files bounded: merges the partials of a bucket that has many of them."""

from __future__ import annotations

import pyarrow.compute as pc

from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.partials import BUCKET, merged_panes
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_state import state_of
from laminar_dagster.engine.writing import write_frame
from state_store import DataFile, MaintenancePolicy
from state_store import format as f


def compact_if_due(runtime: Runtime, threshold: int = MaintenancePolicy.files_per_bucket) -> int:
    """Merge the fullest bucket if it has more than `threshold` files; gives how many files went.

    One bucket per epoch: bounded work. Killed before its commit, it leaves the state as it was.
    """
    bucket, count = _fullest(runtime)
    if bucket is None or count <= threshold:
        return 0
    files = [file for file in runtime.store.table(f.PARTIALS).files() if file.partition[BUCKET] == bucket]
    with runtime.timed("compact"):
        _merge(runtime, bucket, files)
    return count


def _fullest(runtime: Runtime) -> tuple[str | None, int]:
    """The bucket with the most files, and their number."""
    actions = runtime.store.table(f.PARTIALS).actions()
    if actions is None or not actions.num_rows:
        return None, 0
    counted = pc.value_counts(actions.column(f"partition.{BUCKET}")).to_pylist()
    fullest = max(counted, key=lambda entry: int(entry["counts"]))
    return str(fullest["values"]), int(fullest["counts"])


def _merge(runtime: Runtime, bucket: str, files: list[DataFile]) -> None:
    rows = sum(file.rows for file in files)
    runtime.fit_to(rows)
    closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
    panes = merged_panes(runtime, files, state_of(runtime.plan.query).still_open(runtime, closed))
    batch = runtime.store.merge_name(f.PARTIALS)
    written = write_frame(runtime, f.PARTIALS, panes, rows=rows, folder=f"{BUCKET}={bucket}", batch=batch)
    runtime.store.replace(f.PARTIALS, add=written, remove=files)
