"""CAST, as Spark reads and prints values; a cast that fails is a reason."""

from __future__ import annotations

import math
import re
from datetime import UTC
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions.table import (
    ArgumentTypeError,
    Types,
    always,
    register,
)
from laminar_dagster.semantics.functions.values import fit
from laminar_dagster.semantics.time import DAY, SECOND, day_to_iso, from_iso, to_iso
from laminar_dagster.semantics.types import DataType

CASTS = {
    "BOOLEAN": {"BOOLEAN", "STRING"},
    "STRING": {"BOOLEAN", "STRING", "number", "DATE", "TIMESTAMP"},
    "DATE": {"DATE", "TIMESTAMP", "STRING"},
    "TIMESTAMP": {"DATE", "TIMESTAMP", "STRING"},
    "number": {"number", "STRING", "TIMESTAMP"},
}


def _family(type_: DataType) -> str:
    return "number" if type_.is_numeric else type_.name


def castable(from_: DataType, to: DataType) -> bool:
    return from_.is_null or _family(to) in CASTS.get(_family(from_), set())


def cast_value(value: Any, from_: DataType, to: DataType) -> Any:
    try:
        return _cast(value, from_, to)
    except (ValueError, InvalidOperation):
        raise RowError("invalid_cast" if from_ == t.STRING else "overflow") from None


def _cast(value: Any, from_: DataType, to: DataType) -> Any:
    if from_ == to:
        return value
    if to == t.STRING:
        return cast_to_text(value, from_)
    if to == t.BOOLEAN:
        return _boolean_from_text(value)
    if to in (t.DATE, t.TIMESTAMP):
        return _cast_to_time(value, from_, to)
    if from_ == t.STRING:
        return _number_from_text(value, to)
    if from_.is_float and not to.is_float and not math.isfinite(value):
        raise RowError("overflow")
    return fit(math.trunc(value) if to.is_integer else value, to)


def _boolean_from_text(text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "t", "yes", "y", "1"):
        return True
    if word in ("false", "f", "no", "n", "0"):
        return False
    raise ValueError(text)


def _number_from_text(text: str, to: DataType) -> Any:
    trimmed = text.strip()
    if "_" in trimmed:
        raise ValueError(text)
    if to.is_float:
        return float(trimmed)
    if to.is_integer and not re.fullmatch(r"[+-]?[0-9]+", trimmed):
        raise ValueError(text)
    exact = Decimal(trimmed)
    if not exact.is_finite():
        raise ValueError(text)
    try:
        return fit(exact, to)
    except RowError:
        raise ValueError(text) from None


def _cast_to_time(value: Any, from_: DataType, to: DataType) -> int:
    if from_.is_numeric:
        return micros_of(value, SECOND)
    if from_ == t.DATE:
        return int(value if to == t.DATE else fit(value * DAY, t.BIGINT))
    micros = _from_text(value.strip()) if from_ == t.STRING else value
    return micros // DAY if to == t.DATE else micros


def _from_text(text: str) -> int:
    if text[:1] in ("+", "-"):
        raise ValueError(text)
    return from_iso(text, UTC)


def micros_of(value: Any, unit: int) -> int:
    """So many units of time after 1970, cut off at the microsecond."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RowError("overflow")
    exact = value if isinstance(value, int | float) else Fraction(value)
    return int(fit(math.trunc(exact * unit), t.BIGINT))


def micros_sql(type_: DataType, x: str, unit: int) -> str:
    """The same in Spark; NULL where it does not fit."""
    if type_.is_integer:
        return f"try_multiply(CAST({x} AS BIGINT), {unit}L)"
    return f"try_cast({x} * {'1e6D' if type_.is_float else '1000000'} AS BIGINT)"


def time_in_micros(type_: DataType, x: str) -> str:
    """A TIMESTAMP as a number in Spark; a DATE as that of its midnight, NULL where that is beyond all times."""
    return f"try_multiply(CAST(unix_date({x}) AS BIGINT), {DAY}L)" if type_ == t.DATE else f"unix_micros({x})"


def cast_to_text(value: Any, from_: DataType) -> str:
    if from_ == t.BOOLEAN:
        return "true" if value else "false"
    if from_ == t.DATE:
        return day_to_iso(value)
    if from_ == t.TIMESTAMP:
        return _timestamp_text(value)
    if from_.is_float:
        return _double_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _timestamp_text(micros: int) -> str:
    text = to_iso(micros).replace("T", " ").removesuffix("Z")
    return text.rstrip("0") if "." in text else text


def _double_text(value: float) -> str:
    """As the JVM prints a double."""
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, exponent = f"{Decimal(repr(value)):E}".split("E")
    digits = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


_DATED = "'^ *[0-9]{4}-[0-9]{2}-[0-9]{2}'"


def _cast_sql(type_: DataType, types: Types, x: str) -> str:
    """Text becomes a time only if it begins with a date: Spark would complete `12:00` with today's."""
    if types[0] == t.STRING and type_ in (t.DATE, t.TIMESTAMP):
        return f"try_cast(CASE WHEN rlike({x}, {_DATED}) THEN {x} END AS {type_})"
    if types[0].is_numeric and type_ == t.TIMESTAMP:
        return f"timestamp_micros({micros_sql(types[0], x, SECOND)})"
    if types[0] == t.DATE and type_ == t.TIMESTAMP:
        return f"timestamp_micros({time_in_micros(t.DATE, x)})"
    return f"try_cast({x} AS {type_})"


def _cast_error(type_: DataType, types: Types, x: str) -> str | None:
    if types[0] == type_ or type_ == t.STRING:
        return None
    reason = "invalid_cast" if types[0] == t.STRING else "overflow"
    return f"CASE WHEN {x} IS NOT NULL AND {_cast_sql(type_, types, x)} IS NULL THEN '{reason}' END"


register(
    "cast", 1, always(t.NULL), lambda type_, types, x: cast_value(x, types[0], type_), _cast_sql,
    lambda type_, x: f"CAST({x} AS {type_})", error=_cast_error,
)  # fmt: skip


def _timed(types: Types) -> DataType:
    if not castable(types[0], t.TIMESTAMP):
        raise ArgumentTypeError(f"it takes a STRING, a number, a DATE or a TIMESTAMP, not {types[0]}")
    return t.TIMESTAMP


# Text as Spark reads it, a number as seconds after 1970.
register(
    "to_timestamp", 1, _timed, lambda type_, types, x: cast_value(x, types[0], type_), _cast_sql, error=_cast_error
)
