"""`make demo`: makes events, runs the views, and shows what they say. A second run goes on where this one ended."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assets.generator import Made, generate
from laminar_dagster.cli.run import run_with_progress
from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.spark import session_for
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import to_datetime
from state_store import CommitRow, StoreError, StoreReader
from state_store import format as f

SHOWN_VIEW = "sales_per_minute"
SHOWN_ROWS = 10
EXAMPLE_WIDTH = 38
COUNTED = ("rows_in", "late", "error", "windows_closed", "rows_out")
NEXT = (
    (".venv/bin/laminar state sales_per_minute", "open windows, watermark"),
    (".venv/bin/laminar show sales_per_minute --side-output", "the rows set aside"),
    (".venv/bin/laminar explain sales_per_minute", "the plan, step by step"),
    ("make demo", "ten more minutes"),
    ("make dev", "the views in Dagster"),
    ("make test", "the test suite"),
)

Runs = dict[str, list[CommitRow]]


def demo(
    project: Annotated[Path | None, typer.Option(help="The project's directory. Default: the one above.")] = None,
) -> None:
    """Make some minutes of events, run every view, and print what they say."""
    found = Project.find(project)
    console = Console(highlight=False, soft_wrap=False)
    with step(console, "making events"):
        made = generate(found.root / "data" / "landing")
    console.print(escape(_events_line(made)))
    runs = _run_views(found, console)
    show_runs(console, runs)
    show_results(console, StoreReader(found.store(SHOWN_VIEW)))
    show_side_output(console, found, list(runs))
    show_next(console)


@contextmanager
def step(console: Console, doing: str) -> Iterator[None]:
    """A spinner on a terminal while it lasts, and a line that stays, also in a pipe."""
    start = perf_counter()
    with console.status(doing):
        yield
    console.print(f"[green]✓[/] {doing} [dim]({perf_counter() - start:.1f} s)[/]")


def _events_line(made: Made | None) -> str:
    if made is None:
        return "  none this time: the demo's event time has reached the clock. Come back in a minute."
    faults = ", ".join(f"{count} {kind}" for kind, count in made.faults.items())
    since, until = to_datetime(made.since), to_datetime(made.until)
    return (
        f"  {made.sales} sales in {made.sales_files} files, "
        f"{made.payments} payments in {made.payment_commits} commits\n"
        f"  event time {since:%Y-%m-%d %H:%M} to {until:%H:%M} UTC\n"
        f"  wrong on purpose: {faults}"
    )


def _run_views(project: Project, console: Console) -> Runs:
    from laminar_dagster.engine.run import RunOptions

    with step(console, "reading the SQL in assets/sql"):
        plans: tuple[Plan, ...] = project.plans()
    with step(console, "starting Spark"):
        session = session_for(project)
    runs: Runs = {}
    for plan in plans:
        start = perf_counter()
        options = RunOptions(maintenance=project.maintenance)
        runs[plan.query.view], _ = run_with_progress(plan, session, project, options, console)
        console.print(f"[green]✓[/] running {plan.query.view} [dim]({perf_counter() - start:.1f} s)[/]")
    return runs


def show_runs(console: Console, runs: Runs) -> None:
    table = _table("view", "epochs", "in", "late", "errors", "closed", "out", "watermark", numbers=slice(1, 7))
    for view, commits in runs.items():
        counts = [str(sum(c.counts.get(name, 0) for c in commits)) for name in COUNTED]
        watermark = commits[-1].watermark if commits else None
        shown = "-" if watermark is None else f"{to_datetime(watermark):%m-%d %H:%M:%S}"
        table.add_row(view, str(len(commits)), *counts, shown)
    _print(console, "What this run did: epochs, rows, windows closed, how far event time has come", table)


def show_results(console: Console, reader: StoreReader) -> None:
    rows = [row for row in reader.read(f.OUTPUT).to_pylist() if row]
    rows.sort(key=lambda row: (row["window_start"], row["region"] or ""))
    table = _table("window", "region", "sales", "items", "revenue", numbers=slice(2, 5))
    for row in rows[-SHOWN_ROWS:]:
        window = f"{row['window_start']:%Y-%m-%d %H:%M} – {row['window_end']:%H:%M}"
        table.add_row(window, *(str(row[name]) for name in ("region", "sales", "items", "revenue")))
    shown = min(SHOWN_ROWS, len(rows))
    _print(console, f"{SHOWN_VIEW}: the last {shown} of {len(rows)} rows of closed windows", table)


def show_side_output(console: Console, project: Project, views: list[str]) -> None:
    """How many rows of each kind were set aside so far, with one of each to look at."""
    table = _table("view, kind: reason", "rows", "one of them", numbers=slice(1, 2))
    table.columns[2].max_width = EXAMPLE_WIDTH
    for view in views:
        rows = StoreReader(project.store(view)).read(f.SIDE_OUTPUT).to_pylist()
        counts = Counter((row["kind"], row["reason"]) for row in rows)
        table.add_row(view, str(counts.total()), "")
        for (kind, reason), count in sorted(counts.items()):
            example: Any = next(r["original_event"] for r in rows if (r["kind"], r["reason"]) == (kind, reason))
            table.add_row(f"  {kind}: {reason}", str(count), escape(example or ""))
    _print(console, "Set aside so far, and kept", table)


def show_next(console: Console) -> None:
    table = _table("command", "shows")
    table.show_header = False
    for command, shows in NEXT:
        table.add_row(f"[bold]{command}[/]", shows)
    _print(console, "What to try next", table)


def _table(*columns: str, numbers: slice = slice(0)) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    right = columns[numbers]
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True, overflow="ellipsis")
    return table


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"\n[bold]{escape(title)}[/]")
    console.print(table)


def main() -> None:
    try:
        typer.run(demo)
    except (LaminarError, StoreError) as error:
        sys.stderr.write(f"error: {error.render()}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
