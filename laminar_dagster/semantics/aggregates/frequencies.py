"""Aggregates over how often each value was there: the state is the distinct values with their counts."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Constant,
    Distinct,
    Kernel,
    Signature,
    Values,
    let,
    number,
    ordered,
    present,
)
from laminar_dagster.semantics.aggregates.sets import (
    BY_VALUE,
    PRESENT,
    REMAINING,
    counted_values,
    over_remaining,
    weighed_values,
)
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import ArgumentTypeError, order
from laminar_dagster.semantics.types import DataType

MOST_BINS = 1_000


def _counts(values: Values) -> list[tuple[Any, int]]:
    """Each value with its count, in order; every NaN is one NaN."""
    counted: Counter[Any] = Counter(order(value) for value in present(values))
    known = {order(value): value for value in present(values)}
    return [(known[key], counted[key]) for key in sorted(counted)]


def _mode(signature: Signature) -> Kernel:
    type_ = ordered(signature.first)
    zero = f"named_struct('x', CAST(NULL AS {type_}), 'n', 0L)"
    finish = f"aggregate({{counts}}, {zero}, (a, e) -> CASE WHEN e.n > a.n THEN e ELSE a END).x"

    def fresh(values: Values) -> Any:
        counts = _counts(values)
        return max(counts, key=lambda pair: pair[1])[0] if counts else None

    return _counting(Kernel((type_,), type_, (counted_values(type_),), finish, fresh, grows=BY_VALUE))


def _counting(kernel: Kernel, keep: str = PRESENT) -> Kernel:
    """The kernel, which goes by counts, and the same over the counts that are left."""
    finish = over_remaining(kernel.finish, "counts", REMAINING)
    return kernel.with_weights((weighed_values(kernel.arguments[0], keep),), finish, grows=BY_VALUE)


def _histogram(signature: Signature) -> Kernel:
    (bins,) = signature.constants
    return _value_counts(ordered(signature.first)) if bins is None else _bins(number(signature.first), bins)


def _value_counts(type_: DataType) -> Kernel:
    result = t.DataType(f"ARRAY<STRUCT<value:{type_},count:BIGINT>>")
    shown = "transform({counts}, e -> named_struct('value', e.x, 'count', e.n))"
    finish = f"CASE WHEN size({{counts}}) > 0 THEN {shown} END"

    def fresh(values: Values) -> Any:
        return [{"value": value, "count": count} for value, count in _counts(values)] or None

    return _counting(Kernel((type_,), result, (counted_values(type_),), finish, fresh, grows=BY_VALUE))


def _bins(type_: DataType, bins: int) -> Kernel:
    """Bins of equal width from the least value to the greatest; each value is in the bin that begins at or below it."""
    finite = "abs({x}) < CAST('Infinity' AS DOUBLE)" if type_.is_float else PRESENT
    low, high, last = "CAST(c[0].x AS DOUBLE)", "CAST(c[size(c) - 1].x AS DOUBLE)", bins - 1
    bin_of = f"least({last}, CAST(floor((CAST(e.x AS DOUBLE) - {low}) / w) AS INT))"
    one = _bin(f"{low} + i * w", f"IF(i = {last}, {high}, {low} + (i + 1) * w)", f"filter(c, e -> {bin_of} = i)")
    many = f"transform(sequence(0, {last}), i -> {one})"
    chosen = f"CASE WHEN w > 0 THEN {many} ELSE array({_bin(low, high, 'c')}) END"
    shown = let("c", "{counts}", let("w", f"({high} - {low}) / {bins}", chosen))
    finish = f"CASE WHEN size({{counts}}) > 0 THEN {shown} END"
    result = t.DataType("ARRAY<STRUCT<low:DOUBLE,high:DOUBLE,count:BIGINT>>")
    partial = counted_values(type_, finite)
    kernel = Kernel((type_,), result, (partial,), finish, lambda v: _binned(v, bins), grows=BY_VALUE)
    return _counting(kernel, finite)


def _bin(low: str, high: str, counts: str) -> str:
    return f"named_struct('low', {low}, 'high', {high}, 'count', aggregate({counts}, 0L, (a, e) -> a + e.n))"


def _binned(values: Values, bins: int) -> Any:
    found = sorted(float(value) for value in present(values) if math.isfinite(value))
    if not found:
        return None
    low, high = found[0], found[-1]
    width = (high - low) / bins
    if width <= 0:
        return [{"low": low, "high": high, "count": len(found)}]
    counts = Counter(min(bins - 1, math.floor((value - low) / width)) for value in found)
    ends = [*(low + i * width for i in range(bins)), high]
    return [{"low": ends[i], "high": ends[i + 1], "count": counts[i]} for i in range(bins)]


def _bin_count(literal: Literal) -> int:
    if not literal.type.is_integer or not 1 <= literal.value <= MOST_BINS:
        raise ArgumentTypeError(f"its number of bins is a whole number from 1 to {MOST_BINS}")
    return int(literal.value)


FREQUENCIES = (
    Aggregate("mode", _mode, "the most frequent value; of several the least", distinct=Distinct.REFUSED),
    Aggregate(
        "histogram",
        _histogram,
        "each value with how often it was there, or, with a number of bins, how many finite values lie in each of so "
        "many bins of equal width from the least to the greatest (one bin if all are equal)",
        constants=(Constant("bins", _bin_count),),
        distinct=Distinct.REFUSED,
    ),
)
