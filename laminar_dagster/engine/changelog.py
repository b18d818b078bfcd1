"""Writes an epoch's part of the changelog, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.column_names import CHANGE_END
from laminar_dagster.engine.in_process_sql import connection, parquet
from laminar_dagster.engine.insertions import insertions_schema, insertions_sql
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.shown import END
from laminar_dagster.engine.writing import write_table
from state_store import DataFile, PlanRow
from state_store import format as f
from state_store.changelog import EPOCH, EPOCHS, EPOCHS_PER_PARTITION
from state_store.format import TIMESTAMP


def write_changes(
    runtime: Runtime, changes: pa.Table, *, now: int, watermark: int | None, first: int = 0
) -> list[DataFile]:
    """`changes` has `_op`, the data, and, where there are windows, CHANGE_END: where the result's ends."""
    rows, ops = changes.num_rows, changes.column("_op")
    if runtime.plan.query.window is not None:
        times = changes.column(CHANGE_END).cast(pa.int64()).cast(TIMESTAMP)
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
            changes = changes.append_column(CHANGE_END, rows.column(END))
        files += write_changes(runtime, changes, now=now, watermark=watermark, first=seq)
        seq += rows.num_rows
    return files


def begin_changelog(runtime: Runtime, planned: PlanRow) -> list[DataFile]:
    """Of a view that only appended so far, the rows of its table as so many `+I`, each of the epoch that showed it."""
    table = runtime.store.table(f.OUTPUT)
    files = table.files_at(planned.tables.get(f.OUTPUT))
    if planned.tables.get(f.CHANGELOG) is not None or not files:
        return []
    with connection() as db:
        sql = insertions_sql(runtime.plan.query, parquet(table.absolute(files)), epoch=0)
        rows = db.sql(sql).to_arrow_table()
    typed = rows.cast(insertions_schema(table, rows.schema))
    partition = pc.divide(pc.subtract(typed.column(EPOCH), 1), EPOCHS_PER_PARTITION)
    return write_table(runtime, f.CHANGELOG, typed.append_column(EPOCHS, partition), EPOCHS)
