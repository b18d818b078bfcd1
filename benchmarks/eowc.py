"""What closing a window costs when its state is accumulators and not rows. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.filling import Filled, fill_and_close
from benchmarks.reporting import RowsDifferError, main_of, milliseconds, parser_for, print_table, say, settings_for
from benchmarks.side_by_side import same_output
from benchmarks.state_size import hour_of, measure, require_a_row_per_group
from benchmarks.workloads import Workload, tumble, write_source
from laminar_dagster.engine.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = ("raw", "close", "state")
EPOCHS = 20
SIDES = ("ours", "raw")


@dataclass(frozen=True)
class Shape:
    """So many windows, each with so many events in so many groups, filled together and closed at once."""

    events: int
    groups: int
    windows: int = 1

    @property
    def name(self) -> str:
        return f"{self.windows} × {self.events:,}"

    def workload(self, epochs: int) -> Workload:
        """An hour, or several minutes, in equal epochs."""
        seconds = 3_600 if self.windows == 1 else 60
        rows = self.events * self.windows // epochs
        span = self.windows * seconds / epochs
        return Workload(self.name, rows, self.groups, tumble(seconds), batches=epochs, span=span)


# A thousand events are next to none: what is left is what any epoch costs.
RAW = (Shape(1_000, 100), Shape(100_000, 100), Shape(1_000_000, 100), Shape(10_000_000, 100), Shape(100_000, 100, 100))
CLOSE = (Shape(100_000, 10_000), Shape(10_000_000, 10_000))
Results = dict[str, dict[str, list[Filled]]]
RAW_TABLES = {
    "Closing, accumulators against raw rows: milliseconds (ratio: raw / accumulators)": {
        "the epoch": "close_seconds",
        "CPU": "close_cpu",
        "CPU of tasks": "close_tasks",
    },
    "Closing: what is read": {"state rows": "state_rows", "bytes": "state_bytes"},
    "All epochs and the close; a look at the open windows in each epoch; both: milliseconds": {
        "all": "all_seconds",
        "looks": "look_seconds",
        "both": "watched_seconds",
    },
}
GROUPS = (100, 1_000, 10_000)
STATE_EVENTS = 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(close_windows, _options(argv))


def close_windows(options: argparse.Namespace) -> dict[str, Any]:
    spark = open_session(settings_for(options))
    with tempfile.TemporaryDirectory(prefix="laminar-eowc-") as folder:
        bench = Bench(spark, Path(folder), options)
        parts = {"raw": bench.against_raw, "close": bench.by_events, "state": bench.by_groups}
        return {part: parts[part]() for part in options.part or PARTS}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs, in turns (default: 3)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"epochs that fill a window (default: {EPOCHS})")
    parser.add_argument("--most-events", type=int, default=10_000_000, help="leave out windows with more events")
    return parser.parse_args(argv)


class Bench:
    def __init__(self, spark: SparkSession, root: Path, options: argparse.Namespace) -> None:
        self.spark, self.root = spark, root
        self.rounds = 1 if options.quick else options.rounds
        self.epochs = 3 if options.quick else options.epochs
        self.most = options.most_events
        self.scale = 1_000 if options.quick else 1
        self.warm = options.quick

    def against_raw(self) -> dict[str, Any]:
        """The same windows with accumulators and with raw rows."""
        results = {shape.name: self._runs(shape, SIDES) for shape in self._sized(RAW)}
        _print_raw(results)
        return {name: {side: _figures(runs[side]) for side in SIDES} for name, runs in results.items()}

    def by_events(self) -> dict[str, Any]:
        """Windows of the same groups and of few or many events."""
        results = {shape.name: self._runs(shape, ("ours",))["ours"] for shape in self._sized(CLOSE)}
        _print_by_events(results)
        return {name: _figures(runs) for name, runs in results.items()}

    def by_groups(self) -> dict[str, Any]:
        """State rows of an hour with the same number of events in few or many groups."""
        found = {}
        for groups in GROUPS:
            workload = hour_of(STATE_EVENTS // self.scale, max(5, groups // self.scale), self.epochs)
            place = self.root / f"groups-{groups}"
            write_source(workload, place / "source", "files")
            found[str(workload.keys)] = measure(self.spark, workload, place)
            shutil.rmtree(place)
        _print_by_groups(found)
        for state in found.values():
            require_a_row_per_group(state)
        return found

    def _sized(self, shapes: Sequence[Shape]) -> list[Shape]:
        if self.scale == 1:
            return [shape for shape in shapes if shape.events <= self.most]
        small = {Shape(max(600, s.events // self.scale // 10), 5, min(s.windows, 3)) for s in shapes}
        return sorted(small, key=lambda shape: (shape.windows, shape.events))

    def _runs(self, shape: Shape, sides: Sequence[str]) -> dict[str, list[Filled]]:
        """Each side as often as there are rounds, in turns as to who begins; rows are compared each time."""
        workload = shape.workload(self.epochs)
        place = self.root / "shape"
        say(f"{shape.name} events, {shape.groups:,} groups: {workload.batches} × {workload.rows:,} rows")
        write_source(workload, place / "source", "files")
        self._warm_up(shape, sides)
        runs: dict[str, list[Filled]] = {side: [] for side in sides}
        for number in range(self.rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                data = place / f"{side}-{number}"
                runs[side].append(fill_and_close(self.spark, workload, place / "source", data, raw=side == "raw"))
            self._compare(shape, [runs[side][-1] for side in sides])
        shutil.rmtree(place)
        return runs

    def _warm_up(self, shape: Shape, sides: Sequence[str]) -> None:
        """Once, so that the JVM has compiled what both sides do."""
        if self.warm:
            return
        self.warm = True
        workload = Shape(100_000, shape.groups).workload(self.epochs)
        write_source(workload, self.root / "warm-up" / "source", "files")
        for side in (*sides, *sides):
            place = Path(tempfile.mkdtemp(dir=self.root))
            fill_and_close(self.spark, workload, self.root / "warm-up" / "source", place, raw=side == "raw")

    def _compare(self, shape: Shape, runs: Sequence[Filled]) -> None:
        """The same rows on both sides, and every event in them."""
        same_output(shape.workload(self.epochs), runs[0].output, runs[-1].output)
        expected = shape.workload(self.epochs).rows * self.epochs
        for run in runs:
            if run.events != expected:
                raise RowsDifferError(f"{shape.name}: the results hold {run.events} of {expected} events")


def _middle(runs: Sequence[Filled], figure: str) -> float:
    return float(median(getattr(run, figure) for run in runs))


def _print_raw(results: Results) -> None:
    for title, columns in RAW_TABLES.items():
        headings = [text for heading in columns for text in (heading, "raw", "ratio")]
        rows = [
            (name, *(text for figure in columns.values() for text in _compared(runs, figure)))
            for name, runs in results.items()
        ]
        print_table(title, ("windows × events", *headings), rows)


def _compared(runs: dict[str, list[Filled]], figure: str) -> tuple[str, str, str]:
    """Ours, theirs, and how many times more the other side takes."""
    ours, raw = (_middle(runs[side], figure) for side in SIDES)
    scale = 1 if figure.startswith("state") else 1_000
    return f"{ours * scale:,.0f}", f"{raw * scale:,.0f}", f"{raw / ours:.1f}" if ours else "-"


def _print_by_events(results: dict[str, list[Filled]]) -> None:
    print_table(
        "Closing a window of the same groups (target: within 1.5 times)",
        ("windows × events", "epoch ms", "ratio", "close step", "CPU", "CPU of tasks", "state rows", "files"),
        [
            (
                name,
                milliseconds(_middle(runs, "close_seconds")),
                f"{_middle(runs, 'close_seconds') / _middle(next(iter(results.values())), 'close_seconds'):.2f}",
                *(milliseconds(_middle(runs, figure)) for figure in ("close_step", "close_cpu", "close_tasks")),
                f"{_middle(runs, 'state_rows'):,.0f}",
                f"{_middle(runs, 'state_files'):,.0f}",
            )
            for name, runs in results.items()
        ],
    )


def _print_by_groups(found: dict[str, Any]) -> None:
    print_table(
        "State of an hour: rows in proportion to groups",
        ("groups", "events", "epochs", "rows of an epoch", "rows at the end", "files", "after a merge", "per group"),
        [
            (
                f"{state['groups']:,}",
                f"{state['events']:,}",
                f"{state['epochs']}",
                f"{state['most_rows_of_an_epoch']:,}",
                f"{state['before']['rows']:,}",
                f"{state['before']['files']}",
                f"{state['after']['rows']:,}",
                f"{state['after']['rows'] / state['groups']:.2f}",
            )
            for state in found.values()
        ],
    )


def _figures(runs: Sequence[Filled]) -> dict[str, Any]:
    names = ("close_seconds", "close_step", "close_cpu", "close_tasks", "state_rows", "state_files", "state_bytes")
    whole = ("all_seconds", "look_seconds", "watched_seconds")
    return {name: [round(float(getattr(run, name)), 4) for run in runs] for name in (*names, *whole)}


if __name__ == "__main__":
    sys.exit(main())
