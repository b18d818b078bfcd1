"""Closes windows: merges the partials of what is due, finishes the aggregates, and writes the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.batch import JSON_OPTIONS
from laminar_dagster.engine.column_names import REASON
from laminar_dagster.engine.counting import Counting
from laminar_dagster.engine.gap_fill import FILLED, KEPT, fill_gaps
from laminar_dagster.engine.ranking import rank_sql, ranked
from laminar_dagster.engine.runtime import Carried, Runtime
from laminar_dagster.engine.shown import shown_sql
from laminar_dagster.engine.side_output import side_output_columns
from laminar_dagster.engine.writing import partition_folder, with_constants, write_frame, write_table
from laminar_dagster.plan.plan import key_column, partial_column
from laminar_dagster.semantics.expressions import Expression, Literal, columns_of
from laminar_dagster.semantics.partitions import UTC_ZONE, Partitioning
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.spark_sql import error_sql, first_reason, quoted, value_sql
from laminar_dagster.semantics.types import BIGINT, STRING, TIMESTAMP
from laminar_dagster.semantics.windows import Window
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = "_partition"
# How often a row of a projection comes, at a guess: only decides who writes the file.
COPIES_GUESSED = 10
PARTITION_FORMATS = {
    "hour": "yyyy-MM-dd-HH:00",
    "day": "yyyy-MM-dd",
    "week": "yyyy-MM-dd",
    "month": "yyyy-MM-01",
}


@dataclass(frozen=True)
class Closing:
    """What the watermark closes in this epoch, and what becomes of the state.

    `merged` has one row per (window, key) that is emitted, at most about `rows` of them; `gone` are files of the state
    that nothing needs any more, `live` those that the epoch adds; `opened`, `closed` and `touched` are windows (of
    sessions: none, they have their timers in the state itself). Where gaps are filled, `merged` also has what closed
    before, and no window that is filled starts before `filled_from`. `results` stand in for `merged` where they came
    with the state: the output's columns, its partition, REASON. `replaces_timers`: `opened` are
    all there are. `ended` is how many sessions closed.
    """

    merged: DataFrame | None
    rows: int
    gone: list[DataFile]
    live: list[DataFile]
    until: int | None
    opened: frozenset[Window] = frozenset()
    closed: frozenset[Window] = frozenset()
    touched: frozenset[Window] = frozenset()
    filled_from: int | None = None
    results: pa.Table | None = None
    replaces_timers: bool = False
    ended: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def starts(self) -> set[int]:
        """Where emitted windows begin. All that are filled lie between the least and the greatest of these."""
        back = set() if self.filled_from is None else {self.filled_from}
        return {window.start for window in self.closed} | back


class ClosesApart:
    """State that takes an epoch's rows in first, and closes windows afterwards."""

    def fold_and_close(self, *_: object) -> Closing | None:
        return None


@dataclass(frozen=True)
class Emitted:
    """What an epoch shows: files that the output gains and loses, the changelog's, the groups that have no result."""

    output: list[DataFile]
    failures: list[DataFile]
    replaced: list[DataFile] = field(default_factory=list)
    changes: list[DataFile] = field(default_factory=list)
    rows: int = 0
    failed: int = 0
    filled: int = 0
    carried: Carried = field(default_factory=Carried)


def closed_until(query: Query, watermark: int | None) -> int | None:
    """A window is closed when it ends here or before."""
    return None if watermark is None else watermark - query.lateness


def emit(runtime: Runtime, closing: Closing, now: int) -> Emitted:
    """The results of what closes, as files of the output; groups without a result to the side."""
    if closing.results is not None:
        return _write_at_hand(runtime, closing.results, now)
    if closing.merged is None:
        return Emitted([], [])
    query = runtime.plan.query
    return _write_results(runtime, ranked(query, finish(query, closing.merged)), now, closing)


def _write_at_hand(runtime: Runtime, results: pa.Table, now: int) -> Emitted:
    good = results.filter(pc.is_null(results.column(REASON))).drop_columns([REASON])
    files = write_table(runtime, f.OUTPUT, with_constants(good, _constants(runtime, now)), PARTITION)
    return Emitted(files, [], rows=good.num_rows)


def _write_results(runtime: Runtime, finished: DataFrame, now: int, closing: Closing) -> Emitted:
    query = runtime.plan.query
    counting = Counting(runtime.spark, finished, f"results_{runtime.epoch}", _measures(query))
    good = counting.frame.filter("_reason IS NULL")
    if query.repeats is not None:
        good = good.selectExpr("*", f"explode(sequence(1L, {query.repeats})) AS _copy")
    if query.ranking is not None:
        good = good.selectExpr("*", rank_sql(query))
    files = _write_output(runtime, good, now, closing)
    counts = counting.numbers()
    keeps = counts["failed"] and query.side_output.keeps("error")
    failures = write_failures(runtime, finished, now, counts["failed"]) if keeps else []
    return Emitted(
        files, failures, rows=sum(file.rows for file in files), failed=counts["failed"],
        filled=counts.get("filled", 0),
    )  # fmt: skip


def _measures(query: Query) -> dict[str, str]:
    """What an epoch counts of its results."""
    measures = {"failed": "count_if(_reason IS NOT NULL AND _reason <> '')"}
    filled = {"filled": f"count_if(_reason IS NULL AND {FILLED})"}
    return measures if query.gap_fill is None else measures | filled


def _write_output(runtime: Runtime, good: DataFrame, now: int, closing: Closing) -> list[DataFile]:
    query = runtime.plan.query
    columns = shown_sql(query)
    constants = _constants(runtime, now)
    rows = closing.rows if query.repeats is None else closing.rows * COPIES_GUESSED
    partitions = {partition_of(start, query.partition) for start in closing.starts}
    if len(partitions) == 1:
        folder = partition_folder(PARTITION, partitions.pop())
        return write_frame(runtime, f.OUTPUT, good.selectExpr(*columns), rows=rows, folder=folder, constants=constants)
    results = good.selectExpr(*columns, partition_sql(query))
    return write_frame(runtime, f.OUTPUT, results, rows=rows, partition_by=PARTITION, constants=constants)


def _constants(runtime: Runtime, now: int) -> dict[str, Literal]:
    return {"_epoch": Literal(runtime.epoch, BIGINT), "_emitted_at": Literal(now, TIMESTAMP)}


def partition_of(moment: int, partitioning: Partitioning) -> str:
    """The partition of a window that begins at `moment`, as the output's `_partition` spells it."""
    return partitioning.name_of(moment)


def finish(query: Query, merged: DataFrame, *kept: str) -> DataFrame:
    """Merged partials to results `a0`, `a1`, … and, in `_reason`, why a group has none ('': HAVING leaves it out)."""
    columns = [*kept, "timestamp_micros(window_start) AS window_start", "timestamp_micros(window_end) AS window_end"]
    columns += [key_column(i) for i in range(len(query.keys))]
    columns += [] if query.gap_fill is None else [KEPT]
    columns += [f"{_filled(call, call.kernel.finish)} AS {call.id}" for call in query.aggregates]
    columns += [
        f"{_filled(call, call.kernel.overflow)} AS {call.id}_overflow"
        for call in query.aggregates
        if call.kernel.overflow is not None
    ]
    results = merged.selectExpr(*columns)
    whole = results if query.gap_fill is None else fill_gaps(query, results)
    return whole.selectExpr("*", f"{_reason(query) or 'CAST(NULL AS STRING)'} AS _reason")


def _filled(call: AggregateCall, template: str) -> str:
    names = {partial.name: partial_column(call.id, partial.name) for partial in call.kernel.partials}
    return template.format(**names)


def _reason(query: Query) -> str | None:
    tests = [] if query.live is None else [f"CASE WHEN coalesce({query.live}, 0L) <= 0L THEN '' END"]
    if query.having is not None:
        tests += _overflows(query, query.having)
        own = error_sql(query.having)
        tests += [own] if own else []
        tests.append(f"CASE WHEN NOT coalesce({value_sql(query.having)}, false) THEN '' END")
    numbered_by = query.ranking.expressions if query.ranking is not None else ()
    for expression in (*(column.expression for column in query.output), *numbered_by):
        tests += _overflows(query, expression)
        own = error_sql(expression)
        tests += [own] if own else []
    return first_reason(tests)


def _overflows(query: Query, expression: Expression) -> list[str]:
    """The results in an expression that may not fit their type."""
    used = columns_of(expression)
    calls = [call for call in query.aggregates if call.id in used and call.kernel.overflow is not None]
    return [f"CASE WHEN {call.id}_overflow THEN 'overflow' END" for call in calls]


def partition_sql(query: Query) -> str:
    unit, zone = query.partition.unit, query.partition.zone
    local = "window_start" if zone == UTC_ZONE else f"from_utc_timestamp(window_start, '{zone}')"
    return f"date_format(date_trunc('{unit}', {local}), '{PARTITION_FORMATS[unit]}') AS {PARTITION}"


def write_failures(runtime: Runtime, finished: DataFrame, now: int, rows: int) -> list[DataFile]:
    """One error entry for each group whose result does not fit its type."""
    failed = finished.filter("_reason IS NOT NULL AND _reason <> ''")
    return write_frame(runtime, f.SIDE_OUTPUT, failed.selectExpr(*_failure_columns(runtime, now)), rows=rows)


def _failure_columns(runtime: Runtime, now: int) -> list[str]:
    query = runtime.plan.query
    keys = ", ".join(f"{key_column(i)} AS {quoted(key.name)}" for i, key in enumerate(query.keys))
    calls = ", ".join(call.text for call in query.aggregates)
    detail = Literal(f"the result of the group has no value: {calls}", STRING)
    return side_output_columns(
        runtime,
        kind="'error'",
        reason="concat('result_', _reason)",
        event_time="window_start",
        processing_time=f"timestamp_micros({now})",
        window_start="window_start",
        window_end="window_end",
        group_key=f"to_json(struct({keys}), {JSON_OPTIONS})" if keys else None,
        error_detail=value_sql(detail),
    )
