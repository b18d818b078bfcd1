"""One Delta table of a store: which files it has at a version, and how files get in and out, exactly once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from state_store.errors import StoreBusyError
from state_store.format import CHECKPOINT_INTERVAL
from state_store.parquet import DataFile


class DeltaDirectory:
    """A Delta table in a local directory. Reading never writes; `commit` is the only way in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._table: DeltaTable | None = None

    @property
    def exists(self) -> bool:
        return self._loaded() is not None

    def _loaded(self) -> DeltaTable | None:
        if self._table is None:
            try:
                self._table = DeltaTable(str(self.root))
            except TableNotFoundError:
                return None
        return self._table

    def create(
        self, schema: pa.Schema, partition_by: Sequence[str] = (), configuration: dict[str, str] | None = None
    ) -> None:
        """Make the table if it is not there."""
        if self.exists:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        self._table = DeltaTable.create(
            str(self.root),
            schema,
            mode="ignore",
            partition_by=list(partition_by),
            configuration={"delta.checkpointInterval": CHECKPOINT_INTERVAL, **(configuration or {})},
            raise_if_key_not_exists=False,
        )

    def refresh(self) -> None:
        table = self._loaded()
        if table is not None:
            table.update_incremental()

    @property
    def version(self) -> int | None:
        """The version of the snapshot at hand, None where there is no table."""
        table = self._loaded()
        return None if table is None else table.version()

    @property
    def configuration(self) -> dict[str, str]:
        table = self._loaded()
        return {} if table is None else dict(table.metadata().configuration)

    def schema(self) -> pa.Schema:
        table = self._loaded()
        if table is None:
            return pa.schema([])
        return pa.schema(table.schema().to_arrow())

    def landed(self, application: str) -> int | None:
        """The last number that `application` committed to this table."""
        table = self._loaded()
        return None if table is None else table.transaction_version(application)

    def files(self, version: int | None = None) -> list[DataFile]:
        """The table's files at a version (default: of the snapshot at hand)."""
        table = self._loaded()
        if table is None:
            return []
        if version is not None and version != table.version():
            table = DeltaTable(str(self.root), version=version)
        return [_data_file(row) for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()]

    def files_at(self, version: int | None) -> list[DataFile]:
        """The files at a pinned version; None pins that there was no table yet."""
        return [] if version is None else self.files(version)

    def absolute(self, files: Sequence[DataFile]) -> list[str]:
        return [str(self.root / file.path) for file in files]

    def commit(
        self, *, add: Sequence[DataFile] = (), remove: Sequence[DataFile] = (), application: str, number: int
    ) -> int:
        """Add and remove files in one version, unless `application` already committed `number`.

        Two writers that race for one number: the second gets StoreBusyError, and its files stay out of the table.
        """
        table = self._loaded()
        assert table is not None, f"the table was not created: {self.root}"
        landed = table.transaction_version(application)
        if landed is not None and landed >= number:
            return table.version()
        actions: list[AddAction | RemoveAction] = [*map(_add_action, add), *map(_remove_action, remove)]
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(app_transactions=[Transaction(application, number)]),
            )
        except CommitFailedError as conflict:
            raise busy(self.root, str(conflict)) from conflict
        table.update_incremental()
        return table.version()


def busy(root: Path, detail: str) -> StoreBusyError:
    return StoreBusyError(
        "LMR0402",
        "another run is writing this view's state",
        detail=f"{root}: {detail}",
        hint="Wait for the other run to end, then run again: it goes on from what is committed.",
    )


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.partition,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=file.stats(),
    )


def _remove_action(file: DataFile) -> RemoveAction:
    return RemoveAction(file.path, True, int(time.time() * 1000), file.size, file.partition)


def _data_file(row: dict[str, Any]) -> DataFile:
    def part(prefix: str) -> dict[str, Any]:
        return {
            name.removeprefix(prefix): value
            for name, value in row.items()
            if name.startswith(prefix) and value is not None
        }

    return DataFile(
        path=unquote(row["path"]),
        size=row["size_bytes"],
        rows=row.get("num_records") or 0,
        partition={name: None if v is None else str(v) for name, v in part("partition.").items()},
        low=part("min."),
        high=part("max."),
        nulls=part("null_count."),
    )
