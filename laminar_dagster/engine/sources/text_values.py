"""Text as values: strict, so that a value that does not fit its type is seen and not turned into NULL or a guess.

Spark alone would read `2026` as a time in 2026, `T12:30` as a time today, 1e400 as infinity and `yes` as true. Here
each type has one form. All of it is Spark SQL that never throws: NULL where the text does not have the form.
"""

from __future__ import annotations

from laminar_dagster.semantics.types import DataType

INTEGER = "^[+-]?[0-9]+$"
NUMBER = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?$"
DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
MOMENT = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}({_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)?)?$"
LOCAL_MOMENT = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}({_CLOCK})?$"

_PATTERNS = {"DATE": DATE, "TIMESTAMP": MOMENT, "TIMESTAMP_NTZ": LOCAL_MOMENT}
_AS_TEXT = (*_PATTERNS, "STRING")
_INFINITY = "CAST('Infinity' AS DOUBLE)"


def from_text(text: str, type_: DataType) -> str:
    """Spark SQL for the value that a STRING expression spells."""
    if type_.name == "STRING":
        return text
    if type_.name == "BINARY":
        return f"CAST({text} AS BINARY)"
    if type_.name == "BOOLEAN":
        return f"CASE lower(trim({text})) WHEN 'true' THEN true WHEN 'false' THEN false END"
    pattern = INTEGER if type_.is_integer else _PATTERNS.get(type_.name, NUMBER)
    value = f"CASE WHEN trim({text}) RLIKE '{pattern}' THEN try_cast(trim({text}) AS {type_}) END"
    return _finite(value) if type_.is_float else value


def json_type(type_: DataType) -> str:
    """The type as which Spark's JSON parser is to read a column: the strictest that keeps the value whole.

    It reads 200 as TINYINT -56, and a number as a time. It is exact with BIGINT and DECIMAL, and flags what is not.
    """
    if type_.is_integer:
        return "BIGINT"
    if type_.is_float:
        return "DOUBLE"
    if type_.is_decimal:
        return f"DECIMAL(38,{type_.scale})"
    return "STRING" if type_.name in _AS_TEXT else str(type_)


def from_json_value(value: str, type_: DataType) -> str:
    """Spark SQL for the declared type out of what `json_type` read."""
    if type_.name in _PATTERNS:
        return from_text(value, type_)
    if type_.is_float:
        return _finite(f"CAST({value} AS {type_})")
    if type_.is_integer or type_.is_decimal:
        return f"try_cast({value} AS {type_})"
    return value


def _finite(value: str) -> str:
    return f"CASE WHEN abs({value}) < {_INFINITY} THEN {value} END"


def can_be_text(type_: DataType) -> bool:
    """Whether a CSV field can hold the type."""
    known = type_.is_numeric or type_.name in (*_AS_TEXT, "BOOLEAN", "BINARY")
    return bool(known)
