"""`laminar verify`: whether a view's closed windows are what its sources say, row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from laminar_dagster.cli.options import DataOption, JsonOption, ProjectOption, SparkOption, ViewArgument, project_of
from laminar_dagster.cli.values import plain_row, shown_row
from laminar_dagster.engine.same_query import require_store_of
from laminar_dagster.engine.session import open_session
from laminar_dagster.semantics.time import to_iso
from state_store import StoreReader

if TYPE_CHECKING:
    from laminar_dagster.engine.verifying import Difference, Verified


def verify(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    since: Annotated[str | None, typer.Option("--from", help="Only windows that start at this time or later.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Only windows that start before this time.")] = None,
    spark: SparkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute a view from its retained sources, and compare the closed windows. If they differ, it ends with 1."""
    from laminar_dagster.engine.verifying import Range, require_window, verify
    from laminar_dagster.engine.window_account import moment_of

    found = project_of(project, data)
    plan = found.plan(view)
    require_window(plan.query)
    require_store_of(plan, StoreReader(found.store(view)))
    bounds = {"since": since, "to": to}
    range_ = Range(**{name: moment_of(text) for name, text in bounds.items() if text is not None})
    with Console(stderr=True).status("recomputing"):
        session = open_session(found.spark_settings(spark))
        verified = verify(plan, session, project=found.root, data=found.data, range_=range_)
    _report(view, verified, as_json)
    raise typer.Exit(0 if verified is None or verified.is_right else 1)


def _report(view: str, verified: Verified | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"view": view, **({"windows": 0} if verified is None else _data(verified))}))
    elif verified is None:
        typer.echo(f"{view}: no closed window to compare")
    else:
        rows = f"{verified.windows} window(s), {verified.rows} row(s) recomputed up to {to_iso(verified.until)}"
        typer.echo(f"{view}: {rows}; {'all as in the view' if verified.is_right else 'the view differs'}")
        if verified.corrected:
            counted = "they have all rows that count in them since, late ones too"
            typer.echo(f"{verified.corrected} of the windows were corrected: {counted}")
        if verified.gone:
            typer.echo(
                f"{verified.gone} commit(s) are gone from the sources: leave windows that they reach out by --from"
            )
        _print_rows("the view should have, and has not", verified.missing)
        _print_rows("the view has, and should not", verified.unexpected)


def _data(verified: Verified) -> dict[str, Any]:
    return {
        "windows": verified.windows,
        "rows": verified.rows,
        "until": to_iso(verified.until),
        "missing": verified.missing.count,
        "unexpected": verified.unexpected.count,
        "corrected": verified.corrected,
        "gone_commits": verified.gone,
        "missing_rows": [plain_row(row) for row in verified.missing.rows],
        "unexpected_rows": [plain_row(row) for row in verified.unexpected.rows],
    }


def _print_rows(what: str, difference: Difference) -> None:
    if difference.count == 0:
        return
    typer.echo(f"{what}: {difference.count} row(s)")
    for row in difference.rows:
        typer.echo(f"  {shown_row(row)}")
