"""Aggregates that give all of their values, in an order that does not depend on how the log was cut into epochs.

Without ORDER BY, values stand in the order of their event times, and where these are equal in that of arrival; with
DISTINCT, in their own order. Over rows with weights, equal rows are one entry that says how often they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    TIME,
    Aggregate,
    Constant,
    Distinct,
    Kernel,
    Ordering,
    PartialColumn,
    Signature,
    Values,
    argument_name,
    ordered,
    unique,
)
from laminar_dagster.semantics.aggregates.sets import (
    BY_ROW,
    BY_TIME,
    BY_VALUE,
    PRESENT,
    REMAINING,
    REMAINING_VALUES,
    distinct_values,
    normal,
    over_remaining,
    weighed,
    weighed_values,
)
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import ArgumentTypeError, literal_sql, order
from laminar_dagster.semantics.types import DataType

LONGEST_ARRAY = "2147483632L"  # Spark's; a JVM has none longer
_ASCENDING = Ordering()


# --- order ---------------------------------------------------------------------------------------------------


def _comparison(field: str, ordering: Ordering) -> str:
    """Spark SQL for how `a` compares with `b` by one field of theirs, NULL where they are equal."""
    null = -1 if ordering.nulls_first else 1
    less = 1 if ordering.descending else -1
    a, b = (f"{row}.{field}" if field else row for row in "ab")
    return (
        f"CASE WHEN {a} <=> {b} THEN NULL WHEN {a} IS NULL THEN {null} WHEN {b} IS NULL THEN {-null} "
        f"WHEN {a} < {b} THEN {less} ELSE {-less} END"
    )


def _sorted(array: str, keys: list[tuple[str, Ordering]]) -> str:
    comparison = ", ".join(_comparison(field, ordering) for field, ordering in keys)
    return f"array_sort({array}, (a, b) -> coalesce({comparison}, 0))"


# --- rows and sets -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gathered:
    """What an aggregate reads and keeps, and the values in their order, in Spark SQL and in Python.

    Over rows with weights it keeps `weighed`, of which `remaining` takes the place of the partial, unless it is
    `too_many` for an array.
    """

    types: tuple[DataType, ...]
    partial: PartialColumn
    values: str
    fresh: Callable[[Values], list[Any]]
    grows: str
    weighed: PartialColumn
    remaining: str
    weighed_grows: str
    too_many: str | None = None

    def kernel(self, result: DataType, finish: str, fresh: Callable[[Values], Any]) -> Kernel:
        kernel = Kernel(self.types, result, (self.partial,), finish, fresh, grows=self.grows)
        finish = over_remaining(finish, self.partial.name, self.remaining)
        return kernel.with_weights((self.weighed,), finish, overflow=self.too_many, grows=self.weighed_grows)


def _gathered(signature: Signature) -> _Gathered:
    types = tuple(ordered(type_) for type_ in signature.types)
    return _set(types[0], signature.order) if signature.distinct else _rows(types, signature.order)


def _rows(types: tuple[DataType, ...], orderings: tuple[Ordering, ...]) -> _Gathered:
    keys = [argument_name(position + 1) for position in range(len(orderings))]
    row = _row([(key, f"{{{key}}}") for key in keys], "{x}")
    partial = PartialColumn("rows", f"collect_list(CASE WHEN {PRESENT} THEN {row} END)", "flatten(collect_list({p}))")
    normal_keys = [(key, normal(key, type_)) for key, type_ in zip(keys, types[1:], strict=True)]
    return _Gathered(
        types,
        partial,
        f"transform({_rows_in_order(keys, orderings)}, r -> r.x)",
        lambda found: _values_in_order(found, orderings),
        BY_ROW,
        weighed(_row(normal_keys, normal("x", types[0])), PRESENT),
        f"flatten(transform({REMAINING}, e -> array_repeat(e.x, CAST(if(e.n > {LONGEST_ARRAY}, 0L, e.n) AS INT))))",
        BY_TIME,
        f"aggregate({REMAINING}, 0L, (sum, e) -> sum + e.n) > {LONGEST_ARRAY}",
    )


def _row(keys: list[tuple[str, str]], value: str) -> str:
    fields = [*keys, (TIME, "{t}"), ("x", value)]
    return "named_struct(" + ", ".join(f"'{name}', {sql}" for name, sql in fields) + ")"


def _rows_in_order(keys: list[str], orderings: tuple[Ordering, ...]) -> str:
    ties = [(TIME, _ASCENDING), ("x", _ASCENDING)]
    return _sorted("{rows}", [*zip(keys, orderings, strict=True), *ties]) if keys else "sort_array({rows})"


def _values_in_order(values: Values, orderings: tuple[Ordering, ...]) -> list[Any]:
    """`values` are (x, keys…, time)."""

    def compare(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        by_key = [o.compare(left, right) for left, right, o in zip(a[1:-1], b[1:-1], orderings, strict=True)]
        ties = (_ASCENDING.compare(a[-1], b[-1]), _ASCENDING.compare(a[0], b[0]))
        return next((found for found in (*by_key, *ties) if found), 0)

    return [row[0] for row in sorted((v for v in values if v[0] is not None), key=cmp_to_key(compare))]


def _set(type_: DataType, orderings: tuple[Ordering, ...]) -> _Gathered:
    ordering = orderings[0] if orderings else _ASCENDING
    return _Gathered(
        (type_,),
        distinct_values(type_),
        f"sort_array({{set}}, {str(not ordering.descending).lower()})",
        lambda found: _set_in_order(found, orderings),
        BY_VALUE,
        weighed_values(type_),
        REMAINING_VALUES,
        BY_VALUE,
    )


def _set_in_order(values: Values, orderings: tuple[Ordering, ...]) -> list[Any]:
    return sorted(unique(values), key=order, reverse=bool(orderings) and orderings[0].descending)


# --- the aggregates ------------------------------------------------------------------------------------------


def _array(signature: Signature) -> Kernel:
    gathered = _gathered(signature)
    return gathered.kernel(t.DataType(f"ARRAY<{gathered.types[0]}>"), gathered.values, gathered.fresh)


def _distinct_array(signature: Signature) -> Kernel:
    return _array(Signature(signature.types, distinct=True, order=signature.order))


def _text(signature: Signature) -> Kernel:
    if signature.first != t.STRING:
        raise ArgumentTypeError(f"it takes a STRING, not {signature.first}; write CAST(… AS STRING)")
    gathered = _gathered(signature)
    (separator,) = signature.constants
    literal = literal_sql(Literal(separator, t.STRING)).replace("{", "{{").replace("}", "}}")
    finish = f"CASE WHEN size({{{gathered.partial.name}}}) > 0 THEN array_join({gathered.values}, {literal}) END"

    def joined(found: Values) -> str | None:
        parts = gathered.fresh(found)
        return separator.join(parts) if parts else None

    return gathered.kernel(t.STRING, finish, joined)


def _separator(literal: Literal) -> str:
    if literal.type != t.STRING:
        raise ArgumentTypeError(f"its separator is a text in quotes, not {literal.type}")
    return str(literal.value)


_SEPARATOR = (Constant("separator", _separator, default=""),)
_LIST = "all values that are not NULL, as an array, by event time or as ORDER BY says; empty if there is none"
_JOINED = "the values that are not NULL as one text, by event time or as ORDER BY says, with a separator between them"
COLLECTING = (
    Aggregate("array_agg", _array, _LIST, distinct=Distinct.OWN, ordered=True),
    Aggregate("collect_list", _array, "the same as ARRAY_AGG", distinct=Distinct.OWN, ordered=True),
    Aggregate("collect_set", _distinct_array, "the distinct values that are not NULL, as an array in their own order"),
    Aggregate("string_agg", _text, _JOINED, constants=_SEPARATOR, distinct=Distinct.OWN, ordered=True),
    Aggregate("listagg", _text, "the same as STRING_AGG", constants=_SEPARATOR, distinct=Distinct.OWN, ordered=True),
)
