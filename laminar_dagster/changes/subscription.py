"""Follows a view's changelog: from a position, through what is committed, and on to what will be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import duckdb

from laminar_dagster.changes.position import START, Position
from laminar_dagster.changes.reading import ChangeBatch, Committed, CommittedChangelog, changes_after
from laminar_dagster.engine.in_process_sql import connection
from laminar_dagster.errors import LaminarError
from laminar_dagster.sql.local_paths import require_local

BATCH_ROWS = 10_000
POLL_SECONDS = 1.0


def subscribe(
    view_store: str | Path,
    since: Position | int | str = START,
    *,
    batch_rows: int = BATCH_ROWS,
    follow: bool = False,
    poll: float = POLL_SECONDS,
    stop: Event | None = None,
    timeout: float | None = None,
) -> Iterator[ChangeBatch]:
    """The changes of the view whose store is in this directory, in order, in batches of at most `batch_rows` rows.

    `since` is an epoch, or the position of a batch that was taken before: what comes is what comes after it, each row
    once. From the beginning (0) of a changelog that was folded, that is its snapshot and then the changes. LMR0410 if
    changes after `since` are folded.

    With `follow` it goes on with each new commit, looking every `poll` seconds, until `stop` is set, `timeout` seconds
    have passed or the iterator is closed. Rows of an epoch that is not committed are never given.
    """
    if batch_rows < 2:
        raise ValueError("a batch has room for both rows of an update: batch_rows must be at least 2")
    require_local("the view's store", view_store)
    waiting = _Waiting(poll, stop, timeout) if follow else None
    return _subscription(CommittedChangelog(Path(view_store)), Position.of(since), batch_rows, waiting)


class _Waiting:
    """Pauses between looks, until it is told to stop or its time is up."""

    def __init__(self, poll: float, stop: Event | None, timeout: float | None) -> None:
        self._poll = poll
        self._stop = stop or Event()
        self._ends = None if timeout is None else time.monotonic() + timeout

    def go_on(self) -> bool:
        left = self._poll if self._ends is None else min(self._poll, self._ends - time.monotonic())
        return left > 0 and not self._stop.wait(left)


def _subscription(
    changelog: CommittedChangelog, position: Position, batch_rows: int, waiting: _Waiting | None
) -> Iterator[ChangeBatch]:
    with connection() as db:
        while True:
            newest = changelog.newest()
            _refuse_gap(changelog.view, newest, position)
            if newest is not None and position != Position(newest.epoch):
                try:
                    for batch in changes_after(db, newest, position, batch_rows):
                        position = batch.position
                        yield batch
                except duckdb.IOException:
                    if changelog.newest() is newest:
                        raise
                    continue  # files were deleted that newer versions do not need
                position = Position(newest.epoch)
            if waiting is None or not waiting.go_on():
                return


def _refuse_gap(view: str, newest: Committed | None, position: Position) -> None:
    """Refuse a position from which not every change can be given."""
    last = 0 if newest is None else newest.epoch
    if position.epoch > last:
        raise LaminarError(
            "LMR0404",
            f"there is no committed epoch {position.epoch}",
            detail=f'the last committed epoch of view "{view}" is {last or "none"}',
            hint="Was the view built anew? Then begin with since 0.",
        )
    folded = None if newest is None else newest.snapshot
    if position.in_snapshot and position.epoch != folded:
        raise LaminarError(
            "LMR0411",
            f"the snapshot of epoch {position.epoch} was replaced while it was being read",
            hint="Drop what you took of it, and begin anew with since 0.",
        )
    if folded is None or position == START or position.in_snapshot:
        return
    if position.epoch < folded or (position.epoch == folded and position.seq is not None):
        raise LaminarError(
            "LMR0410",
            f"the changes after {position} are no longer there one by one: history up to epoch {folded} is folded",
            detail=f'view "{view}": a snapshot stands for all changes up to epoch {folded}',
            hint=f"Begin anew with since 0: the snapshot comes first, and then the changes. Or take the table as of "
            f"epoch {folded} (`laminar show {view} --epoch {folded}`) and go on since {folded}.",
        )
