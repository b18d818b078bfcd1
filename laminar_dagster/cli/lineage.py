"""`laminar lineage`: which commits of the sources reached which partitions of a view, and what was corrected."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.screen import Screen, limit_for, tell_cut
from laminar_dagster.engine.origins import Origin, origins
from laminar_dagster.engine.same_query import require_store_of
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import to_iso
from state_store import StoreReader

LINES = 50
TIMES = ("processing_time", "low", "high")
COLUMNS = ("epoch", "kind", "at", "source", "commit", "rows", "event time from", "to", "partitions", "changes")


def lineage(
    view: ViewArgument,
    partition: Annotated[
        str | None, typer.Option(help="Only what reached this partition, by its name in the output.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many at the most, the newest ones. Default: {LINES} in a table, else all."),
    ] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print which commits of the sources reached which partitions of a view, epoch by epoch, corrections included."""
    found = project_of(project, data)
    plan, reader = found.plan(view), StoreReader(found.store(view))
    query = plan.query
    if partition is not None:
        _require_partition(query, partition)
    require_store_of(plan, reader)
    listed = origins(query, reader)
    reaching = [o for o in listed if partition is None or o.reaches(partition)]
    most = limit_for(limit, on_screen=not as_json, default=LINES)
    shown = reaching if most is None else reaching[-most:]
    if as_json:
        typer.echo(json.dumps({"view": view, "partition": partition, "origins": [_data(o) for o in shown]}))
    elif not shown:
        typer.echo(f"{view}: nothing was taken yet" if not listed else f"{view}: nothing reached {partition}")
    else:
        _print(shown)
    if len(shown) < len(reaching):
        tell_cut(view, len(shown), len(reaching), "line(s)")


def _require_partition(query: Query, partition: str) -> None:
    """A name of another form would silently fit nothing."""
    example = query.partition.name_of(0)
    if query.window is None or len(partition) != len(example):
        raise LaminarError(
            "LMR0741",
            f'view "{query.view}" has no partition "{partition}"',
            detail="It has no windows, so it is one whole."
            if query.window is None
            else f"its partition: {query.partition}",
            hint=None if query.window is None else f"Write it as in {example}.",
        )


def _data(origin: Origin) -> dict[str, Any]:
    entry = asdict(origin)
    return {name: to_iso(v) if name in TIMES and v is not None else v for name, v in entry.items()}


def _print(shown: list[Origin]) -> None:
    table = Table(*COLUMNS, box=box.SIMPLE)
    for origin in shown:
        entry = _data(origin)
        changes = ", ".join(f"{count} {op}" for op, count in sorted(origin.changes.items()))
        cells = [entry[n] for n in ("epoch", "kind", "processing_time", "source", "commit", "rows", "low", "high")]
        table.add_row(*("" if c is None else escape(str(c)) for c in (*cells, origin.partitions, changes)))
    console = Screen()
    # Into a pipe nothing is cut off.
    Screen(width=None if console.is_terminal else 240).print(table)
