"""Folds an epoch's rows into partial accumulators: one row per (pane, key) touched, appended, never rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from laminar_dagster.engine.arrival import time_and_arrival
from laminar_dagster.engine.batch import TIME, Batch
from laminar_dagster.engine.ranking import trimmed
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.plan.plan import (
    ROW_COUNT,
    UPDATED_AT,
    WEIGHT_COLUMN,
    Plan,
    key_column,
    partial_column,
    prepared_columns_of,
)
from laminar_dagster.semantics import aggregates
from laminar_dagster.semantics.aggregates import argument_name
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.quotas import limits_of
from laminar_dagster.semantics.spark_sql import value_sql
from laminar_dagster.semantics.types import BIGINT
from laminar_dagster.semantics.windows import Cumulate, Hop
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar_dagster.engine.window_state import WindowState

BUCKET = "bucket"
# A partial counts only in windows that end after this: set where its rows were late for the others.
HIDDEN = "hidden_until"
# The ends of the windows that a partial does not count in, because a limit kept its group out of them.
EVICTED_FROM = "evicted_from"


def write_partials(runtime: Runtime, window_state: WindowState, batch: Batch, kept: DataFrame) -> list[DataFile]:
    """The epoch's partials as files below the state table, in buckets of the pane's end."""
    runtime.fit_to(batch.rows)
    frame = trimmed(runtime.plan, window_state.partials(runtime, in_few_tasks(runtime, batch, kept)))
    buckets = _buckets(runtime.plan, batch)
    updated = {UPDATED_AT: Literal(runtime.now, BIGINT)}
    if len(buckets) == 1:
        folder = f"{BUCKET}={buckets.pop()}"
        return write_frame(runtime, f.PARTIALS, frame, rows=batch.rows, folder=folder, constants=updated)
    bucketed = frame.selectExpr("*", f"{bucket_sql(runtime.plan)} AS {BUCKET}")
    return write_frame(runtime, f.PARTIALS, bucketed, rows=batch.rows, partition_by=BUCKET, constants=updated)


def in_few_tasks(runtime: Runtime, batch: Batch, kept: DataFrame) -> DataFrame:
    """The epoch's rows, in one task where they are few or Spark reads them in one anyway."""
    return runtime.gathered(kept, 0 if batch.is_one_split else batch.rows)


def bucket_sql(plan: Plan) -> str:
    """The bucket of `pane_end`: its ceiling in bucket widths, in whole numbers, also before 1970."""
    width = plan.layout.bucket_width
    return f"(pane_end - pmod(pane_end - 1L, {width}L) + {width - 1}L) div {width}L"


def prepared_columns(plan: Plan) -> list[str]:
    """Each row's keys and aggregate arguments: the expressions that come before the aggregation."""
    query = plan.query
    columns = [f"{value_sql(key.expression)} AS {key_column(i)}" for i, key in enumerate(query.keys)]
    columns += [WEIGHT_COLUMN] if query.live is not None else []
    return [*columns, *(column for call in query.aggregates for column in argument_columns(call))]


def argument_columns(call: AggregateCall) -> list[str]:
    """What the aggregate reads of a row: its arguments, NULL where FILTER leaves it out, its event time and place."""
    values = {argument_name(i): value_sql(argument) for i, argument in enumerate(call.arguments)} or {"x": "1"}
    if call.filter is not None:
        kept = value_sql(call.filter)
        values = {name: f"CASE WHEN {kept} THEN {value} END" for name, value in values.items()}
        values[aggregates.KEEP] = f"coalesce({kept}, false)"
    values[aggregates.TIME] = time_and_arrival(TIME) if call.kernel.goes_by_arrival else TIME
    prepared = prepared_columns_of(call)
    return [f"{value} AS {prepared[name]}" for name, value in values.items() if name in prepared]


def partial_expressions(plan: Plan) -> dict[str, str]:
    """How each column of the state is made from rows; when they came is the same for all of an epoch."""
    made = {
        partial_column(call.id, partial.name): partial.make.format(**prepared_columns_of(call))
        for call in plan.query.aggregates
        for partial in call.kernel.partials
    }
    return {**made, ROW_COUNT: "count(*)" if plan.query.live is None else f"sum({WEIGHT_COLUMN})"}


def state_frame(runtime: Runtime, files: Sequence[DataFile]) -> DataFrame:
    table = runtime.store.table(f.PARTIALS)
    schema = from_arrow_schema(pq.read_schema(table.root / files[0].path))
    frame = runtime.spark.read.schema(schema).parquet(*table.absolute(files))
    return runtime.gathered(frame, sum(file.rows for file in files))


def merged_panes(runtime: Runtime, files: Sequence[DataFile], condition: str) -> DataFrame:
    """One row per (pane, key) out of any number of partials of it, of the panes that fit the condition."""
    state = state_frame(runtime, files)
    keys = [name for name in state.columns if name not in runtime.plan.layout.partial_columns]
    return trimmed(runtime.plan, runtime.aggregated(state.filter(condition), keys, merge_expressions(runtime.plan)))


def merge_expressions(plan: Plan) -> dict[str, str]:
    """How each column of the state is merged from partials."""
    merges = {}
    for call in plan.query.aggregates:
        columns = {partial.name: partial_column(call.id, partial.name) for partial in call.kernel.partials}
        for partial in call.kernel.partials:
            merges[columns[partial.name]] = partial.merge.format(p=columns[partial.name], **columns)
    return {**merges, ROW_COUNT: f"sum({ROW_COUNT})", UPDATED_AT: f"max({UPDATED_AT})"}


def _buckets(plan: Plan, batch: Batch) -> set[int]:
    """The buckets that the epoch's rows can fall in: the first and the last, if they are not the same."""
    lows = [times.earliest for times in batch.times if times.earliest is not None]
    highs = [times.latest for times in batch.times if times.latest is not None]
    edges = [min(lows), max(highs)] if lows and highs else []
    if plan.query.window is None:
        return {plan.layout.bucket_of(0)}
    return {plan.layout.bucket_of(plan.query.window.pane(edge).end) for edge in edges}


def marks_of(query: Query) -> list[str]:
    """The columns that say which of its windows a partial is not for, where a pane has several."""
    if not shares_panes(query):
        return []
    return [HIDDEN, *([EVICTED_FROM] if limits_of(query) else [])]


def shares_panes(query: Query) -> bool:
    """Whether a pane belongs to several windows."""
    return isinstance(query.window, Hop | Cumulate)
