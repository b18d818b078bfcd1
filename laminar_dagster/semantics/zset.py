"""Z-sets over plain rows: a table is the sum of its changelog, a changelog the difference of two tables.

The reference, the conformance laws and the tests all take their meaning of a change from here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

Row = Mapping[str, Any]


class CdcOperation(Enum):
    """What a changelog row does to the table; the value is what `_op` holds."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"

    @property
    def weight(self) -> int:
        return 1 if self.is_insert else -1

    @property
    def is_insert(self) -> bool:
        """Whether a row comes: a new one, or the new side of an update."""
        return self in (CdcOperation.INSERT, CdcOperation.UPDATE_AFTER)

    @property
    def is_delete(self) -> bool:
        """Whether a row goes: a deleted one, or the old side of an update."""
        return not self.is_insert


@dataclass(frozen=True)
class Change:
    """One row of a changelog. The two rows of an update are adjacent, old first."""

    op: CdcOperation
    row: Row

    @property
    def weight(self) -> int:
        return self.op.weight


def canonical(value: Any) -> Hashable:
    """A value as Spark groups it: every NaN is one NaN, -0.0 is 0.0; arrays, maps and structs become tuples."""
    match value:
        case float() if math.isnan(value):
            return math.nan  # one object, so that tuples that hold it are equal
        case float():
            return value + 0.0
        case Mapping():
            return tuple((name, canonical(part)) for name, part in value.items())
        case list() | tuple():
            return tuple(canonical(part) for part in value)
        case _:
            hashable: Hashable = value
            return hashable


def identity(row: Row) -> Hashable:
    """The row as a member of a set: equal for rows with equal values in equal columns, in whatever order."""
    return tuple((name, canonical(row[name])) for name in sorted(row))


def consolidate(weighted: Iterable[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """Each distinct row once, with the sum of its weights; rows that sum to zero are gone."""
    rows: dict[Hashable, Row] = {}
    sums: dict[Hashable, int] = {}
    for row, weight in weighted:
        key = identity(row)
        rows.setdefault(key, row)
        sums[key] = sums.get(key, 0) + weight
    return [(rows[key], weight) for key, weight in sums.items() if weight != 0]


def diff(old: Mapping[Hashable, Row], new: Mapping[Hashable, Row]) -> list[Change]:
    """What turns `old` into `new`, both by identity: deletions, then updates as pairs, then insertions."""
    gone = [Change(CdcOperation.DELETE, row) for key, row in old.items() if key not in new]
    updated = [
        change
        for key, row in new.items()
        if key in old and identity(row) != identity(old[key])
        for change in (Change(CdcOperation.UPDATE_BEFORE, old[key]), Change(CdcOperation.UPDATE_AFTER, row))
    ]
    come = [Change(CdcOperation.INSERT, row) for key, row in new.items() if key not in old]
    return [*gone, *updated, *come]


def multiset_changes(weighted: Iterable[tuple[Row, int]]) -> list[Change]:
    """The changelog of rows that have no identity of their own: one `+I` or `-D` for each unit of weight."""
    changes: list[Change] = []
    for row, weight in consolidate(weighted):
        op = CdcOperation.INSERT if weight > 0 else CdcOperation.DELETE
        changes += [Change(op, row)] * abs(weight)
    return changes


def summed(changes: Iterable[Change], table: Iterable[Row] = ()) -> list[tuple[Row, int]]:
    """The Z-set that a changelog makes of a table: rows with weights, none of them zero."""
    start = [(row, 1) for row in table]
    return consolidate([*start, *((change.row, change.weight) for change in changes)])


def applied(changes: Iterable[Change], table: Iterable[Row] = ()) -> list[Row]:
    """The table after a changelog; ValueError where it deletes a row that is not there."""
    rows: list[Row] = []
    for row, weight in summed(changes, table):
        if weight < 0:
            raise ValueError(f"the changelog deletes a row that is not in the table: {dict(row)}")
        rows += [row] * weight
    return rows
