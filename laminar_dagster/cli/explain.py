"""`laminar explain`: the plan of a view, as a tree."""

from __future__ import annotations

import typer

from laminar_dagster.cli.options import DataOption, ProjectOption, ViewArgument, project_of


def explain(view: ViewArgument, project: ProjectOption = None, data: DataOption = None) -> None:
    """Print what a view does: sources, window, keys, aggregates, emission, state."""
    from laminar_dagster.plan.explain import explain as explained

    typer.echo(explained(project_of(project, data).plan(view)))
