"""The commands, and the one place where an error becomes a text and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version

import typer

from laminar_dagster.cli.changes import changes
from laminar_dagster.cli.conform import conform
from laminar_dagster.cli.correct import backfill, fold_late
from laminar_dagster.cli.dev import dev
from laminar_dagster.cli.doctor import doctor
from laminar_dagster.cli.explain import explain
from laminar_dagster.cli.lineage import lineage
from laminar_dagster.cli.maintain import maintain
from laminar_dagster.cli.metrics import metrics
from laminar_dagster.cli.run import run
from laminar_dagster.cli.screen import until_nobody_reads
from laminar_dagster.cli.show import show
from laminar_dagster.cli.sinks import sinks
from laminar_dagster.cli.spark import spark_app
from laminar_dagster.cli.state import state
from laminar_dagster.cli.verify import verify
from laminar_dagster.errors import LaminarError
from state_store import StoreError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Streaming SQL views as bounded Spark micro-batches over Delta: exactly once, and nothing runs between ticks.",
)
LOOKING: tuple[Callable[..., None], ...] = (show, changes, state, metrics, sinks, explain, lineage)
DOING: tuple[Callable[..., None], ...] = (verify, backfill, fold_late, maintain, conform, doctor, dev)
for command in (run, *(until_nobody_reads(look) for look in LOOKING), *DOING):
    app.command()(command)
app.add_typer(spark_app, name="spark")


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    show_version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if show_version:
        typer.echo(f"laminar {version('laminar-dagster')}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)


def main() -> None:
    try:
        app()
    except (LaminarError, StoreError) as error:
        typer.echo(f"error: {error.render()}", err=True)
        sys.exit(1)
