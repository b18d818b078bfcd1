"""Aggregates that give one of their values. Ties are settled by arrival where rows have a time, else by the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Kernel,
    PartialColumn,
    Signature,
    Values,
    ordered,
    present,
)
from laminar_dagster.semantics.aggregates.sets import (
    BY_PAIR,
    BY_TIME,
    BY_VALUE,
    REMAINING,
    normal,
    weighed,
    weighed_values,
)
from laminar_dagster.semantics.functions import order

Choice = Callable[..., Any]


def null_first(value: Any) -> tuple[bool, Any]:
    """How Spark orders the fields of a STRUCT: NULL before everything."""
    return (value is not None, order(value) if value is not None else ())


def _extreme(name: str, spark: str, choose: Choice, summary: str) -> Aggregate:
    partial = PartialColumn(spark, f"{spark}({{x}})", f"{spark}({{p}})")

    def fresh(values: Values) -> Any:
        found = present(values)
        return choose(found, key=order) if found else None

    def build(signature: Signature) -> Kernel:
        type_ = ordered(signature.first)
        kernel = Kernel((type_,), type_, (partial,), f"{{{spark}}}", fresh)
        return kernel.with_weights((weighed_values(type_),), f"array_{spark}({REMAINING}).x", grows=BY_VALUE)

    return Aggregate(name, build, summary)


def _timely(name: str, spark: str, choose: Choice, summary: str) -> Aggregate:
    """The value of the row with the least or greatest time; NULL is a value here, as in Spark."""
    row = "CASE WHEN {keep} THEN named_struct('t', {t}, 'x', {x}) END"
    partial = PartialColumn("row", f"{spark}({row})", f"{spark}({{p}})")

    def fresh(values: Values) -> Any:
        if not values:
            return None
        return choose(values, key=lambda row: (row[1], null_first(row[0])))[0]

    def build(signature: Signature) -> Kernel:
        type_ = ordered(signature.first)
        rows = weighed(f"named_struct('t', {{t}}, 'x', {normal('x', type_)})", "{keep}")
        kernel = Kernel((type_,), type_, (partial,), "{row}.x", fresh)
        return kernel.with_weights((rows,), f"array_{spark}({REMAINING}).x.x", grows=BY_TIME)

    return Aggregate(name, build, summary)


def _by(name: str, spark: str, choose: Choice, summary: str) -> Aggregate:
    row = "CASE WHEN {y} IS NOT NULL THEN named_struct('y', {y}, 'x', {x}) END"
    partial = PartialColumn("row", f"{spark}({row})", f"{spark}({{p}})")

    def fresh(values: Values) -> Any:
        found = [(x, y) for x, y in values if y is not None]
        if not found:
            return None
        return choose(found, key=lambda row: (order(row[1]), null_first(row[0])))[0]

    def build(signature: Signature) -> Kernel:
        types = tuple(ordered(type_) for type_ in signature.types)
        pairs = weighed(f"named_struct('y', {normal('y', types[1])}, 'x', {normal('x', types[0])})", "{y} IS NOT NULL")
        kernel = Kernel(types, types[0], (partial,), "{row}.x", fresh)
        return kernel.with_weights((pairs,), f"array_{spark}({REMAINING}).x.x", grows=BY_PAIR)

    return Aggregate(name, build, summary, arguments=2)


CHOOSING = (
    _extreme("min", "min", min, "the least value"),
    _extreme("max", "max", max, "the greatest value"),
    _timely(
        "first", "min", min,
        "the value of the row with the least event time, also if it is NULL; of several that of the first to come",
    ),
    _timely(
        "last", "max", max,
        "the value of the row with the greatest event time, also if it is NULL; of several that of the last to come",
    ),
    _by("min_by", "min", min, "the first argument's value in the row with the least second one; of several the least"),
    _by(
        "max_by", "max", max,
        "the first argument's value in the row with the greatest second one; of several the greatest",
    ),
    _extreme("any_value", "min", min, "some value, always the same one: the least"),
)  # fmt: skip
