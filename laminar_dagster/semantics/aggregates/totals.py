"""COUNT, SUM and AVG, of all values and of the distinct ones: exact, or an error."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Distinct,
    Kernel,
    PartialColumn,
    Signature,
    Values,
    number,
    ordered,
    present,
    unique,
)
from laminar_dagster.semantics.aggregates.sets import BY_VALUE, distinct_tuples, distinct_values
from laminar_dagster.semantics.functions import ArgumentTypeError, fit
from laminar_dagster.semantics.types import DataType

_COUNTED = PartialColumn("n", "count({x})", "sum({p})")
_SUMMED = PartialColumn("sum", "sum({x})", "sum({p})")

# A BIGINT sum is kept as two halves, sum(x >> 32) and sum(x & 0xffffffff): neither can overflow below 2^31 rows,
# the total is exact however the rows were cut into partials, and all arithmetic stays on primitive longs.
_HALVES = (
    PartialColumn("hi", "sum(shiftright({x}, 32))", "sum({p})"),
    PartialColumn("lo", "sum({x} & 4294967295L)", "sum({p})"),
)
_SET_HALVES = {
    "hi": "aggregate({set}, 0L, (a, e) -> a + shiftright(e, 32))",
    "lo": "aggregate({set}, 0L, (a, e) -> a + (e & 4294967295L))",
}
_HIGH = "({hi} + shiftright({lo}, 32))"
_BIGINT_TOTAL = f"(shiftleft({_HIGH}, 32) | ({{lo}} & 4294967295L))"
_BIGINT_OVERFLOW = f"({_HIGH} > 2147483647L OR {_HIGH} < -2147483648L)"
_BIGINT_AS_DOUBLE = "CAST(CAST({hi} AS DECIMAL(20,0)) * 4294967296BD + CAST({lo} AS DECIMAL(20,0)) AS DOUBLE)"
_OF_NO_VALUE = "CASE WHEN size({{set}}) > 0 THEN {} END"


def _decimal_sum(scale: int) -> tuple[PartialColumn, ...]:
    """A decimal sum has 38 digits from the start, so that merging does not change its type.

    Spark makes it NULL once it does not fit, which must outlive every merge: `over` says so.
    """
    total = f"sum(CAST({{x}} AS DECIMAL({t.MAX_PRECISION},{scale})))"
    over = PartialColumn(
        "over",
        f"(count({{x}}) > 0 AND {total} IS NULL)",
        "(bool_or({p}) OR (sum({n}) > 0 AND sum({sum}) IS NULL))",
    )
    return (_COUNTED, PartialColumn("sum", total, "sum({p})"), over)


# --- COUNT ---------------------------------------------------------------------------------------------------


def _count(signature: Signature) -> Kernel:
    if not signature.distinct:
        return Kernel(signature.types, t.BIGINT, (_COUNTED,), "{n}", lambda v: len(present(v)), retraction="weight")
    types = tuple(ordered(type_) for type_ in signature.types)
    several = len(types) > 1
    partial = distinct_tuples(types) if several else distinct_values(signature.first)

    def fresh(values: Values) -> int:
        return len([v for v in unique(values) if not several or None not in v])

    return Kernel(types, t.BIGINT, (partial,), "CAST(size({set}) AS BIGINT)", fresh, retraction="value", grows=BY_VALUE)


# --- SUM -----------------------------------------------------------------------------------------------------


def _sum(signature: Signature) -> Kernel:
    type_ = number(signature.first)
    if signature.distinct:
        return _sum_distinct(type_)
    types = (type_,)
    if type_ == t.BIGINT:
        fresh = _fresh_sum(t.BIGINT)
        return Kernel(types, t.BIGINT, _HALVES, _BIGINT_TOTAL, fresh, _BIGINT_OVERFLOW, "weight")
    if type_.is_decimal:
        result = _decimal_total(type_)
        finish = f"try_cast({{sum}} AS {result})"
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel(types, result, _decimal_sum(type_.scale), finish, _fresh_sum(result), overflow, "weight")
    result = t.BIGINT if type_.is_integer else t.DOUBLE
    return Kernel(types, result, (_SUMMED,), "{sum}", _fresh_sum(result), retraction="weight")


def _decimal_total(type_: DataType) -> DataType:
    return t.decimal(min(t.MAX_PRECISION, type_.precision + 10), type_.scale)


def _sum_distinct(type_: DataType) -> Kernel:
    result, total, overflow = _set_total(type_)
    return _of_set(type_, result, total, _fresh_sum(result), overflow)


def _set_total(type_: DataType) -> tuple[DataType, str, str | None]:
    """The type and the total of `{set}` in Spark SQL, and when it does not fit: the same rules as SUM's."""
    if type_ == t.BIGINT:
        halves = {half: sql.format(set="{set}") for half, sql in _SET_HALVES.items()}
        return t.BIGINT, _BIGINT_TOTAL.format(**halves), _BIGINT_OVERFLOW.format(**halves)
    if type_.is_integer:
        return t.BIGINT, "aggregate({set}, 0L, (a, e) -> a + e)", None
    if not type_.is_decimal:
        # Sorted, so that the rounding of floats does not depend on the order in which the values came.
        return t.DOUBLE, "aggregate(sort_array({set}), 0D, (a, e) -> a + e)", None
    wide = _exact_accumulator(type_)
    total = f"aggregate({{set}}, CAST(0 AS {wide}), (a, e) -> CAST(a + e AS {wide}))"
    result = _decimal_total(type_)
    return result, f"try_cast({total} AS {result})", f"try_cast({total} AS {result}) IS NULL"


def _exact_accumulator(type_: DataType) -> DataType:
    """A type to which Spark's `+` adds one more value without dropping decimals."""
    if type_.scale <= t.MINIMUM_ADJUSTED_SCALE:
        return t.decimal(t.MAX_PRECISION, type_.scale)
    if type_.precision + 10 < t.MAX_PRECISION:
        return t.decimal(t.MAX_PRECISION - 1, type_.scale)
    raise ArgumentTypeError(
        f"with DISTINCT it takes a DECIMAL of at most 27 digits, or of at most 6 decimals, not {type_}"
    )


def _of_set(
    type_: DataType, result: DataType, finish: str, fresh: Callable[[Values], Any], overflow: str | None
) -> Kernel:
    partials, finish = (distinct_values(type_),), _OF_NO_VALUE.format(finish)
    return Kernel((type_,), result, partials, finish, lambda v: fresh(unique(v)), overflow, "value", BY_VALUE)


def _fresh_sum(result: DataType) -> Callable[[Values], Any]:
    def total(values: Values) -> Any:
        found = present(values)
        if not found:
            return None
        with localcontext() as context:
            context.prec = 100
            return fit(sum(found), result)

    return total


# --- AVG -----------------------------------------------------------------------------------------------------


def _avg(signature: Signature) -> Kernel:
    type_ = number(signature.first)
    if signature.distinct:
        return _avg_distinct(type_)
    types = (type_,)
    if type_.is_decimal:
        result, finish = _decimal_mean(type_, "{sum}", "{n}")
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel(types, result, _decimal_sum(type_.scale), finish, _fresh_avg(result), overflow, "weight")
    if type_ == t.BIGINT:
        finish = f"try_divide({_BIGINT_AS_DOUBLE}, {{n}})"
        return Kernel(types, t.DOUBLE, (_COUNTED, *_HALVES), finish, _fresh_avg(t.DOUBLE), None, "weight")
    finish = "try_divide(CAST({sum} AS DOUBLE), {n})"
    return Kernel(types, t.DOUBLE, (_COUNTED, _SUMMED), finish, _fresh_avg(t.DOUBLE), None, "weight")


def _avg_distinct(type_: DataType) -> Kernel:
    if type_ == t.BIGINT:
        halves = {half: sql.format(set="{set}") for half, sql in _SET_HALVES.items()}
        finish = f"{_BIGINT_AS_DOUBLE.format(**halves)} / size({{set}})"
        return _of_set(type_, t.DOUBLE, finish, _fresh_avg(t.DOUBLE), None)
    _, total, overflow = _set_total(type_)
    if not type_.is_decimal:
        return _of_set(type_, t.DOUBLE, f"{total} / size({{set}})", _fresh_avg(t.DOUBLE), None)
    result, finish = _decimal_mean(type_, total, "CAST(size({set}) AS BIGINT)")
    return _of_set(type_, result, finish, _fresh_avg(result), overflow)


def _decimal_mean(type_: DataType, total: str, n: str) -> tuple[DataType, str]:
    """Spark's type of a mean, and the division.

    Spark's `/` keeps all four more decimals only of a dividend of at most 34 digits: a total is taken as one if it can
    be, and one that is longer still loses decimals, not more.
    """
    result = t.decimal(min(t.MAX_PRECISION, type_.precision + 4), min(t.MAX_PRECISION, type_.scale + 4))
    widths = dict.fromkeys(min(limit, type_.precision + 10) for limit in (34, t.MAX_PRECISION))
    dividends = [f"try_cast({total} AS {t.decimal(max(width, type_.scale), type_.scale)})" for width in widths]
    means = [f"try_cast(try_divide({dividend}, {n}) AS {result})" for dividend in dividends]
    return result, means[0] if len(means) == 1 else f"coalesce({', '.join(means)})"


def _fresh_avg(result: DataType) -> Callable[[Values], Any]:
    def mean(values: Values) -> Any:
        found = present(values)
        if not found:
            return None
        if not result.is_decimal:
            return float(sum(found)) / len(found)
        with localcontext() as context:
            context.prec = 100
            exact = Decimal(sum(found)) / len(found)
            return fit(exact.quantize(Decimal(1).scaleb(-result.scale), rounding=ROUND_HALF_UP), result)

    return mean


TOTALS = (
    Aggregate(
        "count",
        _count,
        "how many rows, or how many values that are not NULL; COUNT(DISTINCT a, b) how many pairs without a NULL",
        distinct=Distinct.OWN,
    ),
    Aggregate(
        "sum",
        _sum,
        "the total; a total that does not fit its type is an error, never a wrong number",
        distinct=Distinct.OWN,
    ),
    Aggregate("avg", _avg, "the mean", distinct=Distinct.OWN),
)
