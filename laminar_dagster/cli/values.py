"""Values as people and machines read them: times as ISO-8601 in UTC."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """The value as JSON can hold it; decimals stay exact, as text."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def shown(value: Any) -> str:
    return "" if value is None else str(plain(value))


def sized(count: int) -> str:
    """Bytes, in the unit that a person would use."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
