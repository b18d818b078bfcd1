"""Thousands of small epochs in one process: time, files and memory must not grow. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import Tick, opened, timed_step
from benchmarks.processes import resident_mib
from benchmarks.reporting import RowsDifferError, main_of, milliseconds, parser_for, print_table, say, settings_for
from benchmarks.workloads import Windows, Workload, events, hop, session, tumble, write_commit
from laminar_dagster.engine.run import RunOptions, ViewRun
from laminar_dagster.engine.session import open_session
from state_store import MaintenancePolicy
from state_store import format as f

KINDS: dict[str, Windows] = {"tumble": tumble(60), "hop": hop(10, 60), "session": session(1)}
SPAN_SECONDS = 10
POINTS = 10
TARGET = 1.5


@dataclass(frozen=True)
class Point:
    """How things stood after so many epochs; `seconds` is the median since the point before."""

    epoch: int
    seconds: float
    live: dict[str, int]
    on_disk: dict[str, int]
    log_files: int
    python_mib: int
    jvm_mib: int


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(run, _options(argv))


def run(options: argparse.Namespace) -> dict[str, Any]:
    spark = open_session(settings_for(options))
    workload = Workload("soak", options.rows, options.keys, KINDS[options.kind], options.epochs, span=SPAN_SECONDS)
    with tempfile.TemporaryDirectory(prefix="laminar-soak-") as folder:
        source, data = Path(folder) / "source", Path(folder) / "data"
        write_commit(events(workload, 0), 0, source, options.source)
        with opened(spark, workload, source, options.source, data, _run_options(options)) as view:
            points, ticks = soak(view, workload, source, options.source)
    growth = growth_of(ticks, options.warm_up)
    _print(options, points, ticks, growth)
    if sum(tick.counts["aggregated"] for tick in ticks) != workload.rows * workload.batches:
        raise RowsDifferError("some rows entered no window")
    return _report(points, ticks, growth, options)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--epochs", type=int, default=3_000, help="how many (default: 3,000)")
    parser.add_argument("--kind", choices=KINDS, default="tumble", help="the windows (default: tumble)")
    parser.add_argument("--source", choices=("files", "delta"), default="files", help="Parquet files or a Delta table")
    parser.add_argument("--rows", type=int, default=100, help="rows of an epoch (default: 100)")
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=100, help="epochs not counted at the start (default: 100)")
    parser.add_argument("--default-retention", action="store_true", help="keep what is younger than an hour, as usual")
    options = parser.parse_args(argv)
    if options.quick:
        options.epochs, options.warm_up = min(options.epochs, 24), 2
    return options


def _run_options(options: argparse.Namespace) -> RunOptions:
    """A soak is over before anything is an hour old, so the past is kept by number of epochs only."""
    young = MaintenancePolicy(retain_state=timedelta(0), retain_results=timedelta(0))
    policy = MaintenancePolicy() if options.default_retention else young
    return RunOptions(max_rows=1, max_files=1, maintenance=policy)


def soak(view: ViewRun, workload: Workload, source: Path, kind: str) -> tuple[list[Point], list[Tick]]:
    """One commit, one epoch, over and over; the first commit is there already."""
    ticks: list[Tick] = []
    points: list[Point] = []
    stops = {round(workload.batches * (i + 1) / POINTS) for i in range(POINTS)}
    for batch in range(workload.batches):
        if batch:
            write_commit(events(workload, batch), batch, source, kind)
        tick = timed_step(view)
        assert tick is not None
        ticks.append(tick)
        if batch + 1 in stops:
            since = points[-1].epoch if points else 0
            points.append(point(view, batch + 1, median(tick.seconds for tick in ticks[since:])))
    return points, ticks


def point(view: ViewRun, epoch: int, seconds: float) -> Point:
    """Files of each table that its newest version has, those that lie on the disk, and those of the Delta logs."""
    tables = [view.runtime.store.table(name) for name in (f.EPOCHS, *f.TABLES)]
    found = [table for table in tables if table.exists]
    python, jvm = resident_mib()
    return Point(
        epoch,
        seconds,
        live={table.root.name: len(table.files()) for table in found},
        on_disk={table.root.name: len(data_files(table.root)) for table in found},
        log_files=sum(len(list((table.root / "_delta_log").iterdir())) for table in found),
        python_mib=python,
        jvm_mib=jvm,
    )


def data_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts]


def growth_of(ticks: Sequence[Tick], warm_up: int) -> float:
    """Median of the last tenth over the median of as many epochs after the warm-up."""
    counted = ticks[warm_up:] or ticks
    tenth = max(1, len(counted) // 10)
    return median(tick.seconds for tick in counted[-tenth:]) / median(tick.seconds for tick in counted[:tenth])


def _print(options: argparse.Namespace, points: Sequence[Point], ticks: Sequence[Tick], growth: float) -> None:
    names = list(points[-1].live)
    print_table(
        f"{options.epochs:,} epochs of {options.rows} rows, {options.kind} windows, {options.source} "
        "(files: in the newest version / on disk)",
        ("epoch", "ms", *names, "logs", "Python MiB", "JVM MiB"),
        [
            (
                f"{at.epoch:,}",
                milliseconds(at.seconds),
                *(f"{at.live.get(name, 0)} / {at.on_disk.get(name, 0)}" for name in names),
                str(at.log_files),
                str(at.python_mib),
                str(at.jvm_mib),
            )
            for at in points
        ],
    )
    slowest = max(tick.seconds for tick in ticks[options.warm_up :] or ticks)
    say(
        f"last tenth / first tenth after {options.warm_up} epochs: {growth:.2f} (target: at most {TARGET}); "
        f"slowest epoch {milliseconds(slowest)} ms"
    )


def _report(
    points: Sequence[Point], ticks: Sequence[Tick], growth: float, options: argparse.Namespace
) -> dict[str, Any]:
    return {
        "kind": options.kind,
        "source": options.source,
        "growth": round(growth, 3),
        "points": [asdict(at) for at in points],
        "times_ms": [round(tick.seconds * 1000, 1) for tick in ticks],
        "steps_ms": [{step: round(s * 1000, 1) for step, s in tick.steps.items()} for tick in ticks],
        "rows_out": sum(tick.counts["rows_out"] for tick in ticks),
    }


if __name__ == "__main__":
    sys.exit(main())
