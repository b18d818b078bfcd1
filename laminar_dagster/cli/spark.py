"""`laminar spark`: a local Spark Connect server that stays up, so that runs start warm."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.connect_server import ServerStatus
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import SparkSettings

spark_app = typer.Typer(no_args_is_help=True, help="A local Spark Connect server on the loopback interface.")
PortOption = Annotated[int | None, typer.Option(min=1, max=65535, help="The port. Default: 15002, or a free one.")]


@spark_app.command()
def start(port: PortOption = None) -> None:
    """Start the server, or say that it runs already. It gets the jars that this project's SQL needs."""
    found = connect_server.start(port, replace(SparkSettings.from_environment(), bundles=Project.find().bundles()))
    typer.echo(described(found))
    typer.echo(f"use it: laminar run --spark {found.url}, or export LAMINAR_SPARK={found.url}")


@spark_app.command()
def status() -> None:
    """Say whether the server runs; exit code 1 if it does not."""
    found = connect_server.status()
    typer.echo(described(found))
    if found.state != "running":
        raise typer.Exit(1)


@spark_app.command()
def stop() -> None:
    """Stop the server that `laminar spark start` started."""
    typer.echo("stopped" if connect_server.stop() else "no server was running")


def described(found: ServerStatus) -> str:
    if found.state == "stopped":
        return "no server is running; `laminar spark start` starts one"
    seconds = 0 if found.uptime is None else int(found.uptime.total_seconds())
    return f"{found.state}: {found.url} (process {found.pid}, up {seconds} s, log {found.log})"
