"""`laminar sinks`: where views are delivered to, and how far each sink has come. No Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, project_of
from laminar_dagster.cli.screen import Screen
from laminar_dagster.cli.usable import usable
from laminar_dagster.semantics.time import SECOND, to_iso
from state_store import StoreReader

if TYPE_CHECKING:
    from laminar_dagster.engine.project import Project
    from laminar_dagster.plan.plan import Plan

COLUMNS = ("sink", "view", "connector", "mode", "target", "epoch", "behind", "dropped", "delivered_at")


def sinks(
    views: Annotated[list[str] | None, typer.Argument(help="The views whose sinks to list. Default: all.")] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the sinks: target, the epoch up to which it has the view, and how many epochs it is behind."""
    found = project_of(project, data)
    plans, is_whole = usable(found, views)
    entries = [entry for plan in plans for entry in standing(plan, found)]
    if as_json:
        for entry in entries:
            typer.echo(json.dumps(entry))
    elif entries:
        _print(entries)
    else:
        typer.echo("no sinks; CREATE SINK name FROM view WITH (…) declares one")
    if not is_whole:
        raise typer.Exit(1)


def standing(plan: Plan, project: Project) -> list[dict[str, Any]]:
    """Where each sink of a view stands. `behind` counts epochs of the view, also those that changed nothing."""
    from laminar_dagster.engine.sinks.delivering import position_of

    store = project.store(plan.query.view)
    reader = StoreReader(store)
    commit = reader.commit() if reader.exists else None
    entries: list[dict[str, Any]] = []
    for sink in plan.query.delivered_to:
        position = position_of(store, sink)
        entries.append(
            {
                "sink": sink.name,
                "view": sink.view,
                "connector": sink.connector,
                "mode": sink.mode,
                "target": sink.target,
                "epoch": position.epoch,
                "behind": (commit.epoch if commit else 0) - position.epoch,
                "dropped": position.dropped,
                "delivered_at": None if position.at is None else to_iso(position.at // SECOND * SECOND),
            }
        )
    return entries


def _print(entries: list[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    columns = [name for name in COLUMNS if name != "dropped" or any(entry[name] for entry in entries)]
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold")
    for entry in entries:
        table.add_row(*("" if entry[name] is None else str(entry[name]) for name in columns))
    Screen().print(table)
