"""Aggregates that are near enough, in state that does not grow: Spark's mergeable sketches.

Distinct values are counted with HyperLogLog, percentiles taken from KLL sketches. The reference computes both exactly;
what Spark gives is within the error that is stated here. Up to some hundred values both are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Constant,
    Distinct,
    Kernel,
    PartialColumn,
    Signature,
    Values,
    let,
    number,
    ordered,
    present,
)
from laminar_dagster.semantics.aggregates.sets import normal
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import ArgumentTypeError, order
from laminar_dagster.semantics.types import DataType

# --- distinct values -----------------------------------------------------------------------------------------

HLL_BITS = 12
HLL_ERROR = 1.04 / math.sqrt(2**HLL_BITS)  # one standard deviation, relative to the count


def _hashable(type_: DataType) -> str:
    """The argument as a type that the sketch takes, never empty: DataSketches passes over empty texts."""
    if type_.is_integer:
        return "CAST({x} AS BIGINT)"
    if type_ == t.BOOLEAN:
        return "CAST({x} AS INT)"
    if type_.name == "BINARY":
        return "concat('=', hex({x}))"
    return f"concat('=', CAST({normal('x', type_)} AS STRING))"


def _approx_count(signature: Signature) -> Kernel:
    type_ = ordered(signature.first)
    partial = PartialColumn("hll", f"hll_sketch_agg({_hashable(type_)}, {HLL_BITS})", "hll_union_agg({p})")

    def fresh(values: Values) -> int:
        return len({order(value) for value in present(values)})

    return Kernel((type_,), t.BIGINT, (partial,), "hll_sketch_estimate({hll})", fresh)


# --- percentiles ---------------------------------------------------------------------------------------------

KLL_K = 400
_LARGEST_K = 65535
# MEDIAN looks at both sides of the middle; the sketch takes constant ranks only, and rounds them to ten millionths.
_BESIDE_THE_MIDDLE = 0.500001


def kll_error(k: int) -> float:
    """The error of a rank, as a share of all values, that 99 of 100 sketches keep: DataSketches' own figure."""
    return float(2.296 / k**0.9723)


def _k_for(accuracy: int | None) -> int:
    """The least k whose error is 1 / accuracy, the way Spark's percentile_approx speaks of it."""
    if accuracy is None:
        return KLL_K
    return min(_LARGEST_K, max(8, math.ceil(math.pow(2.296 * accuracy, 1 / 0.9723))))


@dataclass(frozen=True)
class _Line:
    """A type laid out on a line that a sketch can hold: BIGINT or DOUBLE, there and back."""

    family: str
    there: str
    back: str


def _line(type_: DataType) -> _Line:
    if type_.is_integer:
        return _Line("bigint", "CAST({x} AS BIGINT)", f"CAST({{}} AS {type_})")
    if type_.is_float:
        return _Line("double", "CAST({x} AS DOUBLE)", f"CAST({{}} AS {type_})")
    if type_ == t.TIMESTAMP:
        return _Line("bigint", "unix_micros({x})", "timestamp_micros({})")
    if type_ == t.DATE:
        return _Line("bigint", "CAST(unix_date({x}) AS BIGINT)", "date_from_unix_date(CAST({} AS INT))")
    if type_.is_decimal and type_.precision <= 18:
        unit = Decimal(1).scaleb(-type_.scale)
        there = f"CAST({{x}} * {1 / unit:f}BD AS BIGINT)"
        return _Line("bigint", there, f"CAST(CAST({{}} AS DECIMAL(19,0)) * {unit:f}BD AS {type_})")
    raise ArgumentTypeError(f"it takes a number (a DECIMAL of at most 18 digits), a TIMESTAMP or a DATE, not {type_}")


def _sketch(line: _Line, k: int) -> PartialColumn:
    return PartialColumn(
        "kll", f"kll_sketch_agg_{line.family}({line.there}, {k})", f"kll_merge_agg_{line.family}({{p}})"
    )


def _of_values(line: _Line, sql: str) -> str:
    """An empty sketch has no quantiles, and says so with an exception."""
    return f"CASE WHEN kll_sketch_get_n_{line.family}({{kll}}) > 0 THEN {sql} END"


def _percentile(signature: Signature) -> Kernel:
    percentage, accuracy = signature.constants
    type_, line = signature.first, _line(signature.first)
    quantile = f"kll_sketch_get_quantile_{line.family}({{kll}}, {percentage!r}D)"
    finish = _of_values(line, line.back.format(quantile))

    def fresh(values: Values) -> Any:
        found = _in_order(values)
        return found[rank(percentage, len(found)) - 1] if found else None

    return Kernel((type_,), type_, (_sketch(line, _k_for(accuracy)),), finish, fresh)


def rank(percentage: float, n: int) -> int:
    """Which of n values in order the percentile is: the first that has at least that share of them up to itself."""
    return max(1, math.ceil(round(percentage * n, 7)))


def _median(signature: Signature) -> Kernel:
    type_ = number(signature.first)
    line = _line(type_)
    both = f"kll_sketch_get_quantile_{line.family}({{kll}}, array(0.5D, {_BESIDE_THE_MIDDLE!r}D))"
    low, high = (f"CAST({line.back.format(f'q[{side}]')} AS DOUBLE)" for side in (0, 1))
    finish = _of_values(line, let("q", both, f"({low} + {high}) / 2"))

    def fresh(values: Values) -> float | None:
        found = _in_order(values)
        if not found:
            return None
        return (float(found[(len(found) - 1) // 2]) + float(found[len(found) // 2])) / 2

    return Kernel((type_,), t.DOUBLE, (_sketch(line, KLL_K),), finish, fresh)


def _in_order(values: Values) -> list[Any]:
    """Without NaN, which has no place on the line."""
    return sorted(v for v in present(values) if not (isinstance(v, float) and math.isnan(v)))


def _share(literal: Literal) -> float:
    if not literal.type.is_numeric or not 0 <= literal.value <= 1:
        raise ArgumentTypeError("its percentage is a number from 0 to 1")
    return float(literal.value)


def _accuracy(literal: Literal) -> int:
    if not literal.type.is_integer or literal.value < 1:
        raise ArgumentTypeError("its accuracy is a whole number from 1 on")
    return int(literal.value)


_PERCENTILE = (Constant("percentage", _share, required=True), Constant("accuracy", _accuracy))
_ERROR = f"{kll_error(KLL_K):.1%}".replace("%", " %")
SKETCHES = (
    Aggregate(
        "approx_count_distinct",
        _approx_count,
        f"how many distinct values, about (HyperLogLog, standard error {HLL_ERROR:.1%})".replace("%", " %"),
    ),
    Aggregate(
        "approx_percentile",
        _percentile,
        f"the value below or at which a share of the values lies, about (KLL, rank within {_ERROR}, or within "
        "1 / accuracy if that is given); NaN is left out",
        constants=_PERCENTILE,
        distinct=Distinct.REFUSED,
    ),
    Aggregate(
        "percentile_approx",
        _percentile,
        "the same as APPROX_PERCENTILE",
        constants=_PERCENTILE,
        distinct=Distinct.REFUSED,
    ),
    Aggregate(
        "median",
        _median,
        f"the middle value, or the mean of the two in the middle, about (KLL, rank within {_ERROR}); NaN is left out",
        distinct=Distinct.REFUSED,
    ),
)
