"""The laws that hold for every view at every epoch, whatever a case expects of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, Query
from laminar_dagster.semantics.windows import Cumulate
from laminar_dagster.semantics.zset import consolidate, identity

Row = Mapping[str, Any]


def data_columns(row: Row) -> dict[str, Any]:
    """A changelog row without its bookkeeping."""
    return {name: value for name, value in row.items() if not name.startswith("_")}


def rows_are_unique(query: Query) -> bool:
    """Whether the output shows every group's identity, so that no two results can look the same."""
    shown = {named.expression.name for named in query.output if isinstance(named.expression, Column)}
    if query.repeats is not None or not query.is_grouped:
        return False
    keys = all(f"k{position}" in shown for position in range(len(query.keys)))
    bounds = {WINDOW_START, WINDOW_END} if isinstance(query.window, Cumulate) else {WINDOW_START}
    return keys and (query.window is None or bounds <= shown)


def broken_laws(table: Sequence[Row], changes: Sequence[Row], *, unique: bool) -> list[str]:
    """What does not hold of a changelog and the table it should sum to."""
    return [*_sums(table, changes), *(_weights(changes) if unique else []), *_pairs(changes)]


def _sums(table: Sequence[Row], changes: Sequence[Row]) -> list[str]:
    weighted = [(data_columns(row), row["_weight"]) for row in changes]
    rest = consolidate([*weighted, *((data_columns(row), -1) for row in table)])
    return [f"law: the changelog summed is not the table: it has {weight:+d} of {dict(row)}" for row, weight in rest]


def _weights(changes: Sequence[Row]) -> list[str]:
    """No row's weights may sum to anything but 0 or 1 at the end of an epoch."""
    sums: dict[Any, int] = {}
    broken: list[str] = []
    for position, row in enumerate(changes):
        key = identity(data_columns(row))
        sums[key] = sums.get(key, 0) + row["_weight"]
        last = position + 1 == len(changes) or changes[position + 1]["_epoch"] != row["_epoch"]
        if last and not set(sums.values()) <= {0, 1}:
            broken.append(f"law: in epoch {row['_epoch']} the weights of a row sum to neither 0 nor 1")
    return broken


def _pairs(changes: Sequence[Row]) -> list[str]:
    """`-U` is followed by its `+U` at once, in the same epoch, and no `+U` stands alone."""
    broken: list[str] = []
    for position, row in enumerate(changes):
        if row["_weight"] != (1 if row["_op"].startswith("+") else -1):
            broken.append(f"law: {row['_op']} has the weight {row['_weight']}")
        if row["_op"] == "-U" and not _is(changes, position + 1, "+U", row["_epoch"]):
            broken.append(f"law: the -U of {data_columns(row)} is not followed by its +U")
        if row["_op"] == "+U" and not _is(changes, position - 1, "-U", row["_epoch"]):
            broken.append(f"law: the +U of {data_columns(row)} does not follow its -U")
    return broken


def _is(changes: Sequence[Row], position: int, op: str, epoch: Any) -> bool:
    if not 0 <= position < len(changes):
        return False
    return bool(changes[position]["_op"] == op and changes[position]["_epoch"] == epoch)
