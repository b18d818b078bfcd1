"""How much state a long window keeps: in proportion to its groups, not to its events. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.workloads import VIEW, Workload, view_sql, write_source
from laminar_dagster.engine.compaction import compact_if_due
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.engine.session import SparkSettings, open_session
from laminar_dagster.plan.build import plan_script
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_SECONDS = 3_600


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="laminar-state-size-") as folder:
        workload = _workload(options)
        console.print(f"writing {workload.batches} commits of {workload.rows:,} rows, {workload.keys:,} groups")
        write_source(workload, Path(folder) / "source", "files")
        spark = open_session(SparkSettings(spark=options.spark, driver_memory=options.driver_memory))
        report = measure(spark, workload, Path(folder))
    _print(console, workload, report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if report["after"]["rows"] != report["groups"]:
        print(f"error: {report['after']['rows']} rows of state for {report['groups']} groups", file=sys.stderr)
        return 1
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="events in the window (default: 10 million)")
    parser.add_argument("--groups", type=int, default=10_000, help="groups in the window (default: 10,000)")
    parser.add_argument("--commits", type=int, default=100, help="source commits, one epoch each (default: 100)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--spark", default="local[*]", help="Spark master (default: local[*])")
    parser.add_argument("--driver-memory", default="2g")
    return parser.parse_args(argv)


def _workload(options: argparse.Namespace) -> Workload:
    """All commits fall into one hour, which stays open."""
    return Workload(
        "state_size",
        rows=options.rows // options.commits,
        keys=options.groups,
        window_seconds=HOUR_SECONDS,
        batches=options.commits,
        batches_per_window=options.commits,
        target=0.0,
    )


def measure(spark: SparkSession, workload: Workload, root: Path) -> dict[str, Any]:
    """Take every commit in an epoch of its own, look at the state, merge it all, and look again."""
    (plan,) = plan_script(view_sql(workload, root / "source", "files"))
    options = RunOptions(max_rows=1, max_files=1)
    with open_view(plan, spark, project=root, data=root / "data", options=options) as view:
        start = perf_counter()
        most_files = 0
        for _ in track(range(workload.batches), description="epochs"):
            view.step()
            most_files = max(most_files, _size(view)["files"])
        seconds, before = perf_counter() - start, _size(view)
        start = perf_counter()
        compact_if_due(view.runtime, threshold=1)
        return {
            "events": workload.rows * workload.batches,
            "epochs": workload.batches,
            "groups": _groups(view),
            "most_files": most_files,
            "before": before,
            "after": _size(view),
            "seconds": {"epochs": round(seconds, 1), "compaction": round(perf_counter() - start, 2)},
        }


def _size(view: ViewRun) -> dict[str, int]:
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


def _print(console: Console, workload: Workload, report: dict[str, Any]) -> None:
    events = report["events"]
    table = Table(title=f"State of {VIEW}: {events:,} events in {report['groups']:,} groups", title_justify="left")
    for heading in ("", "rows", "files", "bytes", "rows per group", "bytes per group", "events per state row"):
        table.add_column(heading, justify="right")
    for when in ("before", "after"):
        size = report[when]
        table.add_row(
            f"{when} compaction",
            f"{size['rows']:,}",
            f"{size['files']:,}",
            f"{size['bytes']:,}",
            f"{size['rows'] / report['groups']:.1f}",
            f"{size['bytes'] / report['groups']:.0f}",
            f"{events / size['rows']:,.0f}",
        )
    console.print(table)
    console.print(
        f"{workload.batches} epochs took {report['seconds']['epochs']} s, with compaction along the way: never more "
        f"than {report['most_files']} files. The last merge took {report['seconds']['compaction']} s."
    )


if __name__ == "__main__":
    sys.exit(main())
