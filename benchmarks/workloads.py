"""What the benchmarks run: events from a fixed seed, and the view over them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

SEED = 20_240_101
LAG_SECONDS = 10
DISORDER_SECONDS = 5  # below the lag: no row is late, so both sides have the same rows to count
BEGIN = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
MICROS = 1_000_000
# Event times are multiples of this many microseconds, a prime. So no two rows are just a session's gap apart, unless
# the gap is a multiple of 1,009 seconds: there Spark begins a new session, and here (as in Flink) the old one goes on.
GRAIN = 1_009
VIEW = "totals"


BOUNDS = "window_start, window_end"


@dataclass(frozen=True)
class Windows:
    """Tumbling windows, hopping ones where there is a slide, sessions, whose `seconds` are the gap, or none at all."""

    kind: str
    seconds: int
    slide: int = 0

    @property
    def keys(self) -> str:
        """The columns that results are grouped by."""
        return "k" if self.kind == "none" else f"{BOUNDS}, k"

    @property
    def sql(self) -> str:
        if self.kind == "none":
            return "events"
        lengths = [self.slide, self.seconds] if self.kind == "hop" else [self.seconds]
        arguments = ", ".join(f"INTERVAL '{length}' SECOND" for length in lengths)
        return f"{self.kind.upper()}(events, event_time, {arguments})"

    def column(self) -> Column:
        """The same windows for Structured Streaming."""
        from pyspark.sql import functions as f

        if self.kind == "session":
            return f.session_window("event_time", f"{self.seconds} seconds")
        return f.window("event_time", f"{self.seconds} seconds", f"{self.slide or self.seconds} seconds")


def no_window() -> Windows:
    return Windows("none", 60)


def tumble(seconds: int) -> Windows:
    return Windows("tumble", seconds)


def hop(slide: int, seconds: int) -> Windows:
    return Windows("hop", seconds, slide)


def session(gap: int) -> Windows:
    return Windows("session", gap)


@dataclass(frozen=True)
class Workload:
    """`batches` commits of `rows` rows, each `span` seconds of event time, or a `batches_per_window`th of a window.

    With `changed`, the rows of a commit are of so many keys, each as often as the others.
    """

    name: str
    rows: int
    keys: int
    window: Windows
    batches: int
    target: float = 0.0
    batches_per_window: int = 1
    span: float | None = None
    lag_seconds: int = LAG_SECONDS
    emit: str = "ON WINDOW CLOSE"
    changed: int = 0

    @property
    def columns(self) -> str:
        """What a result consists of."""
        return f"{self.window.keys}, n, total"

    @property
    def span_seconds(self) -> float:
        return self.span or self.window.seconds / self.batches_per_window

    def with_batches(self, batches: int) -> Workload:
        """More or fewer commits; a window that takes the whole run to fill goes on doing so."""
        fills = self.batches_per_window > 1
        per_window = max(1, batches - (self.batches - self.batches_per_window)) if fills else 1
        return replace(self, batches=batches, batches_per_window=per_window)


def quick(workload: Workload) -> Workload:
    """Small enough for a test: the same shape, no meaning in its times."""
    return replace(
        workload.with_batches(4),
        rows=max(200, workload.rows // 50),
        keys=max(5, workload.keys // 50),
        changed=workload.changed // 50,
        target=0.0,
    )


def events(workload: Workload, batch: int) -> pa.Table:
    """The rows of one commit. Amounts are quarters, so that sums are exact in any order."""
    random = np.random.default_rng([SEED, batch])
    span, disorder = workload.span_seconds * MICROS, DISORDER_SECONDS * MICROS
    time = batch * span + random.uniform(0, span, workload.rows) - random.uniform(0, disorder, workload.rows)
    return event_table(random, workload, np.maximum(time, 0))


def moment(workload: Workload, second: float, rows: int = 10) -> pa.Table:
    """A commit of a few rows at one moment, which moves the watermark there and adds next to nothing."""
    return event_table(np.random.default_rng(SEED), workload, np.full(rows, second * MICROS))


def event_table(random: np.random.Generator, workload: Workload, time: NDArray[np.float64]) -> pa.Table:
    micros = time.astype("int64") // GRAIN * GRAIN + BEGIN * MICROS
    return pa.table(
        {
            "k": pa.array(_keys(random, workload, len(time)), pa.int64()),
            "amount": pa.array(random.integers(1, 4_000, len(time)) / 4, pa.float64()),
            "event_time": pa.array(micros, pa.timestamp("us", tz="UTC")),
        }
    )


def _keys(random: np.random.Generator, workload: Workload, rows: int) -> NDArray[np.int64]:
    if not workload.changed:
        return random.integers(0, workload.keys, rows)
    return np.resize(random.choice(workload.keys, workload.changed, replace=False), rows)


def write_source(workload: Workload, folder: Path, source: str) -> None:
    """All commits of a workload."""
    for batch in range(workload.batches):
        write_commit(events(workload, batch), batch, folder, source)


def write_commit(rows: pa.Table, number: int, folder: Path, source: str) -> None:
    """A Parquet file, with a time that puts it in order; `delta`: a version of a table."""
    folder.mkdir(parents=True, exist_ok=True)
    if source == "delta":
        write_deltalake(str(folder), rows, mode="append")
        return
    path = folder / f"{number:06d}.parquet"
    pq.write_table(rows, path)
    os.utime(path, (BEGIN + number, BEGIN + number))


def view_sql(workload: Workload, folder: Path, source: str) -> str:
    connector = "connector = 'delta'" if source == "delta" else "connector = 'files', format = 'parquet'"
    return f"""
        CREATE SOURCE events (k BIGINT, amount DOUBLE, event_time TIMESTAMP,
            WATERMARK FOR event_time AS event_time - INTERVAL '{workload.lag_seconds}' SECOND
        ) WITH ({connector}, path = '{folder}');

        CREATE MATERIALIZED VIEW {VIEW} AS
        SELECT {workload.window.keys}, COUNT(*) AS n, SUM(amount) AS total
        FROM {workload.window.sql}
        GROUP BY {workload.window.keys}
        EMIT {workload.emit};"""
