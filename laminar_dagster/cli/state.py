"""`laminar state`: open windows, watermarks, timers and sizes of a view, at any epoch."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from laminar_dagster.cli.options import DataOption, EpochOption, JsonOption, ProjectOption, ViewArgument, project_of
from laminar_dagster.cli.screen import Screen, limit_for, tell_cut
from laminar_dagster.cli.values import lasting, plain_row, shown_row, sized
from laminar_dagster.engine.clock_report import standings
from laminar_dagster.engine.open_windows import open_windows as windows_of
from laminar_dagster.engine.same_query import require_same_query
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS, Query
from laminar_dagster.semantics.time import SECOND, from_datetime, to_iso
from state_store import CommitRow, StoreReader
from state_store import format as f

LINES = 20
# Told below the history, of the epochs that have such rows: as columns they would leave no room for the others.
OCCASIONAL = {
    "between_windows": "between windows",
    "evicted": "evicted",
    "duplicate": "duplicates",
    "side_output_dropped": "beyond side_output.max_rows_per_epoch and not kept",
}


def state(
    view: ViewArgument,
    project: ProjectOption = None,
    data: DataOption = None,
    epoch: EpochOption = None,
    history: Annotated[bool, typer.Option("--history", help="The last epochs instead of the state.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many windows or epochs at the most. Default: {LINES} in a table, else all."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a view's state: what is open, how far time has come, what it takes on disk."""
    found = project_of(project, data)
    plan = found.plan(view)
    reader = StoreReader(found.store(view))
    commit = reader.commit(epoch) if reader.exists else None
    if commit is None:
        typer.echo(json.dumps({"view": view, "epoch": None}) if as_json else f"{view}: no epoch yet")
        return
    if not history:
        require_same_query(plan, commit, commit)
    most = limit_for(limit, on_screen=not as_json, default=LINES)
    content = {"epochs": epochs(reader, commit.epoch, most)} if history else snapshot(plan, reader, commit)
    listed = "epochs" if history else "open_windows"
    count = commit.epoch if history else len(content[listed])
    content[listed] = content[listed][:most]
    if as_json:
        typer.echo(json.dumps({"view": view, **content}))
    elif history:
        _print_history(content["epochs"])
    else:
        _print_state(view, content, count)
    if most is not None and len(content[listed]) == most < count:
        tell_cut(view, most, count, listed.replace("_", " "))


def snapshot(plan: Plan, reader: StoreReader, commit: CommitRow) -> dict[str, Any]:
    return {
        "epoch": commit.epoch,
        "plan": commit.fingerprint,
        "processing_time": to_iso(commit.processing_time),
        "watermark": _time(commit.watermark),
        "shards": shards(plan.query, commit),
        "open_windows": open_windows(plan, reader, commit),
        "tables": reader.sizes(commit),
        "maintenance": maintenance(reader),
        "counts": dict(commit.counts),
    }


def shards(query: Query, commit: CommitRow) -> list[dict[str, Any]]:
    """How far each shard has come, as the epoch saw it, and which of them hold the watermark back."""
    return [
        {
            "shard": standing.shard,
            "watermark": _time(standing.watermark),
            "active_at": to_iso(standing.active_at),
            "idle": standing.is_idle,
            "idle_from": _time(standing.idle_from),
            "holds_back": standing.holds_back,
            "ahead_seconds": None if standing.ahead is None else standing.ahead / SECOND,
        }
        for standing in standings(query, commit)
    ]


def maintenance(reader: StoreReader) -> dict[str, Any]:
    """From which epoch on each table can be read, and what was merged and deleted last."""
    told = reader.tail().maintenance
    vacuum = told.get("vacuum")
    return {
        "oldest_epoch": max(reader.oldest(name) for name in f.TABLES),
        "readable": {name: reader.oldest(name) for name in f.TABLES},
        "compaction": told.get("compaction"),
        "vacuum": None if vacuum is None else {**vacuum, "at": to_iso(vacuum["at"])},
    }


def open_windows(plan: Plan, reader: StoreReader, commit: CommitRow) -> list[dict[str, Any]]:
    """Each open window with its timer and what the state holds of it; of sessions, with their keys.

    For how long nothing came is up to now, and not to the epoch: a view that nobody runs falls silent too.
    """
    now = from_datetime(datetime.now(UTC))
    return [
        {
            "window_start": to_iso(found.window.start),
            "window_end": to_iso(found.window.end),
            **({"keys": plain_row(found.keys)} if found.keys else {}),
            "closes_at_watermark": to_iso(found.deadline),
            "rows": found.rows,
            "updated_at": to_iso(found.updated_at),
            "quiet_seconds": (now - found.updated_at) / SECOND,
            "partials": found.partials,
        }
        for found in windows_of(plan, reader, commit)
    ]


def epochs(reader: StoreReader, last: int, limit: int | None) -> list[dict[str, Any]]:
    """The epochs up to `last`, newest first."""
    return [
        {
            "epoch": commit.epoch,
            "kind": commit.epoch_kind,
            "committed_at": to_iso(commit.written_at),
            "watermark": _time(commit.watermark),
            "counts": dict(commit.counts),
            "seconds": dict(commit.seconds),
        }
        for commit in reader.log.commits(upto=last, limit=limit)
    ]


def _time(micros: int | None) -> str | None:
    return None if micros is None else to_iso(micros)


def _print_state(view: str, content: dict[str, Any], open_windows: int) -> None:
    console = Screen()
    console.print(f"{view}: epoch {content['epoch']}, watermark {content['watermark'] or 'unknown yet'}")
    console.print(shard_table(content["shards"]))
    console.print(window_table(content["open_windows"]))
    console.print(f"{open_windows} open window(s)\n")
    tables = _table("table", "files", "rows", "size", "files on disk", "size on disk")
    for name, size in content["tables"].items():
        numbers = (str(size["files"]), str(size["rows"]), sized(size["bytes"]))
        tables.add_row(name, *numbers, str(size["disk_files"]), sized(size["disk_bytes"]))
    console.print(tables)
    for line in [*_drop_lines(content["counts"]), *_maintenance_lines(content["maintenance"])]:
        console.print(line)


def window_table(entries: list[dict[str, Any]]) -> Table:
    """A line for each open window; of sessions, which of one time differ by their keys, with these."""
    has_keys = any("keys" in window for window in entries)
    table = _table(*(["keys"] if has_keys else []), "open window", "until", "closes at watermark", "rows", "last row")
    for window in entries:
        keys = [escape(shown_row(window.get("keys", {})))] if has_keys else []
        bounds = (window["window_start"], window["window_end"], window["closes_at_watermark"])
        quiet = lasting(round(window["quiet_seconds"]) * SECOND)
        table.add_row(*keys, *bounds, str(window["rows"]), f"{quiet} ago")
    return table


def shard_table(entries: list[dict[str, Any]]) -> Table:
    """A line for each shard, with how it stands to the others: narrow, as a table has to fit a terminal."""
    table = _table("shard", "watermark", "last rows at", "")
    for shard in entries:
        table.add_row(escape(shard["shard"]), shard["watermark"] or "-", shard["active_at"], _beside_others(shard))
    return table


def _beside_others(shard: dict[str, Any]) -> str:
    if shard["idle"]:
        return "idle"
    return "holds back" if shard["holds_back"] else f"{lasting(round(shard['ahead_seconds'] * SECOND))} ahead"


def _drop_lines(counts: dict[str, int]) -> list[str]:
    """What a limit of the side output left out of the epoch, by kind."""
    kinds = {kind: counts.get(f"side_output_dropped_{kind}", 0) for kind in SIDE_OUTPUT_KINDS}
    listed = ", ".join(f"{rows} {kind}" for kind, rows in kinds.items() if rows)
    return [f"side_output.max_rows_per_epoch left out, in this epoch: {listed}"] if listed else []


def _maintenance_lines(told: dict[str, Any]) -> list[str]:
    compaction, vacuum = told["compaction"], told["vacuum"]
    results = told["readable"][f.OUTPUT]
    lines = [f"can be read as of epoch {told['oldest_epoch']} and later; the output as of epoch {results} and later"]
    if compaction is not None:
        lines.append(
            f"last merge: {compaction['files']} files of {compaction['table']}, after epoch {compaction['epoch']}"
        )
    if vacuum is not None:
        gone = f"{vacuum['files']} files, {sized(vacuum['bytes'])}"
        lines.append(f"last vacuum: {gone}, after epoch {vacuum['epoch']} at {_short(vacuum['at'])}")
    return lines


def _print_history(entries: list[dict[str, Any]]) -> None:
    shown = {"rows_in": "in", "late": "late", "error": "errors", "windows_closed": "closed", "rows_out": "out"}
    table = _table("epoch", "committed (UTC)", "watermark (UTC)", *shown.values(), "s")
    for entry in entries:
        numbers = [str(entry["counts"].get(name, 0)) for name in shown]
        seconds = f"{sum(entry['seconds'].values()):.2f}"
        watermark = _short(entry["watermark"]) if entry["watermark"] else "-"
        table.add_row(str(entry["epoch"]), _short(entry["committed_at"]), watermark, *numbers, seconds)
    console = Screen()
    console.print(table)
    for entry in entries:
        said = [f"{n} {label}" for name, label in OCCASIONAL.items() if (n := entry["counts"].get(name))]
        if said:
            console.print(f"epoch {entry['epoch']} also: {', '.join(said)}")


def _short(moment: str) -> str:
    """A time without its fraction: a table has to fit a terminal."""
    return moment[:19].replace("T", " ")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
