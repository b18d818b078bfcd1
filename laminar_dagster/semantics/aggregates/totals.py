"""COUNT, SUM and AVG, of all values and of the distinct ones: exact, or an error."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.halves import (
    BIGINT_AS_DOUBLE,
    BIGINT_OVERFLOW,
    BIGINT_TOTAL,
    HALVES,
    SET_HALVES,
)
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
from laminar_dagster.semantics.aggregates.sets import (
    BY_VALUE,
    REMAINING,
    REMAINING_VALUES,
    distinct_tuples,
    distinct_values,
    over_remaining,
    weighed_tuples,
    weighed_values,
)
from laminar_dagster.semantics.aggregates.weights import WEIGHT_OF_VALUES, total_by_weight
from laminar_dagster.semantics.functions import ArgumentTypeError, fit
from laminar_dagster.semantics.types import DataType

_COUNTED = PartialColumn("n", "count({x})", "sum({p})")
_SUMMED = PartialColumn("sum", "sum({x})", "sum({p})")
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
    if signature.distinct:
        return _count_distinct(signature)
    kernel = Kernel(signature.types, t.BIGINT, (_COUNTED,), "{n}", lambda v: len(present(v)))
    return kernel.with_weights((WEIGHT_OF_VALUES,), "{n}")


def _count_distinct(signature: Signature) -> Kernel:
    types = tuple(ordered(type_) for type_ in signature.types)
    several = len(types) > 1
    partial = distinct_tuples(types) if several else distinct_values(signature.first)
    weighed = weighed_tuples(types) if several else weighed_values(signature.first)

    def fresh(values: Values) -> int:
        return len([v for v in unique(values) if not several or None not in v])

    kernel = Kernel(types, t.BIGINT, (partial,), "CAST(size({set}) AS BIGINT)", fresh, grows=BY_VALUE)
    return kernel.with_weights((weighed,), f"CAST(size({REMAINING}) AS BIGINT)", grows=BY_VALUE)


# --- SUM -----------------------------------------------------------------------------------------------------


def _sum(signature: Signature) -> Kernel:
    type_ = number(signature.first)
    return _sum_distinct(type_) if signature.distinct else _with_weighted_sum(_sum_of_all(type_))


def _sum_of_all(type_: DataType) -> Kernel:
    types = (type_,)
    if type_ == t.BIGINT:
        return Kernel(types, t.BIGINT, HALVES, BIGINT_TOTAL, _fresh_sum(t.BIGINT), BIGINT_OVERFLOW)
    if type_.is_decimal:
        result = _decimal_total(type_)
        finish = f"try_cast({{sum}} AS {result})"
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel(types, result, _decimal_sum(type_.scale), finish, _fresh_sum(result), overflow)
    result = t.BIGINT if type_.is_integer else t.DOUBLE
    return Kernel(types, result, (_SUMMED,), "{sum}", _fresh_sum(result))


def _with_weighted_sum(kernel: Kernel) -> Kernel:
    (type_,) = kernel.arguments
    total = total_by_weight(type_)
    fitting = f"try_cast({total.sql} AS {kernel.result})" if type_.is_decimal else total.sql
    overflow = _without_result(fitting) if type_.is_decimal else total.overflow
    partials = (WEIGHT_OF_VALUES, *total.partials)
    return kernel.with_weights(partials, f"CASE WHEN {{n}} > 0 THEN {fitting} END", overflow=overflow)


def _without_result(sql: str) -> str:
    """Values that there are, and a NULL that is made of them."""
    return f"({{n}} > 0 AND {sql} IS NULL)"


def _decimal_total(type_: DataType) -> DataType:
    return t.decimal(min(t.MAX_PRECISION, type_.precision + 10), type_.scale)


def _sum_distinct(type_: DataType) -> Kernel:
    result, total, overflow = _set_total(type_)
    return _of_set(type_, result, total, _fresh_sum(result), overflow)


def _set_total(type_: DataType) -> tuple[DataType, str, str | None]:
    """The type and the total of `{set}` in Spark SQL, and when it does not fit: the same rules as SUM's."""
    if type_ == t.BIGINT:
        return t.BIGINT, BIGINT_TOTAL.format(**SET_HALVES), BIGINT_OVERFLOW.format(**SET_HALVES)
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
    kernel = Kernel((type_,), result, partials, finish, lambda v: fresh(unique(v)), overflow, BY_VALUE)
    return kernel.with_weights(
        (weighed_values(type_),),
        over_remaining(finish, "set", REMAINING_VALUES),
        overflow=None if overflow is None else over_remaining(overflow, "set", REMAINING_VALUES),
        grows=BY_VALUE,
    )


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
    return _avg_distinct(type_) if signature.distinct else _with_weighted_avg(_avg_of_all(type_))


def _avg_of_all(type_: DataType) -> Kernel:
    types = (type_,)
    if type_.is_decimal:
        result, finish = _decimal_mean(type_, "{sum}", "{n}")
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel(types, result, _decimal_sum(type_.scale), finish, _fresh_avg(result), overflow)
    if type_ == t.BIGINT:
        finish = f"try_divide({BIGINT_AS_DOUBLE}, {{n}})"
        return Kernel(types, t.DOUBLE, (_COUNTED, *HALVES), finish, _fresh_avg(t.DOUBLE))
    finish = "try_divide(CAST({sum} AS DOUBLE), {n})"
    return Kernel(types, t.DOUBLE, (_COUNTED, _SUMMED), finish, _fresh_avg(t.DOUBLE))


def _with_weighted_avg(kernel: Kernel) -> Kernel:
    (type_,) = kernel.arguments
    total = total_by_weight(type_)
    partials = (WEIGHT_OF_VALUES, *total.partials)
    if type_.is_decimal:
        _, mean = _decimal_mean(type_, total.sql, "{n}")
        return kernel.with_weights(partials, mean, overflow=_without_result(mean))
    dividend = BIGINT_AS_DOUBLE if type_ == t.BIGINT else f"CAST({total.sql} AS DOUBLE)"
    return kernel.with_weights(partials, f"try_divide({dividend}, {{n}})")


def _avg_distinct(type_: DataType) -> Kernel:
    if type_ == t.BIGINT:
        finish = f"{BIGINT_AS_DOUBLE.format(**SET_HALVES)} / size({{set}})"
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
