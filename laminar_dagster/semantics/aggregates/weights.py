"""Totals over rows with weights: a row taken back takes its value out again.

Whole numbers and decimals are summed exactly, so that what came and went leaves no trace, also where the total did not
fit in between. Of floats the finite ones are summed, what is whole in them apart from the rest: whole numbers up to
2^53 cancel out exactly, so that a large value that went takes no digits of the small ones along. How many NaN and
infinities there are is counted, because none can be subtracted. The weight of all values says when there is none left,
which a total cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.halves import (
    BIGINT_OVERFLOW,
    BIGINT_TOTAL,
    WEIGHED_HALVES,
)
from laminar_dagster.semantics.aggregates.kernel import PartialColumn
from laminar_dagster.semantics.types import DataType


def weight_where(name: str, condition: str) -> PartialColumn:
    return PartialColumn(name, f"coalesce(sum(CASE WHEN {condition} THEN {{w}} END), 0L)", "sum({p})")


WEIGHT_OF_VALUES = weight_where("n", "{x} IS NOT NULL")


@dataclass(frozen=True)
class Total:
    """The columns of a total, and the total in Spark SQL; of a DECIMAL it is NULL where 38 digits do not hold it."""

    partials: tuple[PartialColumn, ...]
    sql: str
    overflow: str | None = None


def total_by_weight(type_: DataType) -> Total:
    if type_ == t.BIGINT:
        return Total(WEIGHED_HALVES, BIGINT_TOTAL, BIGINT_OVERFLOW)
    if type_.is_float:
        return _FLOAT_TOTAL
    if type_.is_decimal:
        return _decimal_total(type_) if type_.precision <= _SHORT else _long_decimal_total(type_)
    return Total((PartialColumn("sum", "sum({x} * {w})", "sum({p})"),), "{sum}")


# --- floats --------------------------------------------------------------------------------------------------

_INFINITY, _NAN = "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
_OF_FLOATS = (
    f"CASE WHEN {{nan}} > 0 OR ({{up}} > 0 AND {{down}} > 0) THEN {_NAN} "
    f"WHEN {{up}} > 0 THEN {_INFINITY} WHEN {{down}} > 0 THEN -{_INFINITY} ELSE {{whole}} + {{rest}} END"
)


def _finite(name: str, part: str) -> PartialColumn:
    return PartialColumn(name, f"sum(CASE WHEN abs({{x}}) < {_INFINITY} THEN {part} * {{w}} END)", "sum({p})")


_FLOAT_TOTAL = Total(
    (
        _finite("whole", "rint({x})"),
        _finite("rest", "({x} - rint({x}))"),
        weight_where("nan", "isnan({x})"),
        weight_where("up", f"{{x}} = {_INFINITY}"),
        weight_where("down", f"{{x}} = -{_INFINITY}"),
    ),
    _OF_FLOATS,
)


# --- decimals ------------------------------------------------------------------------------------------------

# A product of a DECIMAL and a weight keeps all decimals up to 38 digits together, and so does a sum of 10^10 of them.
_WEIGHT = "CAST({w} AS DECIMAL(10,0))"
_SHORT = 27
_LOW_DIGITS = 20


def _decimal_total(type_: DataType) -> Total:
    wide = t.decimal(t.MAX_PRECISION, type_.scale)
    total = f"sum(CAST(CAST({{x}} AS {type_}) * {_WEIGHT} AS {wide}))"
    return Total((PartialColumn("sum", total, "sum({p})"),), "{sum}")


def _long_decimal_total(type_: DataType) -> Total:
    """In units of the last decimal, the lowest 20 digits apart from those above: no sum of either can overflow.

    Spark's `+` would drop decimals of the two put together, so they are put together as a whole number.
    """
    scale, value = type_.scale, f"CAST({{x}} AS {type_})"
    unit = _power_of_ten(_LOW_DIGITS - scale)
    lowest = f"({value} % {unit})"
    # In two steps, as 10^38 is no literal.
    lowest += f" * {_power_of_ten(scale - 1)} * 10BD" if scale else ""
    units = f"try_add(try_multiply({{hi}}, {_power_of_ten(_LOW_DIGITS)}), {{lo}})"
    total = f"try_cast(concat({units}, 'E-{scale}') AS {t.decimal(t.MAX_PRECISION, scale)})"
    return Total((_digits("hi", f"{value} div {unit}"), _digits("lo", lowest)), total)


def _digits(name: str, digits: str) -> PartialColumn:
    weighed = f"CAST({digits} AS DECIMAL({_LOW_DIGITS},0)) * {_WEIGHT}"
    return PartialColumn(name, f"sum(CAST({weighed} AS DECIMAL({t.MAX_PRECISION},0)))", "sum({p})")


def _power_of_ten(exponent: int) -> str:
    return f"1{'0' * exponent}BD" if exponent >= 0 else f"0.{'0' * (-exponent - 1)}1BD"
