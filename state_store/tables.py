"""One Delta table of a store: which files it has at a version, and how files get in and out, exactly once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from state_store import moments
from state_store.delta_log import LOG_FOLDER
from state_store.errors import StoreBusyError
from state_store.format import TABLE_PROPERTIES
from state_store.parquet import DataFile

# Which versions are forgotten is decided by epochs, in vacuum.py; and looking for old ones would slow each commit down.
HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class DeltaDirectory:
    """A Delta table in a local directory. Reading never writes; `commit` is the only way in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._table: DeltaTable | None = None
        self._numbers: dict[str, int | None] = {}

    @property
    def exists(self) -> bool:
        return self._loaded() is not None

    def _loaded(self) -> DeltaTable | None:
        if self._table is None:
            if not (self.root / LOG_FOLDER).is_dir():
                return None
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
            configuration={**TABLE_PROPERTIES, **(configuration or {})},
            raise_if_key_not_exists=False,
        )

    @property
    def file_count(self) -> int:
        actions = self.actions()
        return 0 if actions is None else actions.num_rows

    def refresh(self) -> None:
        table = self._loaded()
        if table is not None:
            table.update_incremental()
            self._numbers.clear()

    @property
    def version(self) -> int | None:
        """The version of the snapshot at hand, None where there is no table."""
        table = self._loaded()
        return None if table is None else table.version()

    @property
    def configuration(self) -> dict[str, str]:
        table = self._loaded()
        return {} if table is None else dict(table.metadata().configuration)

    @property
    def id(self) -> str | None:
        """What tells this table from another one that was made in the same place."""
        table = self._loaded()
        return None if table is None else str(table.metadata().id)

    def schema(self) -> pa.Schema:
        table = self._loaded()
        if table is None:
            return pa.schema([])
        return pa.schema(table.schema().to_arrow())

    def landed(self, application: str) -> int | None:
        """The last number that `application` committed to this table."""
        table = self._loaded()
        if table is None:
            return None
        if application not in self._numbers:
            self._numbers[application] = table.transaction_version(application)
        return self._numbers[application]

    def files(self, version: int | None = None) -> list[DataFile]:
        """The table's files at a version (default: of the snapshot at hand)."""
        actions = self.at(version).actions()
        return [] if actions is None else described(actions)

    def paths(self) -> set[str]:
        actions = self.actions()
        return set() if actions is None else {unquote(path) for path in actions.column("path").to_pylist()}

    def actions(self) -> pa.Table | None:
        """What the log says of each file, as columns: quick also where there are many files."""
        table = self._loaded()
        return None if table is None else pa.table(table.get_add_actions(flatten=True))

    def at(self, version: int | None) -> DeltaDirectory:
        """The table as it was at a version; None: the snapshot at hand."""
        at_hand = version is None or (self._table is not None and self._table.version() == version)
        if at_hand or not (self.root / LOG_FOLDER).is_dir():
            return self
        earlier = DeltaDirectory(self.root)
        earlier._table = DeltaTable(str(self.root), version=version)
        return earlier

    def files_at(self, version: int | None) -> list[DataFile]:
        """The files at a pinned version; None pins that there was no table yet."""
        return [] if version is None else self.files(version)

    def absolute(self, files: Sequence[DataFile]) -> list[str]:
        return [str(self.root / file.path) for file in files]

    def commit(
        self,
        *,
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
        application: str,
        number: int,
        same_rows: bool = False,
        not_after: str | None = None,
        also: Mapping[str, int] | None = None,
    ) -> int:
        """Add and remove files in one version, unless `application` already committed `number`.

        Two writers that race for one number: the second gets StoreBusyError, and its files stay out of the table. So
        does one that has not seen the last commit of the application `not_after`. `same_rows` tells those who follow
        the table that its rows only moved. `also` are numbers of further applications that the version carries.
        """
        table = self._loaded()
        assert table is not None, f"the table was not created: {self.root}"
        landed = self.landed(application)
        if landed is not None and landed >= number:
            return table.version()
        changes = not same_rows
        actions: list[AddAction | RemoveAction] = [_add_action(file, changes) for file in add]
        actions += [_remove_action(file, changes) for file in remove]
        numbers = {application: number, **({} if not_after is None else {not_after: self.landed(not_after)})}
        numbers |= also or {}
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(name, taken) for name, taken in numbers.items() if taken is not None]
                ),
                post_commithook_properties=HOOKS,
            )
        except CommitFailedError as conflict:
            raise busy(self.root, str(conflict)) from conflict
        self.refresh()
        return table.version()


def busy(root: Path, detail: str) -> StoreBusyError:
    return StoreBusyError(
        "LMR0402",
        "another run is writing this view's state",
        detail=f"{root}: {detail}",
        hint="Wait for the other run to end, then run again: it goes on from what is committed.",
    )


def _add_action(file: DataFile, changes: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.partition,
        modification_time=int(time.time() * 1000),
        data_change=changes,
        stats=file.stats(),
    )


def _remove_action(file: DataFile, changes: bool) -> RemoveAction:
    return RemoveAction(file.path, changes, int(time.time() * 1000), file.size, file.partition)


def described(actions: pa.Table) -> list[DataFile]:
    names = {prefix: _named(actions, prefix) for prefix in ("partition.", "min.", "max.", "null_count.")}
    types = {field.name: field.type for field in actions.schema if moments.is_time(field.type)}
    return [_data_file(row, names, types) for row in moments.as_integers(actions).to_pylist()]


def _named(actions: pa.Table, prefix: str) -> dict[str, str]:
    return {name: name.removeprefix(prefix) for name in actions.column_names if name.startswith(prefix)}


def _data_file(
    row: dict[str, Any], names: Mapping[str, Mapping[str, str]], types: Mapping[str, pa.DataType]
) -> DataFile:
    def part(prefix: str) -> dict[str, Any]:
        return {short: row[name] for name, short in names[prefix].items() if row[name] is not None}

    return DataFile(
        path=unquote(row["path"]),
        size=row["size_bytes"],
        rows=row.get("num_records") or 0,
        partition={name: str(value) for name, value in part("partition.").items()},
        low=part("min."),
        high=part("max."),
        nulls=part("null_count."),
        times={short: types[name] for name, short in names["min."].items() if name in types},
    )
