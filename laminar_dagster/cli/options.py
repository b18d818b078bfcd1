"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar_dagster.engine.project import Project

ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="The project: its directory, or its SQL. Default: the working directory's."),
]
DataOption = Annotated[Path | None, typer.Option("--data", help="Where the tables are. Default: data/ in the project.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable: JSON on standard output.")]
EpochOption = Annotated[int | None, typer.Option("--epoch", help="As of this epoch. Default: the last one.")]
SparkOption = Annotated[str | None, typer.Option(help="local[*], sc://host:port or a master URL.")]
ViewArgument = Annotated[str, typer.Argument(help="The view's name.")]


def project_of(project: Path | None, data: Path | None) -> Project:
    return Project.find(project, data)
