"""A view's changelog as it is committed: the rows after a position, in order, in batches that can be resumed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar_dagster.changes.buffer import ChangelogBuffer
from laminar_dagster.changes.position import START, Position
from laminar_dagster.engine.changelog_rows import rows_after
from laminar_dagster.errors import LaminarError
from state_store import CommitRow, DeltaDirectory
from state_store import format as f
from state_store.changelog import EPOCH, OP, SEQ, RowPlace, snapshot_epoch
from state_store.epochs import EpochLog
from state_store.reader import check_format

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class ChangeBatch:
    """Rows of a changelog in order; `position` is where a subscriber stands that has taken them.

    A batch never ends between the two rows of an update, and is either of the snapshot or of the changes after it.
    """

    rows: pa.RecordBatch
    position: Position
    snapshot: bool = False

    def upto(self, rows: int) -> ChangeBatch:
        """The first so many rows, or one more where that would cut an update in two."""
        if rows < self.rows.num_rows and self.rows.column(OP)[rows - 1].as_py() == "-U":
            rows += 1
        if rows >= self.rows.num_rows:
            return self
        part = self.rows.slice(0, rows)
        return ChangeBatch(part, _position(part, self.rows.slice(rows), self.snapshot), self.snapshot)


@dataclass(frozen=True)
class Committed:
    """The changelog as of the view's last commit. `table` is None where nothing has changed yet."""

    epoch: int
    version: int | None
    table: DeltaDirectory | None
    snapshot: int | None


class CommittedChangelog:
    """Looks at a store again and again; a look that finds no new commit takes about a millisecond."""

    def __init__(self, store: Path) -> None:
        self.view = store.name
        self._epochs = DeltaDirectory(store / f.EPOCHS)
        self._changelog = DeltaDirectory(store / f.CHANGELOG)
        self._seen: int | None = None
        self._newest: Committed | None = None

    def newest(self) -> Committed | None:
        """The last commit; None if there is none yet."""
        self._epochs.refresh()
        if self._epochs.version == self._seen:
            return self._newest
        check_format(self._epochs)
        commit = EpochLog(self._epochs).tail().commit
        self._seen = self._epochs.version
        self._newest = None if commit is None else self._committed(commit)
        return self._newest

    def _committed(self, commit: CommitRow) -> Committed:
        version = commit.tables.get(f.CHANGELOG)
        if version is None:
            if commit.tables.get(f.OUTPUT) is not None:
                raise self._no_changelog()
            return Committed(commit.epoch, None, None, None)
        self._changelog.refresh()
        table = self._changelog.at(version)
        return Committed(commit.epoch, version, table, snapshot_epoch(table))

    def _no_changelog(self) -> LaminarError:
        return LaminarError(
            "LMR0412",
            f'view "{self.view}" has no changelog',
            detail="It has results, and no changes of them were written.",
            hint=f"Where results are only ever added, the table says it all: `laminar show {self.view}`. "
            "A view WITH (sink = 'changelog'), and one whose EMIT corrects results, writes a changelog.",
        )


def changes_after(
    db: DuckDBPyConnection, committed: Committed, position: Position, batch_rows: int
) -> Iterator[ChangeBatch]:
    """All that is committed after a position: of the snapshot first, if the subscriber begins there."""
    table, snapshot = committed.table, committed.snapshot
    if table is None:
        return
    if snapshot is not None and (position == START or position.in_snapshot):
        rows = rows_after(db, table, position.place, snapshot)
        yield from _batched(rows, batch_rows, snapshot=True)
        position = Position(snapshot)
    yield from _batched(rows_after(db, table, position.place, committed.epoch), batch_rows, snapshot=False)


def _batched(chunks: Iterable[pa.RecordBatch], batch_rows: int, *, snapshot: bool) -> Iterator[ChangeBatch]:
    """The rows in batches as large as allowed: one is given when the next row is known, which tells where it ends."""
    buffer = ChangelogBuffer(batch_rows)
    for chunk in chunks:
        rest = chunk
        while not buffer.push(rest):
            room = buffer.room
            buffer.push(rest.slice(0, room))
            rows, rest = _whole_updates(_joined(buffer.drain()), rest.slice(room))
            yield ChangeBatch(rows, _position(rows, rest, snapshot), snapshot)
    if not buffer.is_empty:
        rows = _joined(buffer.drain())
        yield ChangeBatch(rows, _position(rows, None, snapshot), snapshot)


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _whole_updates(rows: pa.RecordBatch, rest: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """An update that would be cut in two goes to the rest."""
    last = rows.num_rows - 1
    if rows.column(OP)[last].as_py() != "-U":
        return rows, rest
    return rows.slice(0, last), _joined([rows.slice(last), rest])


def _position(rows: pa.RecordBatch, rest: pa.RecordBatch | None, snapshot: bool) -> Position:
    epoch, seq = _place(rows, rows.num_rows - 1)
    if rest is None or _place(rest, 0)[0] != epoch:
        return Position(epoch)
    return Position(epoch, seq, snapshot)


def _place(rows: pa.RecordBatch, at: int) -> RowPlace:
    return rows.column(EPOCH)[at].as_py(), rows.column(SEQ)[at].as_py()
