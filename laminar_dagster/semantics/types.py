"""The column types a view can compute with, and Spark's rules for what arithmetic makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_PRECISION = 38
MINIMUM_ADJUSTED_SCALE = 6


@dataclass(frozen=True)
class DataType:
    """A SQL type. `name` is Spark's; ARRAY, MAP and STRUCT are carried whole in `name` and are opaque."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.is_decimal else self.name

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGER_DIGITS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_null(self) -> bool:
        return self.name == "NULL"


INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

NULL = DataType("NULL")
BOOLEAN = DataType("BOOLEAN")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
INTERVAL = DataType("INTERVAL")

_ALIASES = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
    "REAL": "FLOAT",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "BOOL": "BOOLEAN",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
}
_SIMPLE = {
    *INTEGER_DIGITS, "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
}  # fmt: skip
KNOWN_TYPE_NAMES = (*sorted(_SIMPLE), "DECIMAL", "ARRAY", "MAP", "STRUCT")


def decimal(precision: int, scale: int) -> DataType:
    return DataType("DECIMAL", precision, scale)


def parse_type(text: str) -> DataType:
    """`bigint`, `DECIMAL(12,2)`, `array<string>`; ValueError for anything else."""
    tidy = re.sub(r"\s*([(),<>:])\s*", r"\1", text.strip())
    nested = re.fullmatch(r"(ARRAY|MAP|STRUCT)<(.+)>", tidy, re.IGNORECASE)
    if nested is not None:
        _check_nested(nested[1].upper(), _split(nested[2]))
        return DataType(tidy)
    found = re.fullmatch(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?", tidy)
    if found is None:
        raise ValueError(text)
    return _plain_type(found[1].upper(), [int(n) for n in found.groups()[1:] if n is not None])


def _plain_type(written: str, sizes: list[int]) -> DataType:
    name = _ALIASES.get(written, written)
    if name == "DECIMAL":
        precision, scale = (*sizes, *(10, 0)[len(sizes) :])
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise ValueError(written)
        return decimal(precision, scale)
    sized = written in ("VARCHAR", "CHAR") and len(sizes) == 1
    if name not in _SIMPLE or (sizes and not sized):
        raise ValueError(written)
    return DataType(name)


def _check_nested(kind: str, parts: list[str]) -> None:
    """Every type inside of an ARRAY, MAP or STRUCT must be one too."""
    if kind == "STRUCT":
        parts = [part.partition(":")[2] or part.partition(" ")[2] for part in parts]
    elif len(parts) != {"ARRAY": 1, "MAP": 2}[kind]:
        raise ValueError(kind)
    for part in parts:
        parse_type(part)


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket of their own."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def as_decimal(type_: DataType) -> DataType:
    return type_ if type_.is_decimal else decimal(INTEGER_DIGITS[type_.name], 0)


def _adjusted(precision: int, scale: int) -> DataType:
    """Spark's loss of scale when a result would need more than 38 digits."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    integral = precision - scale
    kept = max(MAX_PRECISION - integral, min(scale, MINIMUM_ADJUSTED_SCALE))
    return decimal(MAX_PRECISION, kept)


def arithmetic_type(operator: str, left: DataType, right: DataType) -> DataType | None:
    """The type of `left operator right` by Spark's rules, or None where there is no such operation."""
    if not (left.is_numeric or left.is_null) or not (right.is_numeric or right.is_null):
        return None
    if left.is_null or right.is_null:
        known = right if left.is_null else left
        return DOUBLE if operator == "divide" or known.is_null else known
    if left.is_float or right.is_float:
        return DOUBLE if operator == "divide" else _wider_float(left, right)
    if left.is_decimal or right.is_decimal:
        return _decimal_arithmetic(operator, as_decimal(left), as_decimal(right))
    if operator == "divide":
        return DOUBLE
    return max((left, right), key=lambda t: INTEGER_DIGITS[t.name])


def _decimal_arithmetic(operator: str, a: DataType, b: DataType) -> DataType:
    if operator in ("add", "subtract"):
        scale = max(a.scale, b.scale)
        return _adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
    if operator == "multiply":
        return _adjusted(a.precision + b.precision + 1, a.scale + b.scale)
    if operator == "divide":
        scale = max(6, a.scale + b.precision + 1)
        return _adjusted(a.precision - a.scale + b.scale + scale, scale)
    scale = max(a.scale, b.scale)
    return _adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def common_type(types: list[DataType]) -> DataType | None:
    """The type to which all of `types` widen (CASE, COALESCE, comparison), or None."""
    known = [t for t in types if not t.is_null]
    if not known:
        return NULL
    result = known[0]
    for other in known[1:]:
        widened = _wider(result, other)
        if widened is None:
            return None
        result = widened
    return result


def _wider_float(a: DataType, b: DataType) -> DataType:
    """FLOAT stays FLOAT beside whole numbers, as in Spark; beside DOUBLE and DECIMAL it is DOUBLE."""
    narrow = all(x.is_integer or x.name == "FLOAT" for x in (a, b))
    return DataType("FLOAT") if narrow else DOUBLE


def _wider(a: DataType, b: DataType) -> DataType | None:
    if a == b:
        return a
    if a.is_numeric and b.is_numeric:
        if a.is_float or b.is_float:
            return _wider_float(a, b)
        if a.is_decimal or b.is_decimal:
            a, b = as_decimal(a), as_decimal(b)
            scale = max(a.scale, b.scale)
            return decimal(min(MAX_PRECISION, max(a.precision - a.scale, b.precision - b.scale) + scale), scale)
        return max((a, b), key=lambda t: INTEGER_DIGITS[t.name])
    if {a.name, b.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    return None
