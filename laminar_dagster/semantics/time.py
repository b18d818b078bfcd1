"""Time inside the engine is an integer, microseconds since 1970 UTC. This module is the only converter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

FIXED_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": MILLISECOND,
    "SECOND": SECOND,
    "MINUTE": MINUTE,
    "HOUR": HOUR,
    "DAY": DAY,
    "WEEK": WEEK,
}
CALENDAR_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_INTERVAL = re.compile(r"\s*([+-]?\d+)\s+([A-Za-z]+)\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Interval:
    """A length of time: calendar months, or fixed microseconds; never both."""

    micros: int = 0
    months: int = 0

    def __str__(self) -> str:
        if self.months:
            return _counted(self.months, {"year": 12, "month": 1})
        return format_micros(self.micros)


class UnknownUnitError(ValueError):
    """The word after an interval's number is not a unit of time."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        super().__init__(unit)


def interval(amount: int, unit: str) -> Interval:
    singular = unit.upper().removesuffix("S")
    if singular in FIXED_UNITS:
        return Interval(micros=amount * FIXED_UNITS[singular])
    if singular in CALENDAR_UNITS:
        return Interval(months=amount * CALENDAR_UNITS[singular])
    raise UnknownUnitError(unit)


def parse_interval(text: str) -> Interval:
    """`10 seconds`, `1 minute 30 seconds`; ValueError if the text is something else."""
    parts = [interval(int(amount), unit) for amount, unit in _INTERVAL.findall(text)]
    if not parts or _INTERVAL.sub("", text).strip():
        raise ValueError(text)
    whole = Interval(sum(p.micros for p in parts), sum(p.months for p in parts))
    if whole.micros and whole.months:
        raise ValueError(text)
    return whole


def format_micros(micros: int) -> str:
    units = {
        "week": WEEK,
        "day": DAY,
        "hour": HOUR,
        "minute": MINUTE,
        "second": SECOND,
        "millisecond": MILLISECOND,
        "microsecond": 1,
    }
    return _counted(micros, units)


def _counted(amount: int, units: dict[str, int]) -> str:
    for name, size in units.items():
        if amount % size == 0 and (amount != 0 or name == "second"):
            count = amount // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    raise AssertionError("the last unit divides everything")


def to_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def from_datetime(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone is ambiguous: {moment.isoformat()}")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_iso(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text))


def to_iso(micros: int) -> str:
    """ISO-8601 in UTC, with a fraction only where there is one; also for years that datetime cannot hold."""
    try:
        moment = to_datetime(micros)
    except OverflowError:
        return f"{micros} µs since 1970"
    return moment.isoformat().replace("+00:00", "Z")
