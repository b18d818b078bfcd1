"""`laminar show`: a view's rows, or what was set aside, straight from Delta."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from laminar_dagster.cli.options import DataOption, EpochOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.screen import Screen, limit_for, tell_cut
from laminar_dagster.cli.values import plain, plain_row, shown
from laminar_dagster.engine.in_process_sql import quoted
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.engine.side_entries import entry_texts
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import stands_beside_data
from state_store import StoreReader
from state_store import format as f

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 20
FORMATS = ("table", "json", "csv")
BATCH_ROWS = 10_000
ORIGINAL = "original_event"
SIDE_OUTPUT_COLUMNS = ("kind", "reason", "event_time", ORIGINAL)
SIDE_OUTPUT_WIDTH = 60  # of all but the original event


def show(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    epoch: EpochOption = None,
    side_output: Annotated[bool, typer.Option("--side-output", help="The rows set aside, not the results.")] = False,
    where: Annotated[str | None, typer.Option(help="A SQL condition over the columns, as DuckDB reads it.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many rows at the most, the newest. Default: {ROWS} in a table, else all."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="table (the main columns), json (a line per row) or csv.")
    ] = "table",
) -> None:
    """Print a view's rows."""
    if form not in FORMATS:
        raise LaminarError("LMR0706", f'unknown format "{form}"', hint=f"One of: {', '.join(FORMATS)}.")
    found = project_of(project, data)
    if not found.store(view).is_dir():
        found.plan(view)
    reader = StoreReader(found.store(view))
    name = f.SIDE_OUTPUT if side_output else f.OUTPUT
    rows = reader.read(name, reader.commit(epoch)) if reader.exists else None
    if rows is None or rows.num_columns == 0:
        typer.echo(f"{view}: no rows yet", err=True)
        return
    most = limit_for(limit, on_screen=form == "table", default=ROWS)
    selected, total = select(rows, where, most, side_output)
    PRINTERS[form](selected)
    if form == "table":
        typer.echo(f"{selected.num_rows} of {total} row(s)")
    if selected.num_rows < total:
        tell_cut(view, selected.num_rows, total, "row(s)")


def select(rows: pa.Table, where: str | None, limit: int | None, side_output: bool) -> tuple[pa.Table, int]:
    """The newest rows that fit the condition, and how many there are in all."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")  # not as connect's config: that is read before ICU is loaded
    connection.register("rows", rows)
    connection.execute("SET enable_external_access = false")
    condition = f"WHERE ({where})" if where else ""
    most = "" if limit is None else f"LIMIT {limit}"
    newest_first = ", ".join(f"{name} DESC" for name in _order(rows.column_names, side_output))
    try:
        if len(connection.extract_statements(f"SELECT count(*) FROM rows {condition}")) != 1:
            raise duckdb.ParserException("it is more than one condition")
        total = connection.sql(f"SELECT count(*) FROM rows {condition}").fetchone()
        found = connection.sql(f"SELECT * FROM rows {condition} ORDER BY {newest_first} {most}").to_arrow_table()
    except duckdb.Error as problem:
        raise LaminarError(
            "LMR0707",
            f"the condition cannot be used: {where}",
            detail=str(problem).split("\n")[0],
            hint=f"Columns: {', '.join(rows.column_names)}.",
        ) from problem
    return found[::-1], int(total[0]) if total else 0


def _order(columns: list[str], side_output: bool) -> list[str]:
    if side_output:
        return ["processing_time", "event_time", "original_event"]
    return ["_epoch", *(quoted(name) for name in columns if not stands_beside_data(name))]


def _print_table(rows: pa.Table) -> None:
    """What fits a terminal; json and csv have every column."""
    console = Screen()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in (columns := columns_for_screen(rows)):
        table.add_column(name, overflow="fold")
    if columns[-1] == ORIGINAL:
        table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
        table.columns[-1].max_width = max(16, console.width - SIDE_OUTPUT_WIDTH)
    for row in python_rows(rows):
        table.add_row(*(escape(shown(row[name])) for name in columns))
    console.print(table)


def _is_side_output(rows: pa.Table) -> bool:
    return bool(rows.column_names == f.SIDE_OUTPUT_SCHEMA.names)


def columns_for_screen(rows: pa.Table) -> list[str]:
    if _is_side_output(rows):
        return list(SIDE_OUTPUT_COLUMNS)
    return [name for name in rows.column_names if not stands_beside_data(name)]


def _print_json(rows: pa.Table) -> None:
    if _is_side_output(rows):
        for entry in entry_texts(rows).to_pylist():
            typer.echo(entry)
        return
    for row in _each(rows):
        typer.echo(json.dumps(plain_row(row)))


def _each(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """A few at a time: as Python values, a whole table would take many times its room."""
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        yield from python_rows(batch)


def _print_csv(rows: pa.Table) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(rows.column_names)
    for row in _each(rows):
        writer.writerow([plain(value) for value in row.values()])


PRINTERS: dict[str, Any] = {"table": _print_table, "json": _print_json, "csv": _print_csv}
