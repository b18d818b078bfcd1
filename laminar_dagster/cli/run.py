"""`laminar run`: run views until they have caught up with their sources."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, SparkOption, project_of
from laminar_dagster.cli.usable import usable
from laminar_dagster.engine.crash import crash_point_from_environment
from laminar_dagster.engine.session import open_session
from laminar_dagster.errors import UNFORESEEN, LaminarError, unforeseen
from laminar_dagster.plan.bounds import between_windows, cautions
from laminar_dagster.semantics.time import to_iso
from state_store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from laminar_dagster.engine.project import Project
    from laminar_dagster.engine.run import RunOptions
    from laminar_dagster.engine.sinks.delivering import Delivered
    from laminar_dagster.plan.plan import Plan
    from state_store import CommitRow

MAX_ROWS_HELP = "About how many rows an epoch takes (at least one commit; of text files by their size)."


def run(
    views: Annotated[list[str] | None, typer.Argument(help="The views to run. Default: all, upstream first.")] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    spark: SparkOption = None,
    max_rows: Annotated[int, typer.Option(min=1, help=MAX_ROWS_HELP)] = 2_000_000,
    max_files: Annotated[
        int, typer.Option(min=1, help="How many source files an epoch takes (at least one commit).")
    ] = 500,
    max_epochs: Annotated[int | None, typer.Option(min=1, help="Stop after this many epochs per view.")] = None,
    replan: Annotated[bool, typer.Option(help="Plan an unfinished epoch anew, if nothing of it has landed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take what is new in the sources, epoch by epoch, until each view has caught up."""
    from laminar_dagster.engine.run import RunOptions

    found = project_of(project, data)
    plans, is_whole = usable(found, views)
    if not plans:
        raise typer.Exit(1)
    options = RunOptions(
        max_rows,
        max_files,
        max_epochs,
        replan=replan,
        after_write=crash_point_from_environment(),
        maintenance=found.maintenance,
    )
    console = Console(stderr=True)
    with console.status("starting Spark"):
        session = open_session(found.spark_settings(spark))
    failed: set[str] = set()
    for plan in plans:
        behind = [view for view in plan.query.views_read if view in failed]
        if not run_and_report(plan, session, found, options, console, as_json) or behind:
            failed.add(plan.query.view)
        if behind:
            tell_behind(plan.query.view, behind)
    raise typer.Exit(0 if is_whole and not failed else 1)


def tell_behind(view: str, upstream: Sequence[str]) -> None:
    names = ", ".join(f'"{name}"' for name in upstream)
    typer.echo(f"warning: {view}: it reads {names}, which did not run: what is new there is not taken yet", err=True)


def run_and_report(
    plan: Plan, session: SparkSession, project: Project, options: RunOptions, console: Console, as_json: bool
) -> bool:
    """Run one view. A view that cannot run does not keep the others from running, whatever the reason."""
    view = plan.query.view
    for caution in cautions(plan.query):
        typer.echo(f"warning: {view}: {caution}", err=True)
    try:
        report(view, *run_with_progress(plan, session, project, options, console), as_json)
    except (LaminarError, StoreError) as error:
        typer.echo(f"error: {view}: {error.render()}", err=True)
        if as_json:
            typer.echo(json.dumps({"view": view, "error": error.code}))
        return False
    except Exception as problem:
        trace = "".join(traceback.format_exception(problem))
        typer.echo(f"{trace}error: {view}: {unforeseen(problem).render()}", err=True)
        if as_json:
            typer.echo(json.dumps({"view": view, "error": UNFORESEEN}))
        return False
    return True


def run_with_progress(
    plan: Plan, session: SparkSession, project: Project, options: RunOptions, console: Console
) -> tuple[list[CommitRow], Mapping[str, Delivered]]:
    from laminar_dagster.engine.run import open_view

    with (
        open_view(plan, session, project=project.root, data=project.data, options=options) as view,
        _bar(console, plan.query.view, view.backlog()) as advance,
    ):
        for caution in view.cautions():
            typer.echo(f"warning: {plan.query.view}: {caution}", err=True)
        return view.drain(advance), view.deliveries.delivered


@contextmanager
def _bar(console: Console, view: str, total: int) -> Iterator[Callable[[CommitRow], None]]:
    """A progress bar in source commits; silent where nobody looks at a terminal."""
    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TextColumn("commits  epoch {task.fields[epoch]}  watermark {task.fields[watermark]}")]
    columns += [TimeElapsedColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(view, total=total, epoch="-", watermark="-")

        def advance(commit: CommitRow) -> None:
            watermark = "-" if commit.watermark is None else to_iso(commit.watermark)
            progress.update(task, advance=commit.counts["commits"], epoch=commit.epoch, watermark=watermark)

        yield advance


def report(view: str, commits: list[CommitRow], delivered: Mapping[str, Delivered], as_json: bool) -> None:
    """What the run did, as one line (or one JSON object) per view, and a line for each sink that got something."""
    totals = {name: sum(c.counts.get(name, 0) for c in commits) for name in (*REPORTED, *OCCASIONAL)}
    last = commits[-1] if commits else None
    watermark = None if last is None or last.watermark is None else to_iso(last.watermark)
    if as_json:
        entry = {"view": view, "epochs": len(commits), "epoch": last.epoch if last else None, "watermark": watermark}
        typer.echo(json.dumps({**entry, **totals, **delivered_data(delivered)}))
        return
    _print_epochs(view, commits, totals, watermark)
    print_delivered(view, delivered)


def print_delivered(view: str, delivered: Mapping[str, Delivered]) -> None:
    """A line for each sink that got something, and for each that could not take what a correction changed."""
    for sink, done in delivered.items():
        if done.epochs:
            typer.echo(f"{view}: delivered {done.epochs} epoch(s), {done.rows} row(s) to sink {sink}")
        if done.withheld:
            typer.echo(f"{view}: sink {sink} only appends: {done.withheld} correction(s) are not delivered to it")
        if done.dropped:
            lost = f"{done.dropped} row(s) did not go to route {sink}, and stay in the side output's table"
            typer.echo(f"warning: {view}: {lost}: {done.why}", err=True)


def delivered_data(delivered: Mapping[str, Delivered]) -> dict[str, Any]:
    found = {
        sink: {
            "epochs": done.epochs,
            "rows": done.rows,
            **({"withheld": done.withheld} if done.withheld else {}),
            **({"dropped": done.dropped, "why": done.why} if done.dropped else {}),
        }
        for sink, done in delivered.items()
    }
    lost = sum(done.dropped for done in delivered.values())
    return {"route_dropped": lost, **({"delivered": found} if found else {})}


def _print_epochs(view: str, commits: list[CommitRow], totals: Mapping[str, int], watermark: str | None) -> None:
    if not commits:
        typer.echo(f"{view}: nothing new")
        return
    ancient = sum(c.counts.get("pre_epoch_rows", 0) for c in commits)
    if ancient:
        typer.echo(f"warning: {view}: {ancient} row(s) are dated before 1970; they are in their true windows", err=True)
    if totals["between_windows"]:
        typer.echo(f"warning: {view}: {between_windows(totals['between_windows'])}", err=True)
    said = {**REPORTED, **{name: label for name, label in OCCASIONAL.items() if totals[name]}}
    shown = ", ".join(f"{totals[name]} {label}" for name, label in said.items())
    typer.echo(f"{view}: {len(commits)} epoch(s), {shown}; watermark {watermark or 'unknown yet'}")


# Said only where there are such rows.
OCCASIONAL = {
    "between_windows": "between windows",
    "evicted": "evicted",
    "duplicate": "duplicates",
    "side_output_dropped": "beyond side_output.max_rows_per_epoch and not kept",
}
REPORTED = {
    "rows_in": "rows in",
    "filtered": "filtered",
    "late": "late",
    "error": "set aside as errors",
    "windows_closed": "windows closed",
    "rows_out": "rows out",
}
