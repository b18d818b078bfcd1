"""Changes one by one, for programs that do not think in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.semantics.zset import CdcOperation
from state_store.changelog import EVENT_TIME, OP, WEIGHT, data_columns

T = TypeVar("T")


@dataclass(frozen=True)
class ChangelogRecord(Generic[T]):
    """A change of one row: `weight` copies come (or go, where it is negative). `timestamp` is its event time."""

    data: T
    weight: int
    timestamp: int | None
    operation: CdcOperation

    @staticmethod
    def insert(data: T, timestamp: int | None) -> ChangelogRecord[T]:
        return _record(data, timestamp, CdcOperation.INSERT)

    @staticmethod
    def delete(data: T, timestamp: int | None) -> ChangelogRecord[T]:
        return _record(data, timestamp, CdcOperation.DELETE)

    @staticmethod
    def retraction(old: T, new: T, timestamp: int | None) -> tuple[ChangelogRecord[T], ChangelogRecord[T]]:
        """The two records of an update, old first."""
        before, after = CdcOperation.UPDATE_BEFORE, CdcOperation.UPDATE_AFTER
        return _record(old, timestamp, before), _record(new, timestamp, after)

    @property
    def is_insert(self) -> bool:
        return self.weight > 0

    @property
    def is_delete(self) -> bool:
        return self.weight < 0


def _record(data: T, timestamp: int | None, operation: CdcOperation) -> ChangelogRecord[T]:
    return ChangelogRecord(data, operation.weight, timestamp, operation)


def records(rows: pa.RecordBatch | pa.Table) -> Iterator[ChangelogRecord[Mapping[str, Any]]]:
    """The rows of a changelog as records, their times in microseconds since 1970 UTC.

    Times that Python's datetime cannot hold are text in `data`. What `diff` and `consolidate` give has no event time;
    the timestamps of such records are None. What `consolidate` gives has no operations either: a row that comes is an
    insertion, one that goes a deletion, of `weight` copies.
    """
    names = data_columns(rows.schema.names)
    for row, time in zip(python_rows(rows), _event_times(rows), strict=True):
        data = {name: row[name] for name in names}
        yield ChangelogRecord(data, row[WEIGHT], time, _operation(row))


def _operation(row: Mapping[str, Any]) -> CdcOperation:
    if OP in row:
        return CdcOperation(row[OP])
    return CdcOperation.INSERT if row[WEIGHT] > 0 else CdcOperation.DELETE


def _event_times(rows: pa.RecordBatch | pa.Table) -> list[int | None]:
    if EVENT_TIME not in rows.schema.names:
        return [None] * rows.num_rows
    return list(rows.column(EVENT_TIME).cast(pa.int64()).to_pylist())
