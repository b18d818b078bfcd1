"""Makes rows for the windows without rows between two windows of a key, out of the results on either side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar_dagster.engine.window_sql import fixed_window, pane_end_sql, starts_sql
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.gap_fill import STEP, STEPS, after, before, filling
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.spark_sql import value_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILLED = "_filled"
KEPT = "_kept"
_REAL = f"{STEP.name} = {STEPS.name}"


def fill_gaps(query: Query, results: DataFrame) -> DataFrame:
    """The results and a row for each empty window in front of them; those `KEPT` are emitted, and only begin a gap."""
    windows = results.selectExpr("*", *_neighbours(query)).filter(f"NOT {KEPT}")
    starts = starts_sql(fixed_window(query), _first_to_emit(query), "unix_micros(window_start)")
    counted = windows.selectExpr("*", f"{starts} AS _starts").selectExpr("*", f"size(_starts) AS {STEPS.name}")
    spread = counted.selectExpr("*", "posexplode(_starts) AS (_position, _start)")
    return spread.selectExpr("*", f"_position + 1 AS {STEP.name}").selectExpr(*_columns(query))


def _neighbours(query: Query) -> list[str]:
    """The results as ends of a gap, and those of the window of the same key before."""
    keys = ", ".join(key_column(i) for i in range(len(query.keys)))
    order = f"({f'PARTITION BY {keys} ' if keys else ''}ORDER BY window_start)"
    columns = [f"lag(unix_micros(window_end)) OVER {order} AS _gap_start"]
    for call in query.aggregates:
        columns.append(f"{_as_end(call)} AS {after(call).name}")
        columns.append(f"lag({_as_end(call)}) OVER {order} AS {before(call).name}")
    return columns


def _as_end(call: AggregateCall) -> str:
    """A result that does not fit its type counts as NULL."""
    return call.id if call.kernel.overflow is None else f"CASE WHEN {call.id}_overflow THEN NULL ELSE {call.id} END"


def _first_to_emit(query: Query) -> str:
    """Where the gap in front of a window begins, or, if there is none to fill, the window itself."""
    own = "unix_micros(window_start)"
    if query.max_gap is None:
        return f"coalesce(_gap_start, {own})"
    return f"CASE WHEN {own} - _gap_start <= {query.max_gap}L THEN _gap_start ELSE {own} END"


def _columns(query: Query) -> list[str]:
    start = f"CASE WHEN {_REAL} THEN window_start ELSE timestamp_micros(_start) END AS window_start"
    empty_end = f"timestamp_micros({pane_end_sql(fixed_window(query), '_start')})"
    end = f"CASE WHEN {_REAL} THEN window_end ELSE {empty_end} END AS window_end"
    columns = [start, end, *(key_column(i) for i in range(len(query.keys))), f"NOT ({_REAL}) AS {FILLED}"]
    for call in query.aggregates:
        value = value_sql(filling(query.gap_fill or "", call))
        columns.append(f"CASE WHEN {_REAL} THEN {call.id} ELSE {value} END AS {call.id}")
        if call.kernel.overflow is not None:
            columns.append(f"({_REAL} AND {call.id}_overflow) AS {call.id}_overflow")
    return columns
