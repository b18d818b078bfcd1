"""What an epoch costs, side by side with a micro-batch of Spark Structured Streaming. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import duckdb
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import ROCKSDB, Outcome, Tick, run_ours, run_structured_streaming
from benchmarks.workloads import WORKLOADS, Workload, quick, write_source
from laminar_dagster.engine.session import SparkSettings, open_session, session_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "window_start, window_end, k, n, total"
PARTITION_CHOICES = (1, 2, 4)
WARM_UP_BATCHES = 2
TUNING_BATCHES = 5
Runner = Callable[["SparkSession", Workload, Path, str, Path], Outcome]


class RowsDifferError(Exception):
    """The two sides do not agree: their times mean nothing."""


@dataclass
class Measured:
    """All rounds of one workload: the micro-batches after warm-up, of each side."""

    workload: Workload
    partitions: int
    rows_out: int = 0
    ours: list[list[Tick]] = field(default_factory=list)
    theirs: list[list[Tick]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(_seconds(self.theirs)) / median(_seconds(self.ours))

    @property
    def mean_ratio(self) -> float:
        """The ratio of whole runs: what a median hides, such as the one epoch that closes a million groups."""
        return mean(_seconds(self.theirs)) / mean(_seconds(self.ours))

    def growth(self) -> list[tuple[int, float, float]]:
        """Open groups, and the median time of either side at that point of the run."""
        ours = [median(t.seconds for t in column) for column in zip(*self.ours, strict=True)]
        theirs = [median(t.seconds for t in column) for column in zip(*self.theirs, strict=True)]
        opened = [tick.open_groups or 0 for tick in self.theirs[0]]
        return list(zip(opened, ours, theirs, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    console = Console(width=110)
    results: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="laminar-epoch-cost-") as folder:
        bench = Bench(_settings(options), Path(folder), options, console)
        try:
            for workload in _chosen(options):
                results.append(bench.run(workload))
                _print_workload(console, results[-1])
        except RowsDifferError as difference:
            print(f"error: {difference}", file=sys.stderr)
            return 1
    _print_summary(console, results)
    if options.json:
        options.json.write_text(json.dumps(_report(results, options), indent=2) + "\n")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--batches", type=int, help="source commits per run, in place of the workload's own number")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs, in turns (default: 2)")
    parser.add_argument("--source", choices=("files", "delta"), default="files", help="Parquet files or a Delta table")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only shows that it runs and rows agree")
    parser.add_argument("--rocksdb", action="store_true", help="give Structured Streaming the RocksDB state store")
    parser.add_argument("--partitions", type=int, help="Structured Streaming's shuffle partitions, in place of tuning")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--spark", default="local[*]", help="Spark master (default: local[*])")
    parser.add_argument("--driver-memory", default="3g")
    return parser.parse_args(argv)


def _settings(options: argparse.Namespace) -> SparkSettings:
    if options.quick:
        return SparkSettings.for_tests(options.spark)
    return SparkSettings(spark=options.spark, driver_memory=options.driver_memory)


def _chosen(options: argparse.Namespace) -> list[Workload]:
    chosen = [WORKLOADS[name] for name in options.workload or WORKLOADS]
    if options.quick:
        chosen = [quick(workload) for workload in chosen]
    return [workload.with_batches(options.batches) if options.batches else workload for workload in chosen]


class Bench:
    """One JVM for both sides; each side has a session of its own, since both set shuffle partitions."""

    def __init__(self, settings: SparkSettings, root: Path, options: argparse.Namespace, console: Console) -> None:
        self.root, self.kind, self.console = root, options.source, console
        self.rounds = 1 if options.quick else options.rounds
        self.choices = (options.partitions,) if options.partitions else PARTITION_CHOICES
        self.tune = not options.quick
        self.spark = open_session(settings)
        self.theirs = self.spark.newSession()
        for key, value in session_conf(settings).items():
            self.theirs.conf.set(key, value)
        self.theirs.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        if options.rocksdb:
            self.theirs.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)

    def run(self, workload: Workload) -> Measured:
        source = self.root / workload.name / "source"
        self.console.print(f"{workload.name}: writing {workload.batches} × {workload.rows:,} rows")
        write_source(workload, source, self.kind)
        measured = Measured(workload, self._warm_up_and_tune(workload) if self.tune else 1)
        for number in range(self.rounds):
            self._round(measured, source, number)
        shutil.rmtree(self.root / workload.name)
        return measured

    def _warm_up_and_tune(self, workload: Workload) -> int:
        """Both sides on the first batches, until the JVM has compiled them; gives Structured Streaming's best.

        Judged by the quickest batch of two passes in opposite order, after a pass that is thrown away: on a shared
        machine a median of a few batches picks whichever choice the neighbours left alone, to its disadvantage.
        """
        short = workload.with_batches(min(TUNING_BATCHES, workload.batches))
        source = self.root / workload.name / "warm-up"
        write_source(short, source, self.kind)
        self._once(run_ours, self.spark, short, source)
        self._quickest(self.choices[0], short, source)
        times: dict[int, float] = {}
        for partitions in (*self.choices, *reversed(self.choices)):
            times[partitions] = min(times.get(partitions, float("inf")), self._quickest(partitions, short, source))
        best = min(times, key=lambda partitions: times[partitions])
        self.theirs.conf.set("spark.sql.shuffle.partitions", str(best))
        shown = ", ".join(f"{partitions}: {seconds * 1000:.0f} ms" for partitions, seconds in times.items())
        self.console.print(f"{workload.name}: Structured Streaming with {best} shuffle partition(s) ({shown})")
        return best

    def _quickest(self, partitions: int, workload: Workload, source: Path) -> float:
        self.theirs.conf.set("spark.sql.shuffle.partitions", str(partitions))
        outcome = self._once(run_structured_streaming, self.theirs, workload, source)
        return min(tick.seconds for tick in outcome.ticks[WARM_UP_BATCHES:])

    def _once(self, runner: Runner, spark: SparkSession, workload: Workload, source: Path) -> Outcome:
        data = Path(tempfile.mkdtemp(dir=self.root))
        outcome = runner(spark, workload, source, self.kind, data)
        shutil.rmtree(data)
        return outcome

    def _round(self, measured: Measured, source: Path, number: int) -> None:
        """Each side once, in turns as to who begins, into fresh directories; then their rows are compared."""
        workload = measured.workload
        data = self.root / workload.name / f"round-{number}"
        sides: list[tuple[str, Runner, SparkSession]] = [
            ("ours", run_ours, self.spark),
            ("theirs", run_structured_streaming, self.theirs),
        ]
        outcomes: dict[str, Outcome] = {}
        for name, runner, spark in sides if number % 2 == 0 else reversed(sides):
            outcomes[name] = runner(spark, workload, source, self.kind, data / name)
            self.console.print(f"{workload.name}: round {number + 1}, {name} done")
        measured.rows_out = same_rows(workload, outcomes["ours"], outcomes["theirs"])
        measured.ours.append(outcomes["ours"].ticks[WARM_UP_BATCHES:])
        measured.theirs.append(outcomes["theirs"].ticks[WARM_UP_BATCHES:])
        shutil.rmtree(data)


def same_rows(workload: Workload, ours: Outcome, theirs: Outcome) -> int:
    """How many rows both sides put out. Raises unless they are the same, one micro-batch for each commit."""
    if not len(ours.ticks) == len(theirs.ticks) == workload.batches:
        raise RowsDifferError(
            f"{workload.name}: {workload.batches} commits became {len(ours.ticks)} epochs here and "
            f"{len(theirs.ticks)} micro-batches there"
        )
    left, right = _rows(ours.output), _rows(theirs.output)
    only_left, only_right, total = _difference(left, right)
    if only_left or only_right or not total:
        raise RowsDifferError(
            f"{workload.name}: of {total} rows here {only_left} are not in Structured Streaming's output, "
            f"and {only_right} of its rows are missing here"
        )
    return total


def _difference(left: str, right: str) -> tuple[int, int, int]:
    with duckdb.connect() as database:
        found = database.execute(
            f"""SELECT (SELECT count(*) FROM ({left} EXCEPT ALL {right})),
                       (SELECT count(*) FROM ({right} EXCEPT ALL {left})), (SELECT count(*) FROM ({left}))"""
        ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1]), int(found[2])


def _rows(table: Path) -> str:
    """The table's rows as SQL; where no window closed there may be no table."""
    files = DeltaTable(str(table)).file_uris() if DeltaTable.is_deltatable(str(table)) else []
    if not files:
        return f"SELECT {', '.join(f'NULL AS {name}' for name in COLUMNS.split(', '))} LIMIT 0"
    listed = ", ".join(f"'{file}'" for file in files)
    return f"SELECT {COLUMNS} FROM read_parquet([{listed}], hive_partitioning = false)"


def flatness(rounds: Sequence[Sequence[Tick]], workload: Workload) -> float:
    """Median of the last third over median of the first third, as long as the window fills; 1 is flat."""
    until = max(3, workload.batches_per_window - WARM_UP_BATCHES) if workload.batches_per_window > 1 else None
    filling = [ticks[:until] for ticks in rounds]
    third = max(1, len(filling[0]) // 3)
    last = median(tick.seconds for ticks in filling for tick in ticks[-third:])
    return last / median(tick.seconds for ticks in filling for tick in ticks[:third])


def _seconds(rounds: Sequence[Sequence[Tick]]) -> list[float]:
    return [tick.seconds for ticks in rounds for tick in ticks]


def _print_workload(console: Console, measured: Measured) -> None:
    if measured.workload.batches_per_window == 1:
        return
    table = Table(title=f"{measured.workload.name}: milliseconds as open groups grow", title_justify="left")
    for heading in ("open groups", "ours", "Structured Streaming"):
        table.add_column(heading, justify="right")
    for opened, ours, theirs in measured.growth():
        table.add_row(f"{opened:,}", f"{ours * 1000:.0f}", f"{theirs * 1000:.0f}")
    console.print(table)


def _print_summary(console: Console, results: Sequence[Measured]) -> None:
    table = Table(title="Milliseconds per micro-batch, median after warm-up", title_justify="left")
    for heading in ("workload", "rows out", "ours", "Structured Streaming", "ratio", "target", "of means", "flatness"):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for measured in results:
        workload = measured.workload
        table.add_row(
            workload.name,
            f"{measured.rows_out:,}",
            f"{median(_seconds(measured.ours)) * 1000:.0f}",
            f"{median(_seconds(measured.theirs)) * 1000:.0f}",
            f"{measured.ratio:.2f}",
            f"{workload.target:.1f}" if workload.target else "-",
            f"{measured.mean_ratio:.2f}",
            f"{flatness(measured.ours, workload):.2f} / {flatness(measured.theirs, workload):.2f}",
        )
    console.print(table)
    console.print(
        "Rows of both sides are the same. Flatness: last third over first third, ours / Structured Streaming."
    )


def _report(results: Sequence[Measured], options: argparse.Namespace) -> dict[str, Any]:
    names = [measured.workload.name for measured in results]
    large = next((m for m in results if m.workload.batches_per_window > 1), None)
    return {
        "ratios": {m.workload.name: round(m.ratio, 3) for m in results},
        "ratios_of_means": {m.workload.name: round(m.mean_ratio, 3) for m in results},
        "targets": {m.workload.name: m.workload.target for m in results},
        "rows_out": {m.workload.name: m.rows_out for m in results},
        "ours": dict(zip(names, [_figures(m.ours, m.workload) for m in results], strict=True)),
        "structured_streaming": dict(zip(names, [_figures(m.theirs, m.workload) for m in results], strict=True)),
        "flatness": None if large is None else round(flatness(large.ours, large.workload), 3),
        "growth": [] if large is None else [[n, round(o, 4), round(t, 4)] for n, o, t in large.growth()],
        "shuffle_partitions": {m.workload.name: m.partitions for m in results},
        "quick": options.quick,
        "source": options.source,
        "state_store": "rocksdb" if options.rocksdb else "default",
        "machine": _machine(),
    }


def _figures(rounds: Sequence[Sequence[Tick]], workload: Workload) -> dict[str, Any]:
    milliseconds = [round(seconds * 1000, 1) for seconds in _seconds(rounds)]
    return {
        "median_ms": round(median(milliseconds), 1),
        "mean_ms": round(mean(milliseconds), 1),
        "flatness": round(flatness(rounds, workload), 3),
        "times_ms": milliseconds,
    }


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("pyspark", "delta-spark", "deltalake")},
    }


if __name__ == "__main__":
    sys.exit(main())
