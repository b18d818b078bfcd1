"""`laminar show`: a view's rows, or what was set aside, straight from Delta."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from laminar_dagster.cli.options import DataOption, EpochOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.values import plain, shown
from laminar_dagster.errors import LaminarError
from state_store import StoreReader
from state_store import format as f

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "json", "csv")


def show(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    epoch: EpochOption = None,
    side_output: Annotated[bool, typer.Option("--side-output", help="The rows set aside, not the results.")] = False,
    where: Annotated[str | None, typer.Option(help="A SQL condition over the columns, as DuckDB reads it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows at the most.")] = 20,
    form: Annotated[str, typer.Option("--format", help="table, json (a line per row) or csv.")] = "table",
) -> None:
    """Print a view's rows."""
    if form not in FORMATS:
        raise LaminarError("LMR0304", f'unknown format "{form}"', hint=f"One of: {', '.join(FORMATS)}.")
    found = project_of(project, data)
    found.plan(view)
    reader = StoreReader(found.store(view))
    name = f.SIDE_OUTPUT if side_output else f.OUTPUT
    rows = reader.read(name, reader.commit(epoch)) if reader.exists else None
    if rows is None or rows.num_columns == 0:
        typer.echo(f"{view}: no rows yet", err=True)
        return
    selected, total = select(rows, where, limit, side_output)
    PRINTERS[form](selected)
    if form == "table":
        typer.echo(f"{selected.num_rows} of {total} row(s)")


def select(rows: pa.Table, where: str | None, limit: int, side_output: bool) -> tuple[pa.Table, int]:
    """The newest rows that fit the condition, and how many there are in all."""
    connection = duckdb.connect(config={"TimeZone": "UTC"})
    connection.register("rows", rows)
    condition = f"WHERE {where}" if where else ""
    order = "processing_time, event_time" if side_output else _order(rows.column_names)
    try:
        total = connection.sql(f"SELECT count(*) FROM rows {condition}").fetchone()
        found = connection.sql(f"SELECT * FROM rows {condition} ORDER BY {order} LIMIT {limit}").to_arrow_table()
    except duckdb.Error as problem:
        raise LaminarError(
            "LMR0305",
            f"the condition cannot be used: {where}",
            detail=str(problem).split("\n")[0],
            hint=f"Columns: {', '.join(rows.column_names)}.",
        ) from problem
    return found, int(total[0]) if total else 0


def _order(columns: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns if not name.startswith("_")) or "1"


def _print_table(rows: pa.Table) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    columns = [name for name in rows.column_names if rows.column(name).null_count < rows.num_rows or not rows.num_rows]
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows.to_pylist():
        table.add_row(*(shown(row[name]) for name in columns))
    Console().print(table)


def _print_json(rows: pa.Table) -> None:
    for row in rows.to_pylist():
        typer.echo(json.dumps({name: plain(value) for name, value in row.items()}))


def _print_csv(rows: pa.Table) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(rows.column_names)
    for row in rows.to_pylist():
        writer.writerow([plain(value) for value in row.values()])


PRINTERS: dict[str, Any] = {"table": _print_table, "json": _print_json, "csv": _print_csv}
