"""`laminar backfill` and `laminar fold-late`: compute windows anew, and publish what that changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, SparkOption, ViewArgument, project_of
from laminar_dagster.cli.run import delivered_data, print_delivered
from laminar_dagster.cli.values import plain_row, shown_row
from laminar_dagster.engine.column_names import CHANGE_END, CHANGE_START
from laminar_dagster.engine.crash import crash_point_from_environment
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.engine.same_query import require_store_of
from laminar_dagster.engine.session import open_session
from laminar_dagster.errors import LaminarError
from state_store import CommitRow, StoreReader

if TYPE_CHECKING:
    from pathlib import Path

    from laminar_dagster.engine.correcting import Preview
    from laminar_dagster.engine.correction import Correction
    from laminar_dagster.engine.sinks.delivering import Delivered

SHOWN_CHANGES = 50
COUNTS = ("inserted", "updated", "deleted", "folded_rows", "rows_read_again")
FROM_HELP = "From this time on: windows that overlap it are taken whole. 2026-01-05, or 2026-01-05T09:00:00Z."
TO_HELP = "Up to this time, which is not part of it."
DRY_HELP = "Show what would change; write nothing."
WHERE_HELP = "Which late rows: SQL over the side output's columns. Default: all that are not folded yet."
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
    from laminar_dagster.engine.correcting import backfill_of
    from laminar_dagster.engine.window_account import moment_of

    low, high = moment_of(since), moment_of(to)
    if low >= high:
        raise LaminarError("LMR0725", f"there is no time between {since} and {to}", hint="--from must be before --to.")
    Request(view, project, data, spark, dry_run, as_json).carry_out(backfill_of([(low, high)]))


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
    from laminar_dagster.engine.correcting import fold_of

    Request(view, project, data, spark, dry_run, as_json).carry_out(fold_of(where))


@dataclass(frozen=True)
class Request:
    """What both commands are given besides the correction itself."""

    view: str
    project: Path | None
    data: Path | None
    spark: str | None
    dry_run: bool
    as_json: bool

    def carry_out(self, correction: Correction) -> None:
        from laminar_dagster.engine.correcting import previewed
        from laminar_dagster.engine.run import RunOptions, open_view

        found = project_of(self.project, self.data)
        plan = found.plan(self.view)
        require_store_of(plan, StoreReader(found.store(self.view)))
        options = RunOptions(after_write=crash_point_from_environment(), maintenance=found.maintenance)
        with Console(stderr=True).status("computing windows anew"):
            session = open_session(found.spark_settings(self.spark))
            with open_view(plan, session, project=found.root, data=found.data, options=options) as view:
                done = previewed(view, correction) if self.dry_run else view.correct(correction)
                delivered = view.deliveries.delivered
        self._tell(done, delivered)

    def _tell(self, done: CommitRow | Preview | None, delivered: Mapping[str, Delivered]) -> None:
        if self.as_json:
            typer.echo(json.dumps({"view": self.view, **_data(done), **delivered_data(delivered)}))
            return
        _print(self.view, done)
        print_delivered(self.view, delivered)


def _data(done: CommitRow | Preview | None) -> dict[str, Any]:
    if done is None:
        return {"epoch": None, **dict.fromkeys(COUNTS, 0), "partitions": {}}
    counts = {name: done.counts[name] for name in COUNTS}
    if isinstance(done, CommitRow):
        return {"epoch": done.epoch, **counts, "partitions": done.corrected["partitions"]}
    return {"epoch": None, **counts, "partitions": done.partitions, "changes": [plain_row(r) for r in _rows(done)]}


def _rows(preview: Preview) -> list[dict[str, Any]]:
    hidden = (CHANGE_START, CHANGE_END, "_window_start", "_window_end")
    return [{n: v for n, v in row.items() if n not in hidden} for row in python_rows(preview.changes)]


def _print(view: str, done: CommitRow | Preview | None) -> None:
    if done is None:
        typer.echo(f"{view}: nothing to correct")
        return
    told = _told(done.counts)
    if isinstance(done, CommitRow):
        typer.echo(f"{view}: epoch {done.epoch} ({done.epoch_kind}): {told}")
        _print_partitions(done.corrected["partitions"])
        return
    typer.echo(f"{view}: dry run, nothing is written: {told}")
    rows = _rows(done)
    for row in rows[:SHOWN_CHANGES]:
        typer.echo(f"  {row.pop('_op')}  {shown_row(row)}")
    if len(rows) > SHOWN_CHANGES:
        typer.echo(f"  and {len(rows) - SHOWN_CHANGES} more; --json lists all")


def _told(counts: Mapping[str, int]) -> str:
    changed = [f"{counts[name]} {name}" for name in ("inserted", "updated", "deleted") if counts[name]]
    parts = [", ".join(changed) or "no result changes"]
    if counts["folded_rows"]:
        parts.append(f"{counts['folded_rows']} late row(s) folded")
    return "; ".join([*parts, f"{counts['rows_read_again']} source row(s) read again"])


def _print_partitions(partitions: Mapping[str, Mapping[str, int]]) -> None:
    for partition, ops in partitions.items():
        typer.echo(f"  {partition}: {', '.join(f'{count} {op}' for op, count in sorted(ops.items()))}")
