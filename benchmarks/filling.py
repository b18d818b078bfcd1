"""Fills windows over some epochs, looks at them while they are open, and closes them all in one epoch."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import duckdb

from benchmarks.contenders import ONE_COMMIT, Tick, opened, timed_step
from benchmarks.processes import cpu_seconds, newest_stage, task_seconds
from benchmarks.raw_rows import NO_COMPACTION, aggregated_rows, keeping_raw_rows
from benchmarks.side_by_side import rows_of
from benchmarks.state_size import size_of
from benchmarks.workloads import BEGIN, MICROS, VIEW, Workload
from laminar_dagster.engine.merging import merged_windows
from laminar_dagster.engine.run import RunOptions, ViewRun
from laminar_dagster.engine.runtime import Told
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_OPEN = Told(None)


@dataclass(frozen=True)
class Filled:
    """One run: the epochs that filled the windows, a look after each of them, and the epoch that closed them."""

    filling: tuple[Tick, ...]
    looks: tuple[float, ...]
    close: Tick
    close_cpu: float
    close_tasks: float
    state_rows: int
    state_files: int
    state_bytes: int
    output: Path

    @property
    def close_seconds(self) -> float:
        return self.close.seconds

    @property
    def close_step(self) -> float:
        """Of the epoch that closes, the reading, merging and writing of results, without its log and commits."""
        return self.close.steps["close"]

    @property
    def all_seconds(self) -> float:
        return sum(tick.seconds for tick in self.filling) + self.close.seconds

    @property
    def look_seconds(self) -> float:
        return sum(self.looks)

    @property
    def watched_seconds(self) -> float:
        return self.all_seconds + self.look_seconds

    @property
    def events(self) -> int:
        """How many events are in the results."""
        with duckdb.connect() as database:
            found = database.execute(f"SELECT sum(n) FROM ({rows_of(self.output, 'n')})").fetchone()
        assert found is not None
        return int(found[0])


def fill_and_close(spark: SparkSession, workload: Workload, source: Path, data: Path, *, raw: bool = False) -> Filled:
    """All commits, then a close by watermark alone: the accumulator seed's `update_batch` and `close_windows`."""
    options = RunOptions(max_rows=1, max_files=1, maintenance=NO_COMPACTION) if raw else ONE_COMMIT
    kept = keeping_raw_rows() if raw else nullcontext()
    end = (BEGIN + int(workload.batches * workload.span_seconds)) * MICROS
    with kept, opened(spark, workload, source, "files", data, options) as view:
        filling, looks = [], []
        while (tick := timed_step(view, KEPT_OPEN)) is not None:
            filling.append(tick)
            looks.append(_look(view, raw=raw))
        size, stage, cpu = size_of(view), newest_stage(spark), cpu_seconds()
        close = timed_step(view, Told(end))
        assert close is not None
        used = cpu_seconds() - cpu
        return Filled(
            filling=tuple(filling),
            looks=tuple(looks),
            close=close,
            close_cpu=used,
            close_tasks=task_seconds(spark, stage),
            state_rows=size["rows"],
            state_files=size["files"],
            state_bytes=size["bytes"],
            output=data / VIEW / "output",
        )


def _look(view: ViewRun, *, raw: bool) -> float:
    """The results so far of all open windows, as a strategy that emits early would need them in each epoch."""
    runtime = view.runtime
    files = runtime.store.table(f.PARTIALS).files()
    start = perf_counter()
    runtime.fit_to(sum(file.rows for file in files))
    (aggregated_rows if raw else merged_windows)(runtime, files, runtime.timers).toArrow()
    return perf_counter() - start
