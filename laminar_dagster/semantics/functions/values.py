"""Values in the range of their types, and constants as Spark SQL."""

from __future__ import annotations

import math
from ctypes import c_float
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Literal, RowError
from laminar_dagster.semantics.types import DataType


def fit(value: Any, type_: DataType) -> Any:
    """The value in the range of its type; RowError if it does not fit."""
    if value is None:
        return None
    if type_.is_integer:
        bits = t.INTEGER_BITS[type_.name]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise RowError("overflow")
        return int(value)
    if type_.is_decimal:
        return _fit_decimal(value, type_)
    if type_.name == "FLOAT":
        return c_float(value).value
    return float(value) if type_.is_float else value


def _fit_decimal(value: Any, type_: DataType) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        exact = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
        rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP)
        limit = Decimal(1).scaleb(type_.precision - type_.scale)
    if rounded.copy_abs() >= limit:
        raise RowError("overflow")
    return rounded


def order(value: Any) -> tuple[bool, Any]:
    """What Spark orders and compares by: NaN equals NaN and is greater than any number."""
    not_a_number = isinstance(value, float) and math.isnan(value)
    return (not_a_number, 0.0 if not_a_number else value)


def literal_sql(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL"
    if type_ == t.BOOLEAN:
        return "true" if value else "false"
    if type_ == t.STRING:
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type_ == t.TIMESTAMP:
        return f"timestamp_micros({value})"
    if type_ == t.DATE:
        return f"date_from_unix_date({value})"
    if type_.is_decimal:
        return f"{value:f}BD"
    if type_.is_float:
        return f"{value!r}D"
    return f"{value}L" if type_ == t.BIGINT else str(value)
