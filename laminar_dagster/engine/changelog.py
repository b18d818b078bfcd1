"""Writes an epoch's part of the changelog, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.shown import END
from laminar_dagster.engine.writing import write_table
from state_store import DataFile
from state_store import format as f
from state_store.changelog import EPOCHS, EPOCHS_PER_PARTITION
from state_store.format import TIMESTAMP


def write_changes(
    runtime: Runtime, changes: pa.Table, *, now: int, watermark: int | None, first: int = 0
) -> list[DataFile]:
    """`changes` has `_op`, the data, and, where there are windows, the end of the result's as microseconds: `_end`."""
    rows, ops = changes.num_rows, changes.column("_op")
    if runtime.plan.query.window is not None:
        times = changes.column("_end").cast(pa.int64()).cast(TIMESTAMP)
    else:
        times = pa.repeat(pa.scalar(watermark, TIMESTAMP), rows)
    head = {
        "_epoch": pa.repeat(pa.scalar(runtime.epoch, pa.int64()), rows),
        "_seq": pa.array(range(first, first + rows), pa.int64()),
        "_op": ops,
        "_weight": pc.if_else(pc.starts_with(ops, "+"), pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64())),
        "_event_time": times,
        "_emitted_at": pa.repeat(pa.scalar(now, TIMESTAMP), rows),
    }
    data = {named.name: changes.column(named.name) for named in runtime.plan.query.output}
    partition = {EPOCHS: pa.repeat(pa.scalar((runtime.epoch - 1) // EPOCHS_PER_PARTITION, pa.int64()), rows)}
    return write_table(runtime, f.CHANGELOG, pa.table({**head, **data, **partition}), EPOCHS)


def write_insertions(
    runtime: Runtime, output: Sequence[DataFile], *, now: int, watermark: int | None = None
) -> list[DataFile]:
    """Rows that were appended to the output, as so many `+I`."""
    root = runtime.store.table(f.OUTPUT).root
    files: list[DataFile] = []
    seq = 0
    for file in output:
        rows = pq.ParquetFile(root / file.path).read()
        changes = rows.append_column("_op", pa.repeat("+I", rows.num_rows))
        if runtime.plan.query.window is not None:
            changes = changes.append_column("_end", rows.column(END))
        files += write_changes(runtime, changes, now=now, watermark=watermark, first=seq)
        seq += rows.num_rows
    return files
