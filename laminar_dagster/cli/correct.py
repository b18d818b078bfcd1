"""`laminar backfill` and `laminar fold-late`: compute windows anew, and publish what that changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.values import plain_row, shown_row
from laminar_dagster.engine.crash import crash_point_from_environment
from laminar_dagster.engine.session import open_session
from laminar_dagster.errors import LaminarError
from state_store import CommitRow

if TYPE_CHECKING:
    from pathlib import Path

    from laminar_dagster.engine.correcting import Preview

SHOWN_CHANGES = 50
FROM_HELP = "From this time on: windows that overlap it are taken whole."
TO_HELP = "Up to this time, which is not part of it."
DRY_HELP = "Show what would change; write nothing."
WHERE_HELP = "Which late rows: SQL over the side output's columns. Default: all that are not folded yet."
SparkOption = Annotated[str | None, typer.Option(help="local[*], sc://host:port or a master URL.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help=DRY_HELP)]


def backfill(
    view: ViewArgument,
    since: Annotated[str, typer.Option("--from", help=FROM_HELP)],
    to: Annotated[str, typer.Option("--to", help=TO_HELP)],
    project: ProjectOption = None,
    data: DataOption = None,
    spark: SparkOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the windows of a stretch of event time anew from the retained sources, and publish the corrections."""
    from laminar_dagster.engine.correcting import backfill, preview_backfill
    from laminar_dagster.engine.window_account import moment_of

    ranges = ((moment_of(since), moment_of(to)),)
    if ranges[0][0] >= ranges[0][1]:
        raise LaminarError("LMR0725", f"there is no time between {since} and {to}", hint="--from must be before --to.")
    run = preview_backfill if dry_run else backfill
    _corrected(view, project, data, spark, as_json, lambda *args, **given: run(*args, **given, ranges=ranges))


def fold_late(
    view: ViewArgument,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    spark: SparkOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put late rows of the side output into their windows, closed ones too, and publish the corrections."""
    from laminar_dagster.engine.correcting import fold_late, preview_fold

    run = preview_fold if dry_run else fold_late
    _corrected(view, project, data, spark, as_json, lambda *args, **given: run(*args, **given, where=where))


def _corrected(
    view: str,
    project: Path | None,
    data: Path | None,
    spark: str | None,
    as_json: bool,
    run: Callable[..., CommitRow | Preview | None],
) -> None:
    from laminar_dagster.engine.run import RunOptions

    found = project_of(project, data)
    plan = found.plan(view)
    options = RunOptions(after_write=crash_point_from_environment(), maintenance=found.maintenance)
    with Console(stderr=True).status("computing windows anew"):
        session = open_session(found.spark_settings(spark))
        done = run(plan, session, project=found.root, data=found.data, options=options)
    if as_json:
        typer.echo(json.dumps({"view": view, **_data(done)}))
    else:
        _print(view, done)


def _data(done: CommitRow | Preview | None) -> dict[str, Any]:
    if done is None:
        return {"epoch": None, "inserted": 0, "updated": 0, "deleted": 0, "folded_rows": 0, "partitions": {}}
    if isinstance(done, CommitRow):
        return {"epoch": done.epoch, **_counts(done), "partitions": done.corrected["partitions"]}
    rows = [plain_row(row) for row in _rows(done)]
    return {"epoch": None, **_counts(done), "partitions": done.partitions, "changes": rows}


def _counts(done: CommitRow | Preview) -> dict[str, int]:
    names = ("inserted", "updated", "deleted", "folded_rows", "rows_read_again")
    return {name: done.counts[name] for name in names}


def _rows(preview: Preview) -> list[dict[str, Any]]:
    hidden = ("_start", "_end")
    return [{n: v for n, v in row.items() if n not in hidden} for row in preview.changes.to_pylist()]


def _print(view: str, done: CommitRow | Preview | None) -> None:
    if done is None:
        typer.echo(f"{view}: nothing to correct")
        return
    counts = _counts(done)
    changed = f"{counts['inserted']} inserted, {counts['updated']} updated, {counts['deleted']} deleted"
    folded = f"; {counts['folded_rows']} late row(s) taken in" if counts["folded_rows"] else ""
    read = f"; {counts['rows_read_again']} source row(s) read again"
    if isinstance(done, CommitRow):
        typer.echo(f"{view}: epoch {done.epoch}: {changed}{folded}{read}")
        _print_partitions(done.corrected["partitions"])
        return
    typer.echo(f"{view}: would change: {changed}{folded}{read}; nothing was written")
    for row in _rows(done)[:SHOWN_CHANGES]:
        typer.echo(f"  {row.pop('_op')}  {shown_row(row)}")


def _print_partitions(partitions: Mapping[str, Mapping[str, int]]) -> None:
    for partition, ops in partitions.items():
        typer.echo(f"  {partition}: {', '.join(f'{count} {op}' for op, count in sorted(ops.items()))}")
