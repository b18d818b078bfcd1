"""What becomes of one row, before it meets a window: read its time, filter it, find its key, or set it aside.

The order in which a row's troubles are looked for is part of the semantics (docs/reference/semantics.md,
"Rows that are set aside"), because it decides which reason the side output shows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Expression, RowError
from laminar_dagster.semantics.query import PROCESSING_TIME, Input, Query
from laminar_dagster.semantics.time import is_in_reach
from laminar_dagster.semantics.windows import Window
from laminar_dagster.semantics.zset import Row, canonical

WEIGHT = "_weight"
FALLBACK = "fallback"
NULL_EVENT_TIME = "null_event_time"
FUTURE_TIMESTAMP = "future_timestamp"
TIME_OUT_OF_RANGE = "time_out_of_range"
LATE = "late"
ERROR = "error"
EVICTED = "evicted"
DUPLICATE = "duplicate"
ALLOWED_LATENESS_EXCEEDED = "allowed_lateness_exceeded"
DUPLICATE_KEY = "duplicate_key"

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Commit:
    """One commit of a source. Values are as the engine holds them; `_weight` -1 marks a retraction.

    An epoch of a view that is read is a commit too, and carries that view's `watermark`.
    """

    source: str
    rows: Sequence[Row]
    watermark: int | None = None


@dataclass(frozen=True)
class SideEntry:
    """One entry of the side output. `row` is None where a group's result, and not a row, is at fault."""

    kind: str
    reason: str
    row: Row | None
    window: Window | None
    group_key: Mapping[str, Any] | None
    event_time: int | None
    watermark: int | None


@dataclass(frozen=True)
class Reading:
    """A row with its event time. `moves_clock` is false for a time that the row does not really have."""

    entry: Input
    original: Row
    row: Row
    weight: int
    event_time: int | None
    trouble: str | None
    moves_clock: bool


@dataclass(frozen=True)
class Candidate:
    """A row that WHERE keeps, with its key: all that lateness is judged by.

    `key` is empty where `key_trouble` says why it has no value.
    """

    reading: Reading
    columns: Row
    event_time: int
    key: Key
    key_trouble: str | None


@dataclass(frozen=True)
class Refused:
    """A row that is set aside before lateness is judged, and why."""

    reading: Reading
    reason: str


def read(query: Query, commit: Commit, now: int) -> list[Reading]:
    """Every row of a commit with its event time, once for each input that reads the commit's source."""
    inputs = [entry for entry in query.inputs if entry.source.name == commit.source]
    return [_reading(query, entry, row, now) for entry in inputs for row in commit.rows]


def _reading(query: Query, entry: Input, original: Row, now: int) -> Reading:
    row = {name: value for name, value in original.items() if name != WEIGHT}
    event_time, trouble, moves_clock = _time(query, entry, row, now)
    return Reading(entry, original, row, original.get(WEIGHT, 1), event_time, trouble, moves_clock)


def _time(query: Query, entry: Input, row: Row, now: int) -> tuple[int | None, str | None, bool]:
    """The row's event time, what is wrong with it, and whether it moves the watermark."""
    if entry.event_time == PROCESSING_TIME:
        return now, None, True
    event_time = _value_or_null(entry.event_time, row)
    if event_time is None:
        falls_back = query.null_event_time == FALLBACK
        return (now, None, False) if falls_back else (None, NULL_EVENT_TIME, False)
    if entry.source.policy.is_future(event_time, now):
        return event_time, FUTURE_TIMESTAMP, False
    if query.reckons_with_times and not is_in_reach(event_time):
        return event_time, TIME_OUT_OF_RANGE, False
    return event_time, None, True


def _value_or_null(expression: Expression, row: Row) -> Any:
    """An event time that cannot be computed is one that the row does not have."""
    try:
        return evaluate(expression, row)
    except RowError:
        return None


def latest(readings: Iterable[Reading]) -> int | None:
    """The greatest event time that may move the shard's watermark."""
    times = [r.event_time for r in readings if r.moves_clock and r.event_time is not None]
    return max(times, default=None)


def judge(query: Query, reading: Reading) -> Candidate | Refused | None:
    """The row that WHERE keeps; or why it is set aside; or None where WHERE removes it."""
    if reading.trouble is not None:
        return Refused(reading, reading.trouble)
    assert reading.event_time is not None
    try:
        columns = _kept(query, reading)
    except RowError as trouble:
        return Refused(reading, trouble.reason)
    if columns is None:
        return None
    try:
        key = tuple(canonical(evaluate(named.expression, columns)) for named in query.keys)
    except RowError as trouble:
        return Candidate(reading, columns, reading.event_time, (), trouble.reason)
    return Candidate(reading, columns, reading.event_time, key, None)


def _kept(query: Query, reading: Reading) -> Row | None:
    """The columns that the input hands on, or None where a WHERE removes the row."""
    if not holds(reading.entry.where, reading.row):
        return None
    columns = {named.name: evaluate(named.expression, reading.row) for named in reading.entry.columns}
    return columns if holds(query.where, columns) else None


def holds(condition: Expression | None, row: Row) -> bool:
    """SQL's rule for WHERE, HAVING and FILTER: NULL is not true."""
    return condition is None or evaluate(condition, row) is True
