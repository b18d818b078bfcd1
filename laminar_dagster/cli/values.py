"""Values as people and machines read them: times as ISO-8601 in UTC."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, SECOND

LENGTHS = tuple(pairwise((("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND))))


def plain(value: Any) -> Any:
    """The value as JSON can hold it, also within lists and structs; decimals stay exact, as text, bytes are base64."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, Decimal) else value


def shown(value: Any) -> str:
    return "" if value is None else str(plain(value))


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items()}


def shown_row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in row.items())


def sized(count: int) -> str:
    """Bytes, in the unit that a person would use."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def lasting(micros: int) -> str:
    """A length of time for people, in its two greatest units: `2 h 5 min`, `3.25 s`."""
    if micros < 0:
        return f"-{lasting(-micros)}"
    if micros < MINUTE:
        return f"{micros / SECOND:g} s"
    unit, smaller = next(pair for pair in LENGTHS if micros >= pair[0][1])
    rest = micros % unit[1] // smaller[1]
    return f"{micros // unit[1]} {unit[0]}" + (f" {rest} {smaller[0]}" if rest else "")
