"""What overlapping windows cost: an epoch that closes none, and epochs that close some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.contenders import Tick, opened, timed_step
from benchmarks.reporting import RowsDifferError
from benchmarks.side_by_side import rows_of
from benchmarks.workloads import BEGIN, MICROS, VIEW, Windows, Workload
from laminar_dagster.engine.run import ViewRun
from laminar_dagster.engine.runtime import Told
from laminar_dagster.plan.plan import UPDATED_AT
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_OPEN = Told(None)


@dataclass(frozen=True)
class Kept:
    """A run in which nothing closed: its epochs, and the files that the state then had."""

    ticks: list[Tick]
    files: list[str]

    @property
    def state_rows(self) -> list[int]:
        return [tick.counts["groups_touched"] for tick in self.ticks]


@dataclass(frozen=True)
class Close:
    """An epoch that closed so many windows and had no rows of its own."""

    windows: int
    keys: int
    rows_out: int
    seconds: float


def keep_open(spark: SparkSession, workload: Workload, window: Windows, source: Path, data: Path) -> Kept:
    """The workload's commits under these windows, none of which closes."""
    with _filled(spark, replace(workload, window=window), source, data) as (view, ticks):
        table = view.runtime.store.table(f.PARTIALS)
        return Kept(ticks, table.absolute(table.files()))


def same_state(hopping: Kept, tumbling: Kept) -> int:
    """How many rows both states have. Raises unless they hold the same, but for when it was written."""
    columns = f"pane_start, pane_end, k0, * EXCLUDE (pane_start, pane_end, k0, {UPDATED_AT})"
    both = [
        f"SELECT {columns.replace('EXCLUDE (', 'EXCLUDE (hidden_until, ')} FROM read_parquet({hopping.files})",
        f"SELECT {columns} FROM read_parquet({tumbling.files})",
    ]
    with duckdb.connect() as database:
        left, right = (
            database.execute(f"SELECT count(*) FROM (({a}) EXCEPT ALL ({b}))").fetchone() for a, b in (both, both[::-1])
        )
    if left != (0,) or right != (0,) or hopping.state_rows != tumbling.state_rows:
        raise RowsDifferError(f"the states differ: {hopping.state_rows} and {tumbling.state_rows} rows in the epochs")
    return sum(hopping.state_rows)


def close_some(
    spark: SparkSession, workload: Workload, source: Path, data: Path, numbers: Sequence[int]
) -> list[Close]:
    """Fill windows, then close them, so many at a time. The first time of each number is not counted."""
    closes: list[Close] = []
    until, last = workload.window.seconds, int(workload.batches * workload.span_seconds)
    with _filled(spark, workload, source, data) as (view, _):
        _close(view, until)
        for number in cycle(numbers):
            until += number * workload.window.slide
            if until > last:
                break
            tick = _close(view, until)
            closes.append(Close(number, workload.keys, tick.counts["rows_out"], tick.seconds))
            if tick.counts["windows_closed"] != number:
                raise RowsDifferError(f"{tick.counts['windows_closed']} windows closed, and {number} should have")
    _check_results(workload, source, data, until - number * workload.window.slide)
    return closes[len(numbers) :] or closes


@contextmanager
def _filled(spark: SparkSession, workload: Workload, source: Path, data: Path) -> Iterator[tuple[ViewRun, list[Tick]]]:
    """The view with all commits taken and no window closed."""
    ticks = []
    with opened(spark, workload, source, "files", data) as view:
        while (tick := timed_step(view, KEPT_OPEN)) is not None:
            ticks.append(tick)
        yield view, ticks


def _close(view: ViewRun, second: int) -> Tick:
    tick = timed_step(view, Told((BEGIN + second) * MICROS))
    assert tick is not None, f"nothing closes at second {second}"
    return tick


def _check_results(workload: Workload, source: Path, data: Path, until: int) -> None:
    """Compare what came out with the same windows counted by DuckDB, each row in each of its windows."""
    size, slide = workload.window.seconds * MICROS, workload.window.slide * MICROS
    expected = f"""
        SELECT start, start + {size}, k, count(*), sum(amount)
        FROM (SELECT k, amount, t, unnest(range((t - {size}) // {slide} * {slide} + {slide}, t + 1, {slide})) AS start
              FROM (SELECT k, amount, epoch_us(event_time) AS t FROM read_parquet('{source}/*.parquet')))
        WHERE start + {size} <= {(BEGIN + until) * MICROS}
        GROUP BY ALL"""
    results = rows_of(data / VIEW / "output", workload.columns)
    found = f"SELECT epoch_us(window_start), epoch_us(window_end), k, n, total FROM ({results})"
    with duckdb.connect() as database:
        for one, other in ((expected, found), (found, expected)):
            differing = database.execute(f"SELECT count(*) FROM (({one}) EXCEPT ALL ({other}))").fetchone()
            if differing != (0,):
                raise RowsDifferError(f"{workload.name}: {differing} rows differ from what DuckDB counts")
