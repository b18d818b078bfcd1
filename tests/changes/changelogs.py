"""Stores whose changelog is written by hand, epoch by epoch. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar_dagster.changes import ChangeBatch
from state_store import CommitRow, DataFile, StoreWriter
from state_store import format as f
from state_store.changelog import changelog_schema, partition_folder
from state_store.parquet import write_file

DATA = pa.schema([("k", pa.string()), ("n", pa.int64())])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Change = tuple[str, dict[str, Any]]


def row(k: str | None, n: int | None) -> dict[str, Any]:
    return {"k": k, "n": n}


def update(k: str, old: int, new: int) -> list[Change]:
    return [("-U", row(k, old)), ("+U", row(k, new))]


class Changelog:
    """A view's store; each `commit` is an epoch."""

    def __init__(
        self,
        root: Path,
        data: pa.Schema = DATA,
        after_write: Callable[[str], None] = lambda _: None,
        query: str = "f",
    ) -> None:
        self.root = root
        self.query = query
        self.schema = changelog_schema(data)
        self.after_write = after_write

    def commit(self, *changes: Change, files: int = 1) -> int:
        """An epoch with these changes, scattered over so many files; gives its number."""
        with self.writer() as store:
            epoch = self.land(store, *changes, files=files)
            finish(store, epoch, self.query)
        return epoch

    def writer(self) -> StoreWriter:
        return StoreWriter(self.root, after_write=self.after_write)

    def land(self, store: StoreWriter, *changes: Change, files: int = 1) -> int:
        """All of an epoch but its commit row."""
        tail = store.tail()
        epoch = tail.commit.epoch + 1 if tail.commit else 1
        table = pa.Table.from_pylist(changelog_rows(epoch, changes), inside(self.schema))
        parts = [table.take(pa.array(range(part, table.num_rows, files), pa.int64())) for part in range(files)]
        written = [
            self.file(epoch, rows, f"part-{part}.parquet", store) for part, rows in enumerate(parts) if rows.num_rows
        ]
        if written:
            self.add(store, epoch, written)
        return epoch

    def file(self, epoch: int, rows: pa.Table, name: str, store: StoreWriter) -> DataFile:
        folder = f"e{epoch:010d}-{store.run_id}/{partition_folder(epoch)}"
        return write_file(store.table(f.CHANGELOG).root, f"{folder}/{name}", rows)

    def add(self, store: StoreWriter, epoch: int, files: Sequence[DataFile]) -> None:
        store.land(f.CHANGELOG, epoch, schema=self.schema, partition_by=["_epochs"], add=files)


def finish(store: StoreWriter, epoch: int, query: str = "f") -> None:
    versions = store.versions(f.TABLES)
    store.finish(CommitRow(epoch, "tick", store.run_id, 0, query, None, {}, {}, versions, {}))


def changelog_rows(epoch: int, changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [
        {
            "_epoch": epoch,
            "_seq": seq,
            "_op": op,
            "_weight": 1 if op.startswith("+") else -1,
            "_event_time": NOON,
            "_emitted_at": NOON + timedelta(seconds=epoch),
            **data,
        }
        for seq, (op, data) in enumerate(changes)
    ]


def inside(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != "_epochs"])


def places(batches: Iterable[ChangeBatch]) -> list[tuple[int, int]]:
    """(epoch, seq) of each row, in the order in which they came."""
    return [
        (epoch, seq)
        for batch in batches
        for epoch, seq in zip(
            batch.rows.column("_epoch").to_pylist(), batch.rows.column("_seq").to_pylist(), strict=True
        )
    ]


def table_of(batches: Iterable[ChangeBatch]) -> pa.Table:
    return pa.Table.from_batches([batch.rows for batch in batches])
