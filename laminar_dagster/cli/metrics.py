"""`laminar metrics`: what happened in all epochs, and where the views stand, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from laminar_dagster.cli.options import DataOption, ProjectOption, project_of
from laminar_dagster.cli.screen import Screen
from laminar_dagster.cli.usable import usable
from laminar_dagster.engine.metrics import PREFIX, Sample, samples_of
from laminar_dagster.engine.open_metrics import open_metrics
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import to_iso
from state_store import StoreError, StoreReader

if TYPE_CHECKING:
    from laminar_dagster.engine.project import Project

TIMESTAMP = "_timestamp_seconds"


def metrics(
    view: Annotated[str | None, typer.Argument(help="The view. Default: all.")] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    form: Annotated[
        str, typer.Option("--format", help="table, json (a line per value) or openmetrics (text for Prometheus).")
    ] = "table",
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", help="Send them there instead, by OTLP over HTTP: http://localhost:4318/v1/metrics."),
    ] = None,
) -> None:
    """Print the metrics of views: rows and their fates, windows, watermarks and their lag, how long epochs take."""
    if form not in PRINTERS:
        raise LaminarError("LMR0706", f'unknown format "{form}"', hint=f"One of: {', '.join(PRINTERS)}.")
    samples, is_whole = samples_in(project_of(project, data), view)
    if otlp is None:
        PRINTERS[form](samples)
    else:
        from laminar_dagster.engine.otel import push

        push(samples, otlp)
        typer.echo(f"{len(samples)} value(s) sent to {otlp}")
    raise typer.Exit(0 if is_whole else 1)


def samples_in(project: Project, view: str | None) -> tuple[list[Sample], bool]:
    """The metrics, and whether every view has told its own: one that cannot does not keep the others from telling."""
    plans, is_whole = usable(project, [view] if view else None)
    found: list[Sample] = []
    for plan in plans:
        try:
            found += samples_of(plan, StoreReader(project.store(plan.query.view)))
        except (LaminarError, StoreError) as error:
            is_whole = False
            typer.echo(f"error: {plan.query.view}: {error.render()}", err=True)
    return found, is_whole


def _print_table(samples: list[Sample]) -> None:
    if not samples:
        typer.echo("no epoch yet")
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("view", "metric", "of", "value"):
        table.add_column(name, overflow="fold", justify="right" if name == "value" else "left")
    for sample in samples:
        view, *of = sample.labels.values()
        table.add_row(view, sample.metric.name.removeprefix(PREFIX), escape("".join(of)), _shown(sample))
    Screen().print(table)


def _shown(sample: Sample) -> str:
    if sample.metric.name.endswith(TIMESTAMP):
        return to_iso(round(sample.value * 1_000) * 1_000)
    return f"{sample.value:.3f}" if isinstance(sample.value, float) else str(sample.value)


def _print_json(samples: list[Sample]) -> None:
    for sample in samples:
        typer.echo(json.dumps({"metric": sample.metric.series, **sample.labels, "value": sample.value}))


def _print_open_metrics(samples: list[Sample]) -> None:
    typer.echo(open_metrics(samples), nl=False)


PRINTERS: dict[str, Callable[[list[Sample]], None]] = {
    "table": _print_table,
    "json": _print_json,
    "openmetrics": _print_open_metrics,
}
