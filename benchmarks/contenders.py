"""The two sides of the comparison: the same files in, the same rows out, one micro-batch per source commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.workloads import LAG_SECONDS, VIEW, Workload, view_sql
from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.plan.build import plan_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k BIGINT, amount DOUBLE, event_time TIMESTAMP"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Tick:
    """One micro-batch: how long it took, and how many groups were open after it (where that is known)."""

    seconds: float
    open_groups: int | None = None


@dataclass(frozen=True)
class Outcome:
    """A finished run: its micro-batches that had rows, in order, and the Delta table with the results."""

    ticks: list[Tick]
    output: Path


def run_ours(spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path) -> Outcome:
    """One epoch per commit; the time is that of `step`, compaction included."""
    (plan,) = plan_script(view_sql(workload, source, kind))
    ticks: list[Tick] = []
    with open_view(plan, spark, project=source, data=data, options=RunOptions(max_rows=1, max_files=1)) as view:
        while True:
            start = perf_counter()
            commit = view.step()
            if commit is None:
                break
            if commit.counts["rows_in"]:
                ticks.append(Tick(perf_counter() - start))
    return Outcome(ticks, data / VIEW / "output")


def run_structured_streaming(spark: SparkSession, workload: Workload, source: Path, kind: str, data: Path) -> Outcome:
    """One micro-batch per file; the time is the engine's own `triggerExecution`.

    The last micro-batch has no rows and only closes what the watermark has passed: it is not counted.
    """
    query = (
        _windowed(_stream(spark, source, kind), workload)
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", str(data / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(data / "output"))
    )
    query.awaitTermination()
    progress: list[Any] = [entry for entry in query.recentProgress if entry["numInputRows"]]
    return Outcome([_tick(entry) for entry in progress], data / "output")


def _stream(spark: SparkSession, source: Path, kind: str) -> DataFrame:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    if kind == "delta":
        return reader.format("delta").load(str(source))
    return reader.schema(SCHEMA).parquet(str(source))


def _windowed(events: DataFrame, workload: Workload) -> DataFrame:
    from pyspark.sql import functions as f

    window = f.window("event_time", f"{workload.window_seconds} seconds")
    totals = (
        events.withWatermark("event_time", f"{LAG_SECONDS} seconds")
        .groupBy(window, "k")
        .agg(f.count("*").alias("n"), f.sum("amount").alias("total"))
    )
    return totals.select(
        f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end"), "k", "n", "total"
    )


def _tick(entry: Any) -> Tick:
    return Tick(entry["durationMs"]["triggerExecution"] / 1000, entry["stateOperators"][0]["numRowsTotal"])
