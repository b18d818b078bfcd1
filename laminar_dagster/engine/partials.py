"""Folds an epoch's rows into partial accumulators: one row per (pane, key) touched, appended, never rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from laminar_dagster.engine.batch import Batch
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.plan.plan import Plan, key_column, partial_column
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.spark_sql import value_sql
from laminar_dagster.semantics.windows import Cumulate, Hop
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar_dagster.engine.window_state import WindowState

BUCKET = "bucket"
# A partial counts only in windows that end after this: set where its rows were late for the others.
HIDDEN = "hidden_until"


def write_partials(runtime: Runtime, window_state: WindowState, batch: Batch, kept: DataFrame) -> list[DataFile]:
    """The epoch's partials as files below the state table, in buckets of the pane's end."""
    runtime.fit_to(batch.rows)
    frame = window_state.partials(runtime, kept)
    buckets = _buckets(runtime.plan, batch)
    if len(buckets) == 1:
        folder = f"{BUCKET}={buckets.pop()}"
        return write_frame(runtime, f.PARTIALS, frame, rows=batch.rows, folder=folder)
    bucketed = frame.selectExpr("*", f"{bucket_sql(runtime.plan)} AS {BUCKET}")
    return write_frame(runtime, f.PARTIALS, bucketed, rows=batch.rows, partition_by=BUCKET)


def bucket_sql(plan: Plan) -> str:
    """The bucket of `pane_end`: its ceiling in bucket widths, in whole numbers, also before 1970."""
    width = plan.layout.bucket_width
    return f"(pane_end - pmod(pane_end - 1L, {width}L) + {width - 1}L) div {width}L"


def prepared_columns(plan: Plan) -> list[str]:
    """Each row's keys and aggregate arguments: the expressions that come before the aggregation."""
    query = plan.query
    columns = [f"{value_sql(key.expression)} AS {key_column(i)}" for i, key in enumerate(query.keys)]
    return [*columns, *(f"{argument_sql(call)} AS {call.id}" for call in query.aggregates)]


def argument_sql(call: AggregateCall) -> str:
    """The aggregate's argument, NULL where FILTER leaves the row out; COUNT(*) counts ones."""
    value = "1" if call.argument is None else value_sql(call.argument)
    return value if call.filter is None else f"CASE WHEN {value_sql(call.filter)} THEN {value} END"


def partial_expressions(plan: Plan) -> dict[str, str]:
    """How each column of the state is made from rows."""
    return {
        partial_column(call.id, partial.name): partial.make.format(x=call.id)
        for call in plan.query.aggregates
        for partial in call.kernel.partials
    }


def state_frame(runtime: Runtime, files: Sequence[DataFile]) -> DataFrame:
    table = runtime.store.table(f.PARTIALS)
    schema = from_arrow_schema(pq.read_schema(table.root / files[0].path))
    return runtime.spark.read.schema(schema).parquet(*table.absolute(files))


def merged_panes(runtime: Runtime, files: Sequence[DataFile], condition: str) -> DataFrame:
    """One row per (pane, key) out of any number of partials of it, of the panes that fit the condition."""
    state = state_frame(runtime, files)
    keys = [name for name in state.columns if name not in runtime.plan.layout.partial_columns]
    return runtime.aggregated(state.filter(condition), keys, merge_expressions(runtime.plan))


def merge_expressions(plan: Plan) -> dict[str, str]:
    """How each column of the state is merged from partials."""
    merges = {}
    for call in plan.query.aggregates:
        columns = {partial.name: partial_column(call.id, partial.name) for partial in call.kernel.partials}
        for partial in call.kernel.partials:
            merges[columns[partial.name]] = partial.merge.format(p=columns[partial.name], **columns)
    return merges


def _buckets(plan: Plan, batch: Batch) -> set[int]:
    """The buckets that the epoch's rows can fall in: the first and the last, if they are not the same."""
    lows = [times.low for times in batch.times if times.low is not None]
    highs = [times.high for times in batch.times if times.high is not None]
    edges = [min(lows), max(highs)] if lows and highs else []
    assert plan.query.window is not None
    return {plan.layout.bucket_of(plan.query.window.pane(edge).end) for edge in edges}


def shares_panes(query: Query) -> bool:
    """Whether a pane belongs to several windows."""
    return isinstance(query.window, Hop | Cumulate)
