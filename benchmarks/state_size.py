"""How much state a long window keeps: in proportion to its groups, not to its events. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.progress import track

from benchmarks.contenders import opened, timed_step
from benchmarks.reporting import RowsDifferError, main_of, parser_for, print_table, say, settings_for
from benchmarks.workloads import VIEW, Workload, tumble, write_source
from laminar_dagster.engine.compaction import compact_if_due
from laminar_dagster.engine.run import ViewRun
from laminar_dagster.engine.session import open_session
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_SECONDS = 3_600


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(fill, _options(argv))


def fill(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="laminar-state-size-") as folder:
        workload = hour_of(options.rows, options.groups, options.commits)
        say(f"writing {workload.batches} commits of {workload.rows:,} rows, {workload.keys:,} groups")
        write_source(workload, Path(folder) / "source", "files")
        report = measure(open_session(settings_for(options)), workload, Path(folder))
    _print(workload, report)
    require_a_row_per_group(report)
    return report


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="events in the window (default: 10 million)")
    parser.add_argument("--groups", type=int, default=10_000, help="groups in the window (default: 10,000)")
    parser.add_argument("--commits", type=int, default=100, help="source commits, one epoch each (default: 100)")
    options = parser.parse_args(argv)
    if options.quick:
        options.rows, options.groups, options.commits = 4_000, 50, 4
    return options


def hour_of(rows: int, groups: int, commits: int) -> Workload:
    """All commits fall into one hour, which stays open."""
    return Workload(
        "state_size",
        rows=rows // commits,
        keys=groups,
        window=tumble(HOUR_SECONDS),
        batches=commits,
        batches_per_window=commits,
    )


def measure(spark: SparkSession, workload: Workload, root: Path) -> dict[str, Any]:
    """Take every commit in an epoch of its own, look at the state, merge it all, and look again."""
    with opened(spark, workload, root / "source", "files", root / "data") as view:
        start = perf_counter()
        most_files = most_rows = 0
        for _ in track(range(workload.batches), description="epochs"):
            tick = timed_step(view)
            assert tick is not None
            most_rows = max(most_rows, tick.counts["groups_touched"])
            most_files = max(most_files, size_of(view)["files"])
        seconds, before = perf_counter() - start, size_of(view)
        start = perf_counter()
        compact_if_due(view.runtime, threshold=1)
        return {
            "events": workload.rows * workload.batches,
            "epochs": workload.batches,
            "groups": _groups(view),
            "most_files": most_files,
            "most_rows_of_an_epoch": most_rows,
            "before": before,
            "after": size_of(view),
            "seconds": {"epochs": round(seconds, 1), "compaction": round(perf_counter() - start, 2)},
        }


def require_a_row_per_group(report: dict[str, Any]) -> None:
    """What a merge leaves."""
    if report["after"]["rows"] != report["groups"]:
        raise RowsDifferError(f"{report['after']['rows']} rows of state for {report['groups']} groups")


def size_of(view: ViewRun) -> dict[str, int]:
    """The live files of the state, and what they hold."""
    files = view.runtime.store.table(f.PARTIALS).files()
    return {
        "files": len(files),
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size for file in files),
    }


def _groups(view: ViewRun) -> int:
    """Distinct (window, key) pairs, counted by other code than the engine's."""
    import duckdb

    table = view.runtime.store.table(f.PARTIALS)
    with duckdb.connect() as database:
        files = table.absolute(table.files())
        found = database.execute(
            "SELECT count(*) FROM (SELECT DISTINCT pane_start, k0 FROM read_parquet(?, hive_partitioning = false))",
            [files],
        ).fetchone()
    assert found is not None
    return int(found[0])


def _print(workload: Workload, report: dict[str, Any]) -> None:
    events = report["events"]
    print_table(
        f"State of {VIEW}: {events:,} events in {report['groups']:,} groups",
        ("", "rows", "files", "bytes", "rows per group", "bytes per group", "events per state row"),
        [(f"{when} compaction", *_sizes(report[when], report["groups"], events)) for when in ("before", "after")],
    )
    say(
        f"{workload.batches} epochs took {report['seconds']['epochs']} s, with compaction along the way: never more "
        f"than {report['most_files']} files. The last merge took {report['seconds']['compaction']} s."
    )


def _sizes(size: dict[str, int], groups: int, events: int) -> tuple[str, ...]:
    return (
        f"{size['rows']:,}",
        f"{size['files']:,}",
        f"{size['bytes']:,}",
        f"{size['rows'] / groups:.1f}",
        f"{size['bytes'] / groups:.0f}",
        f"{events / size['rows']:,.0f}",
    )


if __name__ == "__main__":
    sys.exit(main())
