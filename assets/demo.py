"""`make demo`: makes events, runs the views, and shows what they say. A second run goes on where this one ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assets.generator import Made, generate
from laminar_dagster.cli.run import run_with_progress
from laminar_dagster.cli.show import select
from laminar_dagster.cli.values import shown
from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.spark import session_for
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import to_datetime
from state_store import CommitRow, StoreError, StoreReader
from state_store import format as f

SHOWN_ROWS = 3
EXAMPLE_WIDTH = 26
NAMES_WIDTH = 31
BOUNDS = ("window_start", "window_end")
HEADINGS = ("epochs", "in", "late", "errors", "closed", "out")
COUNTED = ("rows_in", "late", "error", "windows_closed", "rows_out")
NEXT = (
    (".venv/bin/laminar state sales_per_minute", "open windows, watermark"),
    (".venv/bin/laminar show sales_per_minute --side-output", "the rows set aside"),
    (".venv/bin/laminar changes customer_balance", "each change of a balance"),
    (".venv/bin/laminar explain sales_per_hour", "the plan, step by step"),
    ("make demo", "half an hour more"),
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
    for plan in found.plans():
        show_results(console, plan, StoreReader(found.store(plan.query.view)))
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
        f"  {made.sales} sales, {made.clicks} clicks, {made.payments} payments, "
        f"{made.corrected} of them corrected and {made.cancelled} cancelled\n"
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
    table = _table("view", *HEADINGS, "watermark", right=HEADINGS)
    for view, commits in runs.items():
        counts = [str(sum(c.counts.get(name, 0) for c in commits)) for name in COUNTED]
        watermark = commits[-1].watermark if commits else None
        reached = "-" if watermark is None else f"{to_datetime(watermark):%m-%d %H:%M:%S}"
        table.add_row(view, str(len(commits)), *counts, reached)
    _print(console, "What this run did: epochs, rows, windows closed, how far event time has come", table)


def show_results(console: Console, plan: Plan, reader: StoreReader) -> None:
    """The newest rows of a view, its window in one column."""
    output = reader.read(f.OUTPUT)
    if output.num_columns == 0:
        return
    rows, total = select(output, where=None, limit=SHOWN_ROWS, side_output=False)
    columns = [named.name for named in plan.query.output if named.name not in BOUNDS]
    windowed = set(BOUNDS) <= set(rows.column_names)
    numbers = [c for c in columns if not pa.types.is_string(rows.schema.field(c).type)]
    table = _table(*(["window"] if windowed else []), *columns, right=numbers)
    for row in rows.to_pylist():
        table.add_row(*([_window(row)] if windowed else []), *(shown(row[name]) for name in columns))
    said = plan.query.labels.get("description", "")
    _print(console, f"{plan.query.view}: the last {rows.num_rows} of {total} rows", table, said)


def _window(row: dict[str, Any]) -> str:
    start, end = row["window_start"], row["window_end"]
    return f"{start:%m-%d %H:%M} – {end:{'%H:%M' if start.date() == end.date() else '%m-%d %H:%M'}}"


def show_side_output(console: Console, project: Project, views: list[str]) -> None:
    """How many rows of each kind were set aside so far, by whom, with one of them to look at."""
    table = _table("kind: reason", "rows", "set aside by", "one of them", right=["rows"])
    table.columns[2].max_width, table.columns[3].max_width = NAMES_WIDTH, EXAMPLE_WIDTH
    found: dict[str, dict[str, list[str]]] = {}
    for view in views:
        for row in StoreReader(project.store(view)).read(f.SIDE_OUTPUT).to_pylist():
            by_view = found.setdefault(f"{row['kind']}: {row['reason']}", {})
            by_view.setdefault(view, []).append(row["original_event"] or "")
    for reason, by_view in sorted(found.items()):
        rows = [event for events in by_view.values() for event in events]
        table.add_row(reason, str(len(rows)), _named(list(by_view)), escape(rows[0]))
    _print(console, "Set aside so far, and kept", table)


def _named(views: list[str]) -> str:
    return views[0] if len(views) == 1 else f"{views[0]} and {len(views) - 1} more"


def show_next(console: Console) -> None:
    table = _table("command", "shows")
    table.show_header = False
    for command, shows in NEXT:
        table.add_row(f"[bold]{command}[/]", shows)
    _print(console, "What to try next", table)


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True, overflow="ellipsis")
    return table


def _print(console: Console, title: str, table: Table, said: str = "") -> None:
    console.print(f"\n[bold]{escape(title)}[/]")
    if said:
        console.print(f"[dim]{escape(said)}[/]")
    console.print(table)


def main() -> None:
    try:
        typer.run(demo)
    except (LaminarError, StoreError) as error:
        sys.stderr.write(f"error: {error.render()}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
