"""Epochs written by hand, table by table, for what the command line tells of them. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.engine.project import Project
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.time import MINUTE, from_iso, to_datetime
from state_store import CommitRow, PlanRow, StoreWriter
from state_store import format as f
from state_store.changelog import changelog_schema, partition_folder
from state_store.parquet import write_file

RESULT = pa.schema([("window_start", f.TIMESTAMP), ("region", pa.string()), ("n", pa.int64())])
BOUNDS = pa.schema([("_window_start", pa.int64()), ("_window_end", pa.int64())])
EMITTED = pa.schema([("_epoch", pa.int64()), ("_emitted_at", f.TIMESTAMP)])
NUMBERS = ("pane_start", "pane_end", "hidden_until", "key_hash", "a0_n", "row_count", "updated_at")
STATE = pa.schema([*((name, pa.int64()) for name in NUMBERS), ("k0", pa.string())])
SCHEMAS = {
    f.PARTIALS: STATE,
    f.TIMERS: f.TIMER_SCHEMA,
    f.SIDE_OUTPUT: f.SIDE_OUTPUT_SCHEMA,
    f.CHANGELOG: changelog_schema(RESULT),
    f.OUTPUT: pa.schema([*RESULT, *BOUNDS, *EMITTED, ("_partition", pa.string())]),
}
PARTITIONS = {f.CHANGELOG: ("_epochs",), f.OUTPUT: ("_partition",)}
DAY = "2026-01-01"


def at(clock: str) -> int:
    """A time of the day on which everything happens."""
    return from_iso(f"{DAY}T{clock}Z")


@dataclass(frozen=True)
class ToldEpoch:
    """An epoch by what it left behind."""

    clock: str
    watermark: str | None
    shards: Mapping[str, tuple[str | None, str]]
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    kind: str = "tick"


def built_with(store: Path) -> str:
    """The plan of the view whose store this is, where it lies in the data of a project."""
    project = store.parent.parent
    if not (project / "sql").is_dir():
        return "f"
    plans = {plan.query.view: plan for plan in Project.find(project).plans()}
    return fingerprint(plans[store.name]) if store.name in plans else "f"


def tell(
    root: Path, epochs: Sequence[ToldEpoch], output: pa.Schema | None = None, state: pa.Schema | None = None
) -> None:
    own = {f.OUTPUT: output, f.PARTIALS: state}
    schemas = {**SCHEMAS, **{name: schema for name, schema in own.items() if schema is not None}}
    query = built_with(root)
    with StoreWriter(root) as store:
        store.tail()
        for told in epochs:
            _tell(store, told, schemas, query)


def _tell(store: StoreWriter, told: ToldEpoch, schemas: Mapping[str, pa.Schema], query: str) -> None:
    epoch, now = (store.last.epoch if store.last else 0) + 1, at(told.clock)
    store.begin(PlanRow(epoch, told.kind, store.run_id, now, query, None, {}, store.versions(f.TABLES), {}))
    for name, rows in _dated(told, now).items():
        partition_by = PARTITIONS.get(name, ())
        inside = pa.schema([column for column in schemas[name] if column.name not in partition_by])
        folder = {f.CHANGELOG: f"{partition_folder(epoch)}/", f.OUTPUT: f"_partition={DAY}/"}.get(name, "")
        path = f"e{epoch:010d}-{store.run_id}/{folder}part-0.parquet"
        file = write_file(store.table(name).root, path, pa.Table.from_pylist(list(rows), inside))
        store.land(name, epoch, schema=schemas[name], partition_by=partition_by, add=[file])
    shards = {
        name: [None if reached is None else at(reached), at(active)] for name, (reached, active) in told.shards.items()
    }
    watermark = None if told.watermark is None else at(told.watermark)
    versions = store.versions(f.TABLES)
    commit = CommitRow(
        epoch, told.kind, store.run_id, now, query, watermark, {}, shards, versions, told.counts, told.seconds
    )
    store.finish(commit)


def _dated(told: ToldEpoch, now: int) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The epoch's tables; what it left in the state came just then."""
    state = [{**row, "updated_at": now} for row in told.tables.get(f.PARTIALS, ())]
    return {**told.tables, **({f.PARTIALS: state} if state else {})}


def partial(start: str, end: str, region: str | None, n: int) -> dict[str, Any]:
    return {"pane_start": at(start), "pane_end": at(end), "k0": region, "a0_n": n, "row_count": n}


def timer(start: str, end: str, epoch: int) -> dict[str, Any]:
    return {"deadline": at(end), "window_start": at(start), "window_end": at(end), "epoch": epoch}


def result(epoch: int, clock: str, start: str, region: str, n: int) -> dict[str, Any]:
    values = {"window_start": to_datetime(at(start)), "region": region, "n": n}
    bounds = {"_window_start": at(start), "_window_end": at(start) + MINUTE}
    return {**values, **bounds, "_epoch": epoch, "_emitted_at": to_datetime(at(clock))}


def change(op: str, end: str, epoch: int, seq: int, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "_epoch": epoch, "_seq": seq, "_op": op, "_weight": 1, "_event_time": to_datetime(at(end))}


def late(start: str, end: str, region: str) -> dict[str, Any]:
    bounds = {"window_start": to_datetime(at(start)), "window_end": to_datetime(at(end))}
    group = f'{{"region":"{region}"}}'
    return {"kind": "late", "reason": "allowed_lateness_exceeded", "event_time": bounds["window_start"], **bounds,
            "group_key": group}  # fmt: skip


def laminar(root: Path, *arguments: str) -> Any:
    found = CliRunner().invoke(app, [*arguments, "--project", str(root)], env={"COLUMNS": "140"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def a_project(root: Path, sql: str) -> Path:
    (root / "sql").mkdir()
    (root / "sql" / "views.sql").write_text(sql)
    for folder in ("landing", "returned"):
        (root / folder).mkdir()
    (root / "laminar.toml").write_text("")
    return root
