"""Writes a store: one run at a time, epoch by epoch, each table at most once per epoch."""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa

from state_store import format as f
from state_store.epochs import LOG, CommitRow, EpochLog, PlanRow, Tail, claimed
from state_store.moments import micros
from state_store.parquet import DataFile
from state_store.reader import StoreReader, check_format
from state_store.tables import DeltaDirectory, busy

EPOCH_APPLICATION = "laminar/epoch"
COMPACTION_APPLICATION = "laminar/compaction"


class StoreWriter:
    """The one writer of a view's store.

    A lock on the local file tells at once that another process is at work; the log's sequence numbers are what
    protects, also where locks do not reach.
    """

    def __init__(self, root: Path, *, lock: bool = True, after_write: Callable[[str], None] = lambda _: None) -> None:
        self.root = root
        self.run_id = uuid.uuid4().hex[:12]
        self._lock_file: IO[str] | None = None
        self._want_lock = lock
        self.after_write = after_write
        self._tables: dict[str, DeltaDirectory] = {}
        self.seq = 0
        self.last: CommitRow | None = None
        self.maintenance: Mapping[str, Any] = {}

    def __enter__(self) -> StoreWriter:
        self.root.mkdir(parents=True, exist_ok=True)
        if self._want_lock:
            self._lock_file = _locked(self.root)
        try:
            check_format(self.table(f.EPOCHS))
            configuration = {f.FORMAT_KEY: str(f.FORMAT_VERSION)}
            self.table(f.EPOCHS).create(f.EPOCH_SCHEMA, configuration=configuration)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def table(self, name: str) -> DeltaDirectory:
        if name not in self._tables:
            self._tables[name] = DeltaDirectory(self.root / name)
        return self._tables[name]

    def reader(self) -> StoreReader:
        """Reads what this writer has committed, in the tables that it has open."""
        return StoreReader(self.root, self._tables)

    @property
    def log(self) -> EpochLog:
        return EpochLog(self.table(f.EPOCHS))

    def tail(self) -> Tail:
        """Where the log ends; from here on this writer expects to append the next row."""
        tail = self.log.tail()
        self.seq, self.last, self.maintenance = tail.seq, tail.commit, tail.maintenance
        return tail

    def versions(self, names: Sequence[str]) -> dict[str, int | None]:
        return {name: self.table(name).version for name in names}

    def begin(self, plan: PlanRow) -> None:
        """Write the epoch's plan: from here on a rerun does exactly this epoch."""
        self._append("plan", plan)

    def claim(self, plan: PlanRow) -> PlanRow:
        """Take over an epoch that another run planned and did not finish; that run can no longer commit it."""
        mine = claimed(plan, self.run_id)
        self._append("claim", mine)
        return mine

    def cancel(self, plan: PlanRow) -> None:
        """Take back a plan of which nothing has landed."""
        self._append("cancel", claimed(plan, self.run_id))

    def finish(self, commit: CommitRow) -> None:
        """The epoch has happened."""
        self.last = replace(commit, maintenance=self.maintenance)
        self._append("commit", self.last)
        before, self.seq = self.seq, self.log.compact(self.seq)
        if self.seq != before:
            self.after_write("log compaction")

    def _append(self, kind: str, row: PlanRow | CommitRow) -> None:
        self.log.append(self.seq + 1, kind, row)
        self.seq += 1
        self.after_write(f"{kind} row")

    def land(
        self,
        name: str,
        epoch: int,
        *,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
    ) -> int:
        """Make an epoch's files part of a table, once: a rerun that finds them landed changes nothing."""
        table = self.table(name)
        table.create(schema, partition_by)
        self.after_write(f"{name} table")
        version = table.commit(add=add, remove=remove, application=EPOCH_APPLICATION, number=epoch)
        self.after_write(f"{name} commit")
        return version

    # --- maintenance ---------------------------------------------------------------------------------------

    @property
    def readable(self) -> Mapping[str, int]:
        """Table to the oldest epoch that it can be read at; tables of which nothing is forgotten may be missing."""
        return dict(self.maintenance.get("readable", {}))

    def merge_name(self, name: str) -> str:
        """What files of the table's next merge begin with: the number that they can get into the table under."""
        return f"m{self._next_merge(name):010d}-{uuid.uuid4().hex[:8]}"

    def _next_merge(self, name: str) -> int:
        return (self.table(name).landed(COMPACTION_APPLICATION) or 0) + 1

    def replace(
        self,
        name: str,
        *,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        same_rows: bool = False,
        also: Mapping[str, int] | None = None,
    ) -> int:
        """Put merged files in the place of those they were merged from; not if another run has taken over."""
        self._require_turn()
        version = self.table(name).commit(
            add=add,
            remove=remove,
            application=COMPACTION_APPLICATION,
            number=self._next_merge(name),
            same_rows=same_rows,
            not_after=EPOCH_APPLICATION,
            also=also,
        )
        self.maintenance = {
            **self.maintenance,
            "compaction": {"epoch": self.last.epoch if self.last else 0, "table": name, "files": len(remove)},
        }
        self.after_write(f"{name} compaction")
        return version

    def _require_turn(self) -> None:
        log = self.table(f.EPOCHS)
        log.refresh()
        if log.landed(LOG) != self.seq:
            raise busy(self.root, f"the log has gone on to row {log.landed(LOG)}")

    def forget(self, readable: Mapping[str, int], *, files: int, size: int, left: int) -> None:
        """Write down what can be read from now on, and how much is about to be deleted."""
        assert self.last is not None, "nothing is committed"
        vacuum = {
            "epoch": self.last.epoch,
            "at": micros(datetime.now(UTC)),
            "files": files,
            "bytes": size,
            "left": left,
        }
        self.maintenance = {**self.maintenance, "readable": dict(readable), "vacuum": vacuum}
        self._append("maintenance", replace(self.last, run_id=self.run_id, maintenance=self.maintenance))


def _locked(root: Path) -> IO[str]:
    handle = (root / f.LOCK_FILE).open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as taken:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        handle.close()
        raise busy(root, f"process {owner} holds the lock") from taken
    with contextlib.suppress(OSError):
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
    return handle
