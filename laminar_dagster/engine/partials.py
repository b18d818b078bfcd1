"""Folds an epoch's rows into partial accumulators: one row per (window, key) touched, appended, never rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from laminar_dagster.engine.batch import TIME, Batch
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_sql import window_end_sql, window_start_sql
from laminar_dagster.plan.plan import Plan, key_column, partial_column
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.semantics.spark_sql import value_sql
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKET = "bucket"


def write_partials(runtime: Runtime, batch: Batch, kept: DataFrame) -> list[DataFile]:
    """The epoch's partials as files below the state table, in buckets of the window's end."""
    runtime.set_parallelism(batch.rows)
    frame = partials_of(runtime, kept)
    buckets = _buckets(runtime.plan, batch)
    if len(buckets) == 1:
        folder = f"{BUCKET}={buckets.pop()}"
        return runtime.write(f.PARTIALS, frame.drop(BUCKET), folder=folder)
    return runtime.write(f.PARTIALS, frame, partition_by=(BUCKET,))


def partials_of(runtime: Runtime, kept: DataFrame) -> DataFrame:
    plan = runtime.plan
    prepared = kept.selectExpr(*prepared_columns(plan))
    made = runtime.aggregated(prepared, ["window_start", *plan.layout.key_columns], partial_expressions(plan))
    window_end = window_end_sql(plan.query.window, "window_start")
    return made.selectExpr("*", f"{window_end} AS window_end").selectExpr("*", f"{bucket_sql(plan)} AS {BUCKET}")


def bucket_sql(plan: Plan) -> str:
    """The bucket of `window_end`: its ceiling in bucket widths, in whole numbers, also before 1970."""
    width = plan.layout.bucket_width
    return f"(window_end - pmod(window_end - 1L, {width}L) + {width - 1}L) div {width}L"


def prepared_columns(plan: Plan) -> list[str]:
    """Each row's window, keys and aggregate arguments: the expressions that come before the aggregation."""
    query = plan.query
    columns = [f"{window_start_sql(query.window, TIME)} AS window_start"]
    columns += [f"{value_sql(key.expression)} AS {key_column(i)}" for i, key in enumerate(query.keys)]
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


def merged(runtime: Runtime, files: Sequence[DataFile], condition: str) -> DataFrame:
    """One row per (window, key) out of any number of partials of it, of the windows that fit the condition."""
    plan, table = runtime.plan, runtime.store.table(f.PARTIALS)
    schema = from_arrow_schema(pq.read_schema(table.root / files[0].path))
    state = runtime.spark.read.schema(schema).parquet(*table.absolute(files))
    keys = ["window_start", "window_end", *plan.layout.key_columns]
    return runtime.aggregated(state.filter(condition), keys, merge_expressions(plan))


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
    assert plan.query.window is not None
    edges = [min(lows), max(highs)] if lows and highs else []
    return {plan.layout.bucket_of(w.end) for edge in edges for w in plan.query.window.assign(edge)}


def windows_in(runtime: Runtime, files: list[DataFile]) -> dict[int, int]:
    """The windows that the files hold partials of: start to end."""
    found: dict[int, int] = {}
    root = runtime.store.table(f.PARTIALS).root
    for file in files:
        if file.low["window_start"] == file.high["window_start"]:
            found[file.low["window_start"]] = file.high["window_end"]
            continue
        table = pq.ParquetFile(root / file.path).read(columns=["window_start", "window_end"])
        for row in table.group_by(["window_start", "window_end"]).aggregate([]).to_pylist():
            found[row["window_start"]] = row["window_end"]
    return found
