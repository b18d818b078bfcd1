"""`laminar changes`: a view's changelog, straight from Delta, once or as it grows."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from laminar_dagster.changes.debezium import CdcSource, debezium_lines
from laminar_dagster.changes.json_text import json_lines
from laminar_dagster.changes.position import Position
from laminar_dagster.changes.reading import ChangeBatch
from laminar_dagster.changes.subscription import BATCH_ROWS, subscribe
from laminar_dagster.cli.options import DataOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.screen import Screen
from laminar_dagster.cli.values import shown
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.errors import LaminarError
from state_store.changelog import EPOCH, OP, data_columns

if TYPE_CHECKING:
    from laminar_dagster.engine.project import Project

FORMATS = ("table", "json", "debezium")


def changes(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    since: Annotated[
        str, typer.Option(help="Only what comes after this epoch (12), or after a row of it (12:345).")
    ] = "0",
    follow: Annotated[bool, typer.Option("--follow", help="Go on with each new commit, until Ctrl-C.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="About how many changes at the most; no update is cut in two.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="table, json (a line per row) or debezium (a line per event).")
    ] = "table",
) -> None:
    """Print what changed in a view, in order. It ends with the position to go on from."""
    found = project_of(project, data)
    show_batch = _printer(form, found, view)
    begin = Position.parse(since)
    if not found.store(view).is_dir():
        found.plan(view)
    count, reached = 0, begin
    with _interrupted() as stop:
        size = BATCH_ROWS if limit is None else min(BATCH_ROWS, limit + 1)
        batches = subscribe(found.store(view), begin, batch_rows=size, follow=follow, stop=stop)
        for batch in _first(batches, limit):
            show_batch(batch)
            count, reached = count + batch.rows.num_rows, batch.position
            if stop.is_set():
                break
    more = "no changes" if count == 0 else f"{count} change(s)"
    cut = "" if limit is None or count < limit else ", cut by --limit"
    typer.echo(f"{view}: {more} after {begin}{cut}; to go on: --since {reached}", err=True)


@contextmanager
def _interrupted() -> Iterator[Event]:
    """An event that Ctrl-C sets, so that what is being printed is printed whole; a second Ctrl-C ends at once."""
    stop = Event()

    def take_note(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, take_note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _first(batches: Iterable[ChangeBatch], limit: int | None) -> Iterator[ChangeBatch]:
    """Batches of about `limit` rows in all."""
    left = limit
    for batch in batches:
        part = batch if left is None else batch.upto(left)
        yield part
        if left is not None:
            left -= part.rows.num_rows
            if left <= 0:
                return


def _printer(form: str, project: Project, view: str) -> Callable[[ChangeBatch], None]:
    source = CdcSource(project.root.name, view)
    printers: dict[str, Callable[[ChangeBatch], None]] = {
        "table": _print_table,
        "json": lambda batch: _print_lines(json_lines(batch.rows)),
        "debezium": lambda batch: _print_lines(debezium_lines(batch, source)),
    }
    if form not in printers:
        raise LaminarError("LMR0706", f'unknown format "{form}"', hint=f"One of: {', '.join(FORMATS)}.")
    return printers[form]


def _print_lines(lines: list[str]) -> None:
    typer.echo("\n".join(lines))


def _print_table(batch: ChangeBatch) -> None:
    """What fits a terminal; json has every column."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    names = data_columns(batch.rows.schema.names)
    for name in ("epoch", "op", *names):
        table.add_column(name, overflow="fold")
    for row in python_rows(batch.rows):
        op = "snapshot" if batch.snapshot else row[OP]
        table.add_row(str(row[EPOCH]), op, *(escape(shown(row[name])) for name in names))
    Screen().print(table)
