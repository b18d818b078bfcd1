"""What the benchmarks run: events from a fixed seed, and the view over them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

SEED = 20_240_101
LAG_SECONDS = 10
DISORDER_SECONDS = 5  # below the lag: no row is late, so both sides have the same rows to count
BEGIN = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
MICROS = 1_000_000
VIEW = "totals"


@dataclass(frozen=True)
class Workload:
    """`batches` commits of `rows` rows, each a `window / batches_per_window` long stretch of event time."""

    name: str
    rows: int
    keys: int
    window_seconds: int
    batches: int
    batches_per_window: int
    target: float

    @property
    def span_seconds(self) -> float:
        return self.window_seconds / self.batches_per_window

    def with_batches(self, batches: int) -> Workload:
        """More or fewer commits; a window that takes the whole run to fill goes on doing so."""
        fills = self.batches_per_window > 1
        per_window = max(1, batches - (self.batches - self.batches_per_window)) if fills else 1
        return replace(self, batches=batches, batches_per_window=per_window)


# Of `small` and `medium` every batch closes a window: the dearest case for an engine that keeps partials.
# `large_state` fills one window with nearly a million groups, then closes it.
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("small", 1_000, 10, 60, batches=30, batches_per_window=1, target=2.5),
        Workload("medium", 100_000, 10_000, 60, batches=16, batches_per_window=1, target=1.6),
        Workload("large_state", 200_000, 1_000_000, 3_600, batches=17, batches_per_window=15, target=4.0),
    )
}


def quick(workload: Workload) -> Workload:
    """Small enough for a test: the same shape, no meaning in its times."""
    return replace(
        workload.with_batches(4), rows=max(200, workload.rows // 50), keys=max(5, workload.keys // 50), target=0.0
    )


def events(workload: Workload, batch: int) -> pa.Table:
    """The rows of one commit. Amounts are quarters, so that sums are exact in any order."""
    random = np.random.default_rng([SEED, batch])
    span, disorder = workload.span_seconds * MICROS, DISORDER_SECONDS * MICROS
    time = batch * span + random.uniform(0, span, workload.rows) - random.uniform(0, disorder, workload.rows)
    return pa.table(
        {
            "k": pa.array(random.integers(0, workload.keys, workload.rows), pa.int64()),
            "amount": pa.array(random.integers(1, 4_000, workload.rows) / 4, pa.float64()),
            "event_time": pa.array(np.maximum(time, 0).astype("int64") + BEGIN * MICROS, pa.timestamp("us", tz="UTC")),
        }
    )


def write_source(workload: Workload, folder: Path, source: str) -> None:
    """One Parquet file per commit, with times that put them in order; `delta`: the same as a table's versions."""
    folder.mkdir(parents=True, exist_ok=True)
    for batch in range(workload.batches):
        if source == "delta":
            write_deltalake(str(folder), events(workload, batch), mode="append")
            continue
        path = folder / f"{batch:06d}.parquet"
        pq.write_table(events(workload, batch), path)
        os.utime(path, (BEGIN + batch, BEGIN + batch))


def view_sql(workload: Workload, folder: Path, source: str) -> str:
    connector = "connector = 'delta'" if source == "delta" else "connector = 'files', format = 'parquet'"
    return f"""
        CREATE SOURCE events (k BIGINT, amount DOUBLE, event_time TIMESTAMP,
            WATERMARK FOR event_time AS event_time - INTERVAL '{LAG_SECONDS}' SECOND
        ) WITH ({connector}, path = '{folder}');

        CREATE MATERIALIZED VIEW {VIEW} AS
        SELECT window_start, window_end, k, COUNT(*) AS n, SUM(amount) AS total
        FROM TUMBLE(events, event_time, INTERVAL '{workload.window_seconds}' SECOND)
        GROUP BY window_start, window_end, k
        EMIT ON WINDOW CLOSE
        WITH (sink = 'append');"""
