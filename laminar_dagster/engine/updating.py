"""Emits the results of a view that corrects itself: the changelog of an epoch, and the table that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.changelog import write_changes
from laminar_dagster.engine.closing import PARTITION, Closing, Emitted, finish, partition_of, write_failures
from laminar_dagster.engine.column_names import GROUP, NEW, REASON
from laminar_dagster.engine.differences import difference
from laminar_dagster.engine.revising import Change, Revised
from laminar_dagster.engine.runtime import Carried, Runtime
from laminar_dagster.engine.shown import END, START, reason_sql, shown_columns, shown_sql
from laminar_dagster.engine.window_state import WindowState
from laminar_dagster.engine.writing import nullable, write_table
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.emit import Early
from laminar_dagster.semantics.partitions import Partitioning
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.spark_sql import quoted
from state_store import DataFile, PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMESTAMP = pa.timestamp("us", tz="UTC")


def update(runtime: Runtime, planned: PlanRow, state: WindowState, closing: Closing, change: Change) -> Emitted:
    """Hold the results that may have changed against those shown; give the changelog and the files to swap."""
    revised = state.revise(runtime, change)
    if revised.merged is None:
        return Emitted([], [], carried=_carried(runtime, planned, revised, closing))
    finished = _finished(runtime, revised)
    results = _brought(runtime, finished)
    files = _shown_files(runtime, planned, revised)
    found = difference(shown_columns(runtime.plan.query), results.drop_columns([GROUP]), list(files), revised.scope)
    new_failures = _failing(results).keys() - runtime.carried.failing.keys()
    return Emitted(
        output=write_rows(runtime, planned, found.rows),
        failures=_write_failures(runtime, planned, finished, new_failures),
        replaced=[files[path] for path in found.touched],
        changes=write_changes(runtime, found.changes, now=planned.processing_time, watermark=change.moment.after),
        rows=found.changes.num_rows,
        failed=len(new_failures),
        carried=_carried(runtime, planned, revised, closing, results, emits=found.changes.num_rows > 0),
    )


def period_passed(query: Query, carried: Carried, now: int) -> bool:
    """Whether EVERY may emit again; other strategies never wait."""
    if query.emit.early is not Early.EACH_PERIOD or carried.period_began is None:
        return True
    return now - carried.period_began >= (query.period or 0)


# --- results -------------------------------------------------------------------------------------------------


def _finished(runtime: Runtime, revised: Revised) -> DataFrame:
    assert revised.merged is not None
    runtime.fit_to(revised.rows)
    finished = finish(runtime.plan.query, revised.merged)
    if revised.shown_until is None:
        return finished
    later = f"window_end > timestamp_micros({revised.shown_until}L)"
    others = [name for name in finished.columns if name != "_reason"]
    return finished.selectExpr(*others, f"CASE WHEN {later} THEN '' ELSE _reason END AS _reason")


def _brought(runtime: Runtime, finished: DataFrame) -> pa.Table:
    query = runtime.plan.query
    return nullable(
        finished.selectExpr(*shown_sql(query), reason_sql(), f"{_group_sql(query)} AS {quoted(GROUP)}").toArrow()
    )


def _group_sql(query: Query) -> str:
    return f"xxhash64({', '.join(['window_start', *(key_column(i) for i in range(len(query.keys)))])})"


def _shown_files(runtime: Runtime, planned: PlanRow, revised: Revised) -> dict[str, DataFile]:
    """The files of the table that can have rows which the results stand against, by path."""
    table = runtime.store.table(f.OUTPUT)
    found = [file for file in table.files_at(planned.tables[f.OUTPUT]) if _may_hold(file, revised)]
    return dict(zip(table.absolute(found), found, strict=True))


def _may_hold(file: DataFile, revised: Revised) -> bool:
    if END not in file.low:
        return True
    if revised.ends is not None:
        first, last = revised.ends
        return int(file.low[END]) <= last and int(file.high[END]) >= first
    return revised.scope.open_after is None or int(file.high[END]) > revised.scope.open_after


# --- files ---------------------------------------------------------------------------------------------------


def write_rows(runtime: Runtime, planned: PlanRow, rows: pa.Table) -> list[DataFile]:
    """The table's rows, those that are new under this epoch's number."""
    is_new = rows.column(NEW)
    epoch = pc.if_else(is_new, pa.scalar(runtime.epoch, pa.int64()), rows.column("_epoch"))
    now = pc.if_else(is_new, pa.scalar(planned.processing_time, TIMESTAMP), rows.column("_emitted_at").cast(TIMESTAMP))
    table = rows.drop_columns([NEW, "_epoch", "_emitted_at"])
    table = table.append_column("_epoch", epoch).append_column("_emitted_at", now)
    if runtime.plan.query.window is None:
        return write_table(runtime, f.OUTPUT, table)
    table = table.append_column(PARTITION, _partitions(table.column(START), runtime.plan.query.partition))
    return write_table(runtime, f.OUTPUT, table, PARTITION)


def _partitions(starts: pa.ChunkedArray, partitioning: Partitioning) -> pa.Array:
    known = pc.unique(starts)
    names = pa.array([partition_of(start, partitioning) for start in known.to_pylist()], pa.string())
    return names.take(pc.index_in(starts.combine_chunks(), known))


def _write_failures(
    runtime: Runtime, planned: PlanRow, finished: DataFrame, groups: Sequence[int] | set[int]
) -> list[DataFile]:
    """An entry for each group that has begun to have no value."""
    if not groups or not runtime.plan.query.side_output.keeps("error"):
        return []
    listed = ", ".join(f"{group}L" for group in groups)
    begun = finished.filter(f"{_group_sql(runtime.plan.query)} IN ({listed})")
    return write_failures(runtime, begun, planned.processing_time, len(groups))


# --- what is remembered --------------------------------------------------------------------------------------


def _failing(results: pa.Table) -> dict[int, int | None]:
    """The groups that have no value, with their windows' ends."""
    failed = results.filter(pc.greater(pc.binary_length(pc.fill_null(results.column(REASON), "")), 0))
    ends = failed.column(END).to_pylist() if END in failed.column_names else [None] * failed.num_rows
    return dict(zip(failed.column(GROUP).to_pylist(), ends, strict=True))


def _carried(
    runtime: Runtime,
    planned: PlanRow,
    revised: Revised,
    closing: Closing,
    results: pa.Table | None = None,
    *,
    emits: bool = False,
) -> Carried:
    query, before, until = runtime.plan.query, runtime.carried, closing.until
    now = planned.processing_time
    restarts = emits and query.emit.early is Early.EACH_PERIOD and period_passed(query, before, now)
    failing = dict(before.failing)
    if results is not None:
        for group in results.column(GROUP).to_pylist() if failing else ():
            failing.pop(group, None)
        failing |= _failing(results)
    still = {group: end for group, end in failing.items() if end is None or until is None or end > until}
    return Carried(now if restarts else before.period_began, revised.waiting, still)
