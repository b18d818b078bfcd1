"""Time inside the engine is an integer, microseconds since 1970 UTC. This module is the only converter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

# The calendar repeats itself, weekdays and the rules of time zones included, after 400 years.
CYCLE = 146_097 * DAY
CYCLE_YEARS = 400
_FIRST_PLAIN, _LAST_PLAIN = 401, 9_600  # years that are far enough from the ends of Python's calendar

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
# Event times lie between -REACH and REACH, about 146,000 years from 1970. So the bounds of their windows, and the
# difference of any two, are microseconds in a BIGINT and a TIMESTAMP that Spark has: nothing is ever wrapped.
REACH = 1 << 62
_INTERVAL = re.compile(r"\s*([+-]?\d+)\s+([A-Za-z]+)\s*")
_SIGNED_YEAR = re.compile(r"([+-][0-9]{4,6}|0000)(?=-)")
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


def is_in_reach(micros: int) -> bool:
    return -REACH <= micros < REACH


def within_reach(micros: int) -> int:
    """The time, or the end of the reach that it lies beyond."""
    return max(-REACH, min(micros, REACH - 1))


def to_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def from_datetime(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone is ambiguous: {moment.isoformat()}")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def in_calendar(micros: int) -> tuple[datetime, int]:
    """A moment that Python's calendar has, and how many cycles later the real one is: none from 401 to 9600."""
    first, last = _whole_day(_FIRST_PLAIN), _whole_day(_LAST_PLAIN)
    cycles = min(0, (micros - first) // CYCLE) if micros < last else (micros - last) // CYCLE + 1
    return to_datetime(micros - cycles * CYCLE), cycles


def _whole_day(year: int) -> int:
    return (date(year, 1, 1).toordinal() - _EPOCH.toordinal()) * DAY


def year_text(year: int) -> str:
    """ISO-8601: a sign where four digits do not hold it."""
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"


def from_iso(text: str, zone: tzinfo | None = None) -> int:
    """The time that `to_iso` wrote, or anybody else; where it says no zone it is one of `zone`."""
    moment, cycles = read_iso(text)
    return from_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)) + cycles * CYCLE


def read_iso(text: str) -> tuple[datetime, int]:
    """The moment as `in_calendar` gives it, without a zone where the text has none."""
    signed = _SIGNED_YEAR.match(text)
    if signed is None:
        return datetime.fromisoformat(text), 0
    cycles, year = divmod(int(signed[1]), CYCLE_YEARS)
    return datetime.fromisoformat(f"{year + CYCLE_YEARS:04d}{text[signed.end() :]}"), cycles - 1


def to_iso(micros: int) -> str:
    """ISO-8601 in UTC, with a fraction only where there is one; years that datetime cannot hold have a sign."""
    moment, cycles = in_calendar(micros)
    return year_text(moment.year + cycles * CYCLE_YEARS) + moment.isoformat()[4:].replace("+00:00", "Z")


def day_to_iso(days: int) -> str:
    return to_iso(days * DAY).partition("T")[0]
