"""Aggregates that give all of their values, in an order that follows from the rows and not from their arrival.

Without ORDER BY, values stand in the order of their event times, and where these are equal in their own; with
DISTINCT, in their own order.
"""

from __future__ import annotations

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
from laminar_dagster.semantics.aggregates.sets import BY_ROW, BY_VALUE, distinct_values
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import ArgumentTypeError, literal_sql, order
from laminar_dagster.semantics.types import DataType

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


def _compared(a: Any, b: Any, ordering: Ordering) -> int:
    if a is None or b is None:
        null = -1 if ordering.nulls_first else 1
        return 0 if a is b else null if a is None else -null
    less = 1 if ordering.descending else -1
    return 0 if order(a) == order(b) else less if order(a) < order(b) else -less


# --- rows and sets -------------------------------------------------------------------------------------------


def _rows(signature: Signature) -> tuple[PartialColumn, str]:
    """A partial of rows with a value, and Spark SQL for the values in their order."""
    keys = [argument_name(position + 1) for position in range(len(signature.order))]
    fields = "".join(f"'{key}', {{{key}}}, " for key in keys)
    row = f"named_struct({fields}'t', {{t}}, 'x', {{x}})"
    partial = PartialColumn(
        "rows", f"collect_list(CASE WHEN {{x}} IS NOT NULL THEN {row} END)", "flatten(collect_list({p}))"
    )
    ties = [(TIME, _ASCENDING), ("x", _ASCENDING)]
    by_order = _sorted("{rows}", [*zip(keys, signature.order, strict=True), *ties])
    return partial, f"transform({by_order if keys else 'sort_array({rows})'}, r -> r.x)"


def _values_in_order(values: Values, orderings: tuple[Ordering, ...]) -> list[Any]:
    """`values` are (x, keys…, time)."""

    def compare(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        by_key = [_compared(left, right, o) for left, right, o in zip(a[1:-1], b[1:-1], orderings, strict=True)]
        ties = (_compared(a[-1], b[-1], _ASCENDING), _compared(a[0], b[0], _ASCENDING))
        return next((found for found in (*by_key, *ties) if found), 0)

    return [row[0] for row in sorted((v for v in values if v[0] is not None), key=cmp_to_key(compare))]


def _set(type_: DataType, orderings: tuple[Ordering, ...]) -> tuple[PartialColumn, str]:
    ordering = orderings[0] if orderings else _ASCENDING
    return distinct_values(type_), f"sort_array({{set}}, {str(not ordering.descending).lower()})"


def _set_in_order(values: Values, orderings: tuple[Ordering, ...]) -> list[Any]:
    return sorted(unique(values), key=order, reverse=bool(orderings) and orderings[0].descending)


def _gathered(signature: Signature) -> tuple[tuple[DataType, ...], PartialColumn, str, Any, str]:
    """The types that are read, the partial, the ordered values in Spark SQL and in Python, and how it grows."""
    types, orderings = tuple(ordered(type_) for type_ in signature.types), signature.order
    if signature.distinct:
        partial, values = _set(types[0], orderings)
        return types[:1], partial, values, lambda found: _set_in_order(found, orderings), BY_VALUE
    partial, values = _rows(signature)
    return types, partial, values, lambda found: _values_in_order(found, orderings), BY_ROW


# --- the aggregates ------------------------------------------------------------------------------------------


def _array(signature: Signature) -> Kernel:
    types, partial, values, fresh, grows = _gathered(signature)
    result = t.DataType(f"ARRAY<{types[0]}>")
    return Kernel(types, result, (partial,), values, fresh, retraction="value", grows=grows)


def _distinct_array(signature: Signature) -> Kernel:
    return _array(Signature(signature.types, distinct=True, order=signature.order))


def _text(signature: Signature) -> Kernel:
    if signature.first != t.STRING:
        raise ArgumentTypeError(f"it takes a STRING, not {signature.first}; write CAST(… AS STRING)")
    types, partial, values, fresh, grows = _gathered(signature)
    (separator,) = signature.constants
    literal = literal_sql(Literal(separator, t.STRING)).replace("{", "{{").replace("}", "}}")
    finish = f"CASE WHEN size({{{partial.name}}}) > 0 THEN array_join({values}, {literal}) END"

    def joined(found: Values) -> str | None:
        parts = fresh(found)
        return separator.join(parts) if parts else None

    return Kernel(types, t.STRING, (partial,), finish, joined, retraction="value", grows=grows)


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
