"""`laminar maintain`: merge small files and delete what is no longer retained, now and all of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, project_of
from laminar_dagster.cli.usable import usable
from laminar_dagster.engine.crash import crash_point_from_environment
from laminar_dagster.errors import LaminarError
from state_store import StoreError

if TYPE_CHECKING:
    from laminar_dagster.engine.project import Project
    from laminar_dagster.plan.plan import Plan


def maintain(
    views: Annotated[list[str] | None, typer.Argument(help="The views to maintain. Default: all.")] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Merge small files and delete those that no retained epoch needs. Runs do the same, a little after each epoch."""
    found = project_of(project, data)
    plans, is_whole = usable(found, views)
    done = [maintain_and_report(plan, found, as_json) for plan in plans]
    raise typer.Exit(0 if is_whole and all(done) else 1)


def maintain_and_report(plan: Plan, project: Project, as_json: bool) -> bool:
    """Maintain one view. One that is being run, or whose SQL was changed, does not keep the others from it."""
    view = plan.query.view
    try:
        found = maintained(plan, project)
    except (LaminarError, StoreError) as error:
        typer.echo(f"error: {view}: {error.render()}", err=True)
        if as_json:
            typer.echo(json.dumps({"view": view, "error": error.code}))
        return False
    if as_json:
        typer.echo(json.dumps({"view": view, **(found or {"oldest_epoch": None})}))
    elif found is None:
        typer.echo(f"{view}: no epoch yet")
    else:
        done = f"{found['merged']} files merged, {found['deleted']} deleted"
        typer.echo(f"{view}: {done}; can be read as of epoch {found['oldest_epoch']} and later")
    return True


def maintained(plan: Plan, project: Project) -> dict[str, int] | None:
    """How many files were merged and deleted, and the oldest epoch that can be read now; None without an epoch."""
    from laminar_dagster.engine.maintenance import maintain_view

    root, crash = project.store(plan.query.view), crash_point_from_environment()
    done = maintain_view(plan, root, project.maintenance, crash)
    return None if done is None else asdict(done)
