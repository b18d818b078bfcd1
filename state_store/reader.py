"""Reads a store and cannot change it: what the commands that only look use. No JVM."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from state_store import format as f
from state_store.delta_log import LOG_FOLDER
from state_store.epochs import CommitRow, EpochLog, Tail
from state_store.errors import StoreError
from state_store.parquet import DataFile
from state_store.tables import DeltaDirectory


class StoreReader:
    """A view's tables as of an epoch's commit; the latest one unless another is asked for."""

    def __init__(self, root: Path, tables: dict[str, DeltaDirectory] | None = None) -> None:
        """`tables` are those that are open already: they need not be loaded again."""
        self.root = root
        self._tables = {} if tables is None else tables
        self.epochs = self.table(f.EPOCHS)
        check_format(self.epochs)
        self.log = EpochLog(self.epochs)

    @property
    def exists(self) -> bool:
        return self.epochs.exists

    def table(self, name: str) -> DeltaDirectory:
        if name not in self._tables:
            self._tables[name] = DeltaDirectory(self.root / name)
        return self._tables[name]

    def tail(self) -> Tail:
        return self._tail

    @cached_property
    def _tail(self) -> Tail:
        return self.log.tail()

    def oldest(self, name: str) -> int:
        """The oldest epoch that a table can be read at."""
        return int(self.tail().maintenance.get("readable", {}).get(name, 1))

    def commit(self, epoch: int | None = None) -> CommitRow | None:
        """The commit of an epoch, of the last one by default; an epoch that is not there is an error."""
        if epoch is None:
            return self.tail().commit
        found = self.log.commit_of(epoch)
        if found is None:
            last = self.tail().commit
            raise StoreError(
                "LMR0404",
                f"there is no committed epoch {epoch}",
                detail=f"{self.root}: the last committed epoch is {last.epoch if last else 'none'}",
                hint="`laminar state VIEW --history` lists the epochs.",
            )
        return found

    def files(self, name: str, at: CommitRow | None = None) -> list[DataFile]:
        """A table's files as the commit `at` (default: the last) left them."""
        commit = at or self.commit()
        if commit is None or commit.tables.get(name) is None:
            return []
        if commit.epoch < self.oldest(name):
            raise self._forgotten(name, commit.epoch, self.oldest(name))
        try:
            return self.table(name).files(commit.tables[name])
        except DeltaError:
            self._refuse_forgotten(name, commit.epoch)
            raise

    def _refuse_forgotten(self, name: str, epoch: int) -> None:
        """A run may have deleted the files since this reader began: what does the log say now?"""
        oldest = StoreReader(self.root).oldest(name)
        if epoch < oldest:
            raise self._forgotten(name, epoch, oldest)

    def _forgotten(self, name: str, epoch: int, oldest: int) -> StoreError:
        return StoreError(
            "LMR0407",
            f"epoch {epoch} can no longer be read: files of its table {name} are deleted",
            detail=f"{self.root}: {name} can be read as of epoch {oldest} and later",
            hint=f"Ask for epoch {oldest} or a later one. How long epochs are kept is set in laminar.toml: "
            "retain_epochs, retain_state, retain_results.",
        )

    def read(self, name: str, at: CommitRow | None = None, columns: list[str] | None = None) -> pa.Table:
        table = self.table(name)
        files = self.files(name, at)
        if not files:
            return table.schema().empty_table()
        try:
            parts = [_read_file(table.root, file, columns) for file in files]
        except FileNotFoundError:
            commit = at or self.commit()
            assert commit is not None, "there are files"
            self._refuse_forgotten(name, commit.epoch)
            raise
        return pa.concat_tables(parts, promote_options="permissive")

    def sizes(self, at: CommitRow | None = None) -> dict[str, dict[str, int]]:
        """Files, rows and bytes of each table; and what is on disk, with files that only earlier epochs need."""
        out: dict[str, dict[str, int]] = {}
        for name in (f.EPOCHS, *f.TABLES):
            files = self.epochs.files() if name == f.EPOCHS else self.files(name, at)
            out[name] = {
                "files": len(files),
                "rows": sum(file.rows for file in files),
                "bytes": sum(file.size for file in files),
                **_on_disk(self.root / name),
            }
        return out


def _on_disk(root: Path) -> dict[str, int]:
    """All files below a table's root, and how many of them are its log."""
    found = {"disk_files": 0, "disk_bytes": 0, "log_files": 0}
    for folder, _, files in os.walk(root):
        found["disk_files"] += len(files)
        found["disk_bytes"] += sum(_size(Path(folder, name)) for name in files)
        found["log_files"] += len(files) if Path(folder).name == LOG_FOLDER else 0
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a run that goes on meanwhile may delete it
        return 0


def _read_file(root: Path, file: DataFile, columns: list[str] | None) -> pa.Table:
    inside = None if columns is None else [c for c in columns if c not in file.partition]
    table = pq.ParquetFile(root / file.path).read(columns=inside)
    for name, value in file.partition.items():
        if columns is None or name in columns:
            table = table.append_column(name, pa.array([value] * table.num_rows, pa.string()))
    return table


def check_format(epochs: DeltaDirectory) -> None:
    """Refuse a store of another format version than ours, before anything is read or written."""
    if not epochs.exists:
        return
    found: Any = epochs.configuration.get(f.FORMAT_KEY)
    if found != str(f.FORMAT_VERSION):
        raise StoreError(
            "LMR0401",
            f"the state store has format version {found}, and this version of laminar reads {f.FORMAT_VERSION}",
            detail=f"store: {epochs.root.parent}",
            hint="Use the version of laminar that wrote it, or rebuild the view in another data directory. "
            "Nothing was read or written.",
        )


__all__ = ["StoreReader", "check_format"]
