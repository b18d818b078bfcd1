"""The two sides of the comparison: the same files in, the same rows out, one micro-batch per source commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.workloads import VIEW, Workload, view_sql
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.engine.runtime import Told
from laminar_dagster.plan.build import plan_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = "k BIGINT, amount DOUBLE, event_time TIMESTAMP"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Tick:
    """One micro-batch: how long it took, and how many groups were open after it (where that is known).

    Ours also says what it counted, and how long each step of the epoch took.
    """

    seconds: float
    open_groups: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A finished run: its micro-batches that had rows, in order, and the Delta table with the results."""

    ticks: list[Tick]
    output: Path


ONE_COMMIT = RunOptions(max_rows=1, max_files=1)


@contextmanager
def opened(
    spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path, options: RunOptions = ONE_COMMIT
) -> Iterator[ViewRun]:
    """The workload's view; each of its epochs takes one commit."""
    (plan,) = plan_script(view_sql(workload, source, kind))
    with open_view(plan, spark, project=source, data=data, options=options) as view:
        yield view


def timed_step(view: ViewRun, told: Told | None = None) -> Tick | None:
    """One epoch, compaction included; None when there is nothing to do. `told`: where the watermark goes."""
    start = perf_counter()
    commit = view.step(told)
    seconds = perf_counter() - start
    return None if commit is None else Tick(seconds, counts=commit.counts, steps=dict(view.runtime.seconds))


def run_ours(spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path) -> Outcome:
    """One epoch per commit; the time is that of `step`."""
    ticks: list[Tick] = []
    with opened(spark, workload, source, kind, data) as view:
        while (tick := timed_step(view)) is not None:
            if tick.counts["rows_in"]:
                ticks.append(tick)
    return Outcome(ticks, data / VIEW / "output")


def run_structured_streaming(spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path) -> Outcome:
    """Append mode into a Delta table, one micro-batch per file; the time is the engine's own `triggerExecution`.

    The last micro-batch has no rows and only closes what the watermark has passed: it is not counted.
    """
    output = data / "output"
    writer = _windowed(_stream(spark, source, kind), workload).writeStream.format("delta").outputMode("append")
    return _finished(writer.option("path", str(output)), data, output)


def run_merging_stream(spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path) -> Outcome:
    """Update mode, each micro-batch merged into a Delta table: what Spark's users do for results that change."""
    from delta.tables import DeltaTable

    output = data / "output"
    totals = _windowed(_stream(spark, source, kind), workload)
    totals_schema = totals.schema
    DeltaTable.create(spark).location(str(output)).addColumns(totals_schema).execute()
    same_key = " AND ".join(f"t.{name} = s.{name}" for name in workload.window.keys.split(", "))

    def merge(changed: DataFrame, _: int) -> None:
        target = DeltaTable.forPath(changed.sparkSession, str(output)).alias("t")
        found = target.merge(changed.alias("s"), same_key)
        found.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return _finished(totals.writeStream.foreachBatch(merge).outputMode("update"), data, output)


def _finished(writer: DataStreamWriter, data: Path, output: Path) -> Outcome:
    checkpointed = writer.option("checkpointLocation", str(data / "checkpoint"))
    query = checkpointed.trigger(availableNow=True).start()
    query.awaitTermination()
    progress: list[Any] = [entry for entry in query.recentProgress if entry["numInputRows"]]
    return Outcome([_tick(entry) for entry in progress], output)


def _stream(spark: SparkSession, source: Path, kind: str) -> DataFrame:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    if kind == "delta":
        return reader.format("delta").load(str(source))
    return reader.schema(SCHEMA).parquet(str(source))


def _windowed(events: DataFrame, workload: Workload) -> DataFrame:
    from pyspark.sql import functions as f

    timed = events.withWatermark("event_time", f"{workload.lag_seconds} seconds")
    keys = ["k"] if workload.window.kind == "none" else [workload.window.column().alias("window"), "k"]
    totals = timed.groupBy(*keys).agg(f.count("*").alias("n"), f.sum("amount").alias("total"))
    if workload.window.kind == "none":
        return totals
    return totals.select(
        f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end"), "k", "n", "total"
    )


def _tick(entry: Any) -> Tick:
    return Tick(entry["durationMs"]["triggerExecution"] / 1000, entry["stateOperators"][0]["numRowsTotal"])
