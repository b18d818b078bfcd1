"""Runs a workload on both sides in turns, in one JVM, and compares their rows before anybody looks at a time."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import duckdb
from deltalake import DeltaTable

from benchmarks.contenders import ROCKSDB, Outcome, Tick, run_ours, run_structured_streaming
from benchmarks.processes import cpu_seconds
from benchmarks.reporting import RowsDifferError, milliseconds, print_table, say, settings_for
from benchmarks.workloads import Workload, quick, write_source
from laminar_dagster.engine.session import open_session, session_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_CHOICES = (1, 2, 4)
WARM_UP_BATCHES = 2
TUNING_BATCHES = 5
Runner = Callable[["SparkSession", Workload, Path, str, Path], Outcome]


@dataclass
class Measured:
    """All rounds of one workload: the micro-batches after warm-up, of each side."""

    workload: Workload
    partitions: int
    rows_out: int = 0
    ours: list[list[Tick]] = field(default_factory=list)
    theirs: list[list[Tick]] = field(default_factory=list)
    our_cpu: list[float] = field(default_factory=list)
    their_cpu: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(seconds_of(self.theirs)) / median(seconds_of(self.ours))

    @property
    def mean_ratio(self) -> float:
        """The ratio of whole runs: what a median hides, such as the one epoch that closes a million groups."""
        return mean(seconds_of(self.theirs)) / mean(seconds_of(self.ours))

    @property
    def cpu_ratio(self) -> float:
        """The ratio of processor time over whole runs: depends least on what else the machine does."""
        return sum(self.their_cpu) / sum(self.our_cpu) if sum(self.our_cpu) else 0.0

    def growth(self) -> list[tuple[int, float, float]]:
        """Open groups, and the median time of either side at that point of the run."""
        ours = [median(t.seconds for t in column) for column in zip(*self.ours, strict=True)]
        theirs = [median(t.seconds for t in column) for column in zip(*self.theirs, strict=True)]
        opened = [tick.open_groups or 0 for tick in self.theirs[0]]
        return list(zip(opened, ours, theirs, strict=True))


def seconds_of(rounds: Sequence[Sequence[Tick]]) -> list[float]:
    return [tick.seconds for ticks in rounds for tick in ticks]


SUMMARY = ("workload", "rows out", "ours", "Structured Streaming", "ratio", "target", "of means", "of CPU")


def summary(measured: Measured) -> tuple[str, ...]:
    """A line of a table with these headings; times are medians, in milliseconds."""
    return (
        measured.workload.name,
        f"{measured.rows_out:,}",
        milliseconds(median(seconds_of(measured.ours))),
        milliseconds(median(seconds_of(measured.theirs))),
        f"{measured.ratio:.2f}",
        f"{measured.workload.target:.1f}" if measured.workload.target else "-",
        f"{measured.mean_ratio:.2f}",
        f"{measured.cpu_ratio:.2f}",
    )


def report(results: Sequence[Measured], options: argparse.Namespace) -> dict[str, Any]:
    """All of it for a machine."""
    return {
        "ratios": {m.workload.name: round(m.ratio, 3) for m in results},
        "ratios_of_means": {m.workload.name: round(m.mean_ratio, 3) for m in results},
        "ratios_of_cpu": {m.workload.name: round(m.cpu_ratio, 3) for m in results},
        "targets": {m.workload.name: m.workload.target for m in results},
        "rows_out": {m.workload.name: m.rows_out for m in results},
        "ours": {m.workload.name: figures(m.ours) for m in results},
        "structured_streaming": {m.workload.name: figures(m.theirs) for m in results},
        "shuffle_partitions": {m.workload.name: m.partitions for m in results},
        "source": options.source,
        "state_store": "rocksdb" if options.rocksdb else "default",
    }


def figures(rounds: Sequence[Sequence[Tick]]) -> dict[str, Any]:
    times = [round(seconds * 1000, 1) for seconds in seconds_of(rounds)]
    return {
        "median_ms": round(median(times), 1),
        "mean_ms": round(mean(times), 1),
        "times_ms": times,
        "steps_ms": {step: round(seconds * 1000, 1) for step, seconds in step_medians(rounds).items()},
    }


def step_medians(rounds: Sequence[Sequence[Tick]]) -> dict[str, float]:
    """How long each step of an epoch takes, where the side has such steps; compaction only where it ran."""
    ticks = [tick for one in rounds for tick in one]
    steps = {step: None for tick in ticks for step in tick.steps}
    return {step: median(tick.steps[step] for tick in ticks if step in tick.steps) for step in steps}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `Bench` reads."""
    parser.add_argument("--batches", type=int, help="source commits per run, in place of the workload's own number")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs, in turns (default: 2)")
    parser.add_argument("--source", choices=("files", "delta"), default="files", help="Parquet files or a Delta table")
    parser.add_argument("--rocksdb", action="store_true", help="give Structured Streaming the RocksDB state store")
    parser.add_argument("--partitions", type=int, help="Structured Streaming's shuffle partitions, in place of tuning")


class Bench:
    """One JVM for both sides; each side has a session of its own, since both set shuffle partitions."""

    def __init__(self, root: Path, options: argparse.Namespace, contender: Runner = run_structured_streaming) -> None:
        self.root, self.kind, self.contender = root, options.source, contender
        self.rounds = 1 if options.quick else options.rounds
        self.choices = (options.partitions,) if options.partitions else PARTITION_CHOICES
        self.tune = not options.quick
        settings = settings_for(options)
        self.spark = open_session(settings)
        self.theirs = self.spark.newSession()
        for key, value in session_conf(settings).items():
            self.theirs.conf.set(key, value)
        self.theirs.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        if options.rocksdb:
            self.theirs.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)

    def run(self, workload: Workload) -> Measured:
        source = self.root / workload.name / "source"
        say(f"{workload.name}: writing {workload.batches} × {workload.rows:,} rows")
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
        say(f"{workload.name}: Structured Streaming with {best} shuffle partition(s) ({shown})")
        return best

    def _quickest(self, partitions: int, workload: Workload, source: Path) -> float:
        self.theirs.conf.set("spark.sql.shuffle.partitions", str(partitions))
        outcome = self._once(self.contender, self.theirs, workload, source)
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
            ("theirs", self.contender, self.theirs),
        ]
        outcomes: dict[str, Outcome] = {}
        used: dict[str, float] = {}
        for name, runner, spark in sides if number % 2 == 0 else reversed(sides):
            before = cpu_seconds()
            outcomes[name] = runner(spark, workload, source, self.kind, data / name)
            used[name] = cpu_seconds() - before
            say(f"{workload.name}: round {number + 1}, {name} done")
        measured.rows_out = same_rows(workload, outcomes["ours"], outcomes["theirs"])
        measured.ours.append(outcomes["ours"].ticks[WARM_UP_BATCHES:])
        measured.theirs.append(outcomes["theirs"].ticks[WARM_UP_BATCHES:])
        measured.our_cpu.append(used["ours"])
        measured.their_cpu.append(used["theirs"])
        shutil.rmtree(data)


def by_steps(bench: Bench, workloads: Mapping[str, Workload], options: argparse.Namespace) -> dict[str, Any]:
    """The workloads that were asked for, on both sides, with what each step of our epochs takes."""
    chosen = [workloads[name] for name in options.workload or workloads]
    if options.quick:
        chosen = [quick(workload) for workload in chosen]
    sized = [workload.with_batches(options.batches) if options.batches else workload for workload in chosen]
    results = [bench.run(workload) for workload in sized]
    print_table(
        "Milliseconds per micro-batch, median after warm-up",
        (*SUMMARY, "our steps"),
        [
            (
                *summary(measured),
                ", ".join(f"{step} {milliseconds(s)}" for step, s in step_medians(measured.ours).items()),
            )
            for measured in results
        ],
    )
    return report(results, options)


def same_rows(workload: Workload, ours: Outcome, theirs: Outcome) -> int:
    """How many rows both sides put out. Raises unless they are the same, one micro-batch for each commit."""
    if not len(ours.ticks) == len(theirs.ticks) == workload.batches:
        raise RowsDifferError(
            f"{workload.name}: {workload.batches} commits became {len(ours.ticks)} epochs here and "
            f"{len(theirs.ticks)} micro-batches there"
        )
    return same_output(workload, ours.output, theirs.output)


def same_output(workload: Workload, ours: Path, theirs: Path) -> int:
    """How many rows both tables have. Raises unless they are the same rows, and some."""
    columns = workload.columns
    only_ours, only_theirs, total = _difference(rows_of(ours, columns), rows_of(theirs, columns))
    if only_ours or only_theirs or not total:
        raise RowsDifferError(
            f"{workload.name}: of {total} rows here {only_ours} are not in the other side's output, "
            f"and {only_theirs} of its rows are missing here"
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


def rows_of(table: Path, columns: str) -> str:
    """The table's rows as SQL; where no window closed there may be no table."""
    files = DeltaTable(str(table)).file_uris() if DeltaTable.is_deltatable(str(table)) else []
    if not files:
        return f"SELECT {', '.join(f'NULL AS {name}' for name in columns.split(', '))} LIMIT 0"
    listed = ", ".join(f"'{file}'" for file in files)
    return f"SELECT {columns} FROM read_parquet([{listed}], hive_partitioning = false)"
