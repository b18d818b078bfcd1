"""The table of aggregates: how each makes a partial, merges partials and finishes, as Spark expressions.

A `Kernel` is one aggregate for one type of argument. Templates speak of `{x}` (the argument's column) in
`make`, of `{p}` (the partial's own column) and of its sibling columns by name in `merge`, and of the merged columns by
name in `finish`.
`fresh` is the plain meaning over all values of a group, NULLs included: what the reference computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions import ArgumentTypeError, fit, order
from laminar_dagster.semantics.types import DataType

Values = Sequence[Any]


@dataclass(frozen=True)
class PartialColumn:
    """One column of an accumulator: made from rows, merged from partials."""

    name: str
    make: str
    merge: str


@dataclass(frozen=True)
class Kernel:
    aggregate: str
    argument: DataType | None
    result: DataType
    partials: tuple[PartialColumn, ...]
    finish: str
    fresh: Callable[[Values], Any] = field(compare=False)
    overflow: str | None = None
    retraction: str = "none"
    grows: bool = False

    @property
    def accepts_retraction(self) -> bool:
        return self.retraction != "none"


@dataclass(frozen=True)
class Aggregate:
    """A name a user may call, and how its kernel follows from the argument's type."""

    name: str
    arguments: int
    kernel: Callable[[DataType | None], Kernel]
    summary: str
    wired: bool = True
    retractable: bool = True


def _present(values: Values) -> list[Any]:
    return [value for value in values if value is not None]


def _summed(name: str) -> PartialColumn:
    return PartialColumn(name, "sum({x})", "sum({p})")


_COUNTED = PartialColumn("n", "count({x})", "sum({p})")



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



# A BIGINT sum is kept as two halves, sum(x >> 32) and sum(x & 0xffffffff): neither can overflow below 2^31 rows,
# the total is exact however the rows were cut into partials, and all arithmetic stays on primitive longs.
_HALVES = (
    PartialColumn("hi", "sum(shiftright({x}, 32))", "sum({p})"),
    PartialColumn("lo", "sum({x} & 4294967295L)", "sum({p})"),
)
_HIGH = "({hi} + shiftright({lo}, 32))"
_BIGINT_TOTAL = f"(shiftleft({_HIGH}, 32) | ({{lo}} & 4294967295L))"
_BIGINT_OVERFLOW = f"({_HIGH} > 2147483647L OR {_HIGH} < -2147483648L)"
_BIGINT_AS_DOUBLE = "CAST(CAST({hi} AS DECIMAL(20,0)) * 4294967296BD + CAST({lo} AS DECIMAL(20,0)) AS DOUBLE)"


def _count_kernel(argument: DataType | None) -> Kernel:
    return Kernel(
        "count",
        argument,
        t.BIGINT,
        (_COUNTED,),
        "{n}",
        lambda values: len(_present(values)),
        retraction="weight",
    )


def _sum_kernel(argument: DataType | None) -> Kernel:
    type_ = _number(argument)
    if type_ == t.BIGINT:
        return Kernel("sum", type_, t.BIGINT, _HALVES, _BIGINT_TOTAL, _fresh_sum(t.BIGINT), _BIGINT_OVERFLOW, "weight")
    if type_.is_decimal:
        result = t.decimal(min(t.MAX_PRECISION, type_.precision + 10), type_.scale)
        finish = f"try_cast({{sum}} AS {result})"
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel("sum", type_, result, _decimal_sum(type_.scale), finish, _fresh_sum(result), overflow, "weight")
    result = t.BIGINT if type_.is_integer else t.DOUBLE
    return Kernel("sum", type_, result, (_summed("sum"),), "{sum}", _fresh_sum(result), retraction="weight")


def _fresh_sum(result: DataType) -> Callable[[Values], Any]:
    def total(values: Values) -> Any:
        present = _present(values)
        if not present:
            return None
        with localcontext() as context:
            context.prec = 100
            return fit(sum(present), result)

    return total


def _avg_kernel(argument: DataType | None) -> Kernel:
    type_ = _number(argument)
    if type_.is_decimal:
        result = t.decimal(min(t.MAX_PRECISION, type_.precision + 4), min(t.MAX_PRECISION, type_.scale + 4))
        finish = f"try_cast(try_divide({{sum}}, {{n}}) AS {result})"
        overflow = f"({{over}} OR ({{n}} > 0 AND {finish} IS NULL))"
        return Kernel("avg", type_, result, _decimal_sum(type_.scale), finish, _fresh_avg(result), overflow, "weight")
    if type_ == t.BIGINT:
        finish = f"try_divide({_BIGINT_AS_DOUBLE}, {{n}})"
        return Kernel("avg", type_, t.DOUBLE, (_COUNTED, *_HALVES), finish, _fresh_avg(t.DOUBLE), None, "weight")
    finish = "try_divide(CAST({sum} AS DOUBLE), {n})"
    partials = (_COUNTED, _summed("sum"))
    return Kernel("avg", type_, t.DOUBLE, partials, finish, _fresh_avg(t.DOUBLE), None, "weight")


def _fresh_avg(result: DataType) -> Callable[[Values], Any]:
    def mean(values: Values) -> Any:
        present = _present(values)
        if not present:
            return None
        if not result.is_decimal:
            return float(sum(present)) / len(present)
        with localcontext() as context:
            context.prec = 100
            exact = Decimal(sum(present)) / len(present)
            return fit(exact.quantize(Decimal(1).scaleb(-result.scale), rounding=ROUND_HALF_UP), result)

    return mean


def _extreme_kernel(name: str, choose: Callable[..., Any]) -> Callable[[DataType | None], Kernel]:
    def kernel(argument: DataType | None) -> Kernel:
        type_ = _ordered(argument)
        partial = PartialColumn(name, f"{name}({{x}})", f"{name}({{p}})")

        def fresh(values: Values) -> Any:
            present = _present(values)
            return choose(present, key=order) if present else None

        return Kernel(name, type_, type_, (partial,), f"{{{name}}}", fresh, retraction="value")

    return kernel


def _number(argument: DataType | None) -> DataType:
    if argument is None or not (argument.is_numeric or argument.is_null):
        raise ArgumentTypeError(f"it takes a number, not {argument}")
    return t.BIGINT if argument.is_null else argument


def _ordered(argument: DataType | None) -> DataType:
    if argument is None or argument.name.startswith(("MAP<", "ARRAY<", "STRUCT<")):
        raise ArgumentTypeError(f"it takes a type that has an order, not {argument}")
    return argument


def _unwired(_: DataType | None) -> Kernel:
    raise AssertionError("an aggregate that is not wired has no kernel; planning refuses it")


def _later(name: str, arguments: int, summary: str, *, retractable: bool = True) -> Aggregate:
    return Aggregate(name, arguments, _unwired, summary, wired=False, retractable=retractable)


AGGREGATES = {
    aggregate.name: aggregate
    for aggregate in (
        Aggregate("count", 1, _count_kernel, "how many rows, or how many values that are not NULL"),
        Aggregate(
            "sum",
            1,
            _sum_kernel,
            "the total; a total that does not fit its type is an error, never a wrong number",
        ),
        Aggregate("avg", 1, _avg_kernel, "the mean"),
        Aggregate("min", 1, _extreme_kernel("min", min), "the least value"),
        Aggregate("max", 1, _extreme_kernel("max", max), "the greatest value"),
        _later("stddev", 1, "sample standard deviation"),
        _later("stddev_samp", 1, "sample standard deviation"),
        _later("stddev_pop", 1, "population standard deviation"),
        _later("variance", 1, "sample variance"),
        _later("var_samp", 1, "sample variance"),
        _later("var_pop", 1, "population variance"),
        _later("covar_samp", 2, "sample covariance"),
        _later("covar_pop", 2, "population covariance"),
        _later("corr", 2, "Pearson correlation"),
        _later("bool_and", 1, "whether all are true"),
        _later("bool_or", 1, "whether any is true"),
        _later("bit_and", 1, "bitwise AND"),
        _later("bit_or", 1, "bitwise OR"),
        _later("bit_xor", 1, "bitwise XOR"),
        _later("first", 1, "the value of the row with the least event time", retractable=False),
        _later("last", 1, "the value of the row with the greatest event time", retractable=False),
        _later("min_by", 2, "the value of the row with the least y"),
        _later("max_by", 2, "the value of the row with the greatest y"),
        _later("any_value", 1, "some value", retractable=False),
        _later("array_agg", 1, "all values as an array"),
        _later("collect_list", 1, "all values as an array"),
        _later("collect_set", 1, "the distinct values as an array"),
        _later("string_agg", 2, "the values as one text"),
        _later("listagg", 2, "the values as one text"),
        _later("approx_count_distinct", 1, "how many distinct values, about", retractable=False),
        _later("approx_percentile", 2, "a percentile, about", retractable=False),
        _later("percentile_approx", 2, "a percentile, about", retractable=False),
        _later("median", 1, "the middle value", retractable=False),
        _later("mode", 1, "the most frequent value"),
        _later("histogram", 2, "how values are distributed", retractable=False),
    )
}

__all__ = ["AGGREGATES", "Aggregate", "Kernel", "PartialColumn", "RowError"]
