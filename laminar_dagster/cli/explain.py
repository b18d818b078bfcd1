"""`laminar explain`: the plan of a view, as a tree; with `--window`, the account of a window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from laminar_dagster.cli.options import DataOption, EpochOption, JsonOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import to_iso
from state_store import StoreReader

if TYPE_CHECKING:
    from laminar_dagster.engine.project import Project


def explain(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="A time in a window (UTC): why it is open or closed, what it emitted."),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="With --window: only this group, as NAME=VALUE. May be repeated.")
    ] = None,
    epoch: EpochOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a view does: sources, window, keys, aggregates, emission, state. Or tell of one of its windows."""
    from laminar_dagster.plan.explain import explain as explained

    found = project_of(project, data)
    if window is not None:
        explain_window(found, view, window, key or [], epoch, as_json)
    elif key or epoch is not None or as_json:
        raise LaminarError("LMR0713", "--key, --epoch and --json are about a window", hint="Add --window TIME.")
    else:
        typer.echo(explained(found.plan(view)))


def explain_window(project: Project, view: str, moment: str, keys: list[str], epoch: int | None, as_json: bool) -> None:
    from laminar_dagster.cli.window_text import as_data, as_text
    from laminar_dagster.engine.window_account import accounts, gap_around, keys_of, moment_of

    plan, at, wanted = project.plan(view), moment_of(moment), keys_of(keys)
    reader = StoreReader(project.store(view))
    commit = reader.commit(epoch) if reader.exists else None
    found = [] if commit is None else accounts(plan, reader, commit, at, wanted)
    last = None if commit is None else commit.epoch
    gap = gap_around(plan, at)
    if as_json:
        between = {} if gap is None else {"gap": {"start": to_iso(gap.start), "end": to_iso(gap.end)}}
        told = {"view": view, "epoch": last, "windows": [as_data(account) for account in found], **between}
        typer.echo(json.dumps(told))
    elif last is None:
        typer.echo(f"{view}: no epoch yet")
    elif gap is not None:
        stretch = f"{to_iso(gap.start)} to {to_iso(gap.end)}"
        typer.echo(f"{view}: that time is in a gap between two windows, {stretch}: its rows are in none")
    elif not found:
        typer.echo(f"{view}: as of epoch {last} no window holds that time, or of sessions none that the output tells")
    else:
        typer.echo("\n\n".join(as_text(view, last, account) for account in found))
