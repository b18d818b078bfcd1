"""Views whose history is written by hand, with the sinks that their SQL declares. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from laminar_dagster.engine.sinks.delivering import Deliveries
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import MINUTE
from state_store import CommitRow, MaintenancePolicy, StoreWriter
from state_store import format as f
from state_store.changelog import changelog_schema
from state_store.merging import merge_if_due
from state_store.parquet import write_file
from tests.changes.changelogs import DATA, NOON, Change, changelog_rows, inside

UPDATING = """
CREATE SOURCE s (k STRING, x BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW view AS SELECT k, SUM(x) AS n FROM s GROUP BY k EMIT CHANGES;
"""
APPENDING = """
CREATE SOURCE s (k STRING, x BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW view AS SELECT k, SUM(x) AS n FROM TUMBLE(s, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k EMIT FINAL;
"""
JSON = "CREATE SINK lines FROM view WITH (connector = 'files', path = 'lines', format = 'json', mode = 'changelog');"
DEBEZIUM = "CREATE SINK events FROM view WITH (connector = 'files', path = 'events', format = 'debezium');"
UPSERT = "CREATE SINK current FROM view WITH (connector = 'delta', path = 'current', mode = 'upsert', key = 'k');"
HISTORY = "CREATE SINK history FROM view WITH (connector = 'delta', path = 'history', mode = 'changelog');"
ALL = "\n".join((JSON, DEBEZIUM, UPSERT, HISTORY))


def query(sql: str) -> Query:
    return plan_script(sql)[0].query


def no_spark() -> NoReturn:
    raise AssertionError("files and Delta tables need no Spark")


def deliveries(root: Path, sql: str, after_write: Callable[[str], None] = lambda _: None) -> Deliveries:
    return Deliveries(query(sql), root / "data" / "view", Surroundings(root, after_write), no_spark)


def deliver(root: Path, sql: str, after_write: Callable[[str], None] = lambda _: None) -> Deliveries:
    """One run that finds no new epoch: everything that is committed is delivered."""
    found = deliveries(root, sql, after_write)
    found.catch_up()
    found.require_success()
    return found


def delivery(epoch: int, *changes: Change, snapshot: bool = False) -> Delivery:
    rows = pa.Table.from_pylist(changelog_rows(epoch, changes), inside(changelog_schema(DATA)))
    return Delivery(epoch, rows, no_spark, snapshot)


def delta_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(rows, key=repr)


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def parquet_rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.name: pq.read_table(path).to_pylist() for path in sorted(folder.iterdir())}


def append(store: Path, *rows: dict[str, Any]) -> int:
    """An epoch of a view that only appends: these rows in its output."""
    with StoreWriter(store) as writer:
        tail = writer.tail()
        epoch = tail.commit.epoch + 1 if tail.commit else 1
        window = {"_window_start": 0, "_window_end": MINUTE}
        bounds = [(name, pa.int64()) for name in window]
        schema = pa.schema([*DATA, *bounds, ("_epoch", pa.int64()), ("_emitted_at", f.TIMESTAMP)])
        if rows:
            own = {**window, "_epoch": epoch, "_emitted_at": NOON + timedelta(seconds=epoch)}
            table = pa.Table.from_pylist([{**row, **own} for row in rows], schema)
            name = f"e{epoch:010d}-{writer.run_id}/part-0.parquet"
            file = write_file(writer.table(f.OUTPUT).root, name, table)
            writer.land(f.OUTPUT, epoch, schema=schema, add=[file])
        versions = writer.versions(f.TABLES)
        writer.finish(CommitRow(epoch, "tick", writer.run_id, 0, "f", None, {}, {}, versions, {"rows_out": len(rows)}))
    return epoch


def merge(store: Path) -> None:
    """Merge the files of all epochs that only append."""
    with StoreWriter(store) as writer:
        writer.tail()
        assert merge_if_due(writer, f.OUTPUT, MaintenancePolicy(merge_files=2))
