"""The views that a command over several views works on: one that is refused does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from laminar_dagster.engine.project import Project
from laminar_dagster.plan.plan import Plan


def usable(project: Project, views: Sequence[str] | None) -> tuple[list[Plan], bool]:
    """These views (all, where none is named) as far as they can be planned, and whether that is all of them.

    What is wrong with the others is told on standard error, every mistake of the project where none is named.
    """
    found = project.planned()
    told = {name: errors for name, errors in found.refused.items() if not views or name in views}
    for errors in told.values():
        for error in errors:
            typer.echo(f"error: {error.render()}\n", err=True)
    if not views:
        return list(found.plans), not told
    return [project.plan(view, found) for view in views if view not in told], not told
