"""Functions over timestamps and dates, in UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.functions.casts import micros_of, micros_sql
from laminar_dagster.semantics.functions.table import (
    ArgumentTypeError,
    Types,
    checked,
    numbers,
    register,
    strings,
    times,
)
from laminar_dagster.semantics.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, WEEK, format_micros, to_datetime
from laminar_dagster.semantics.types import DataType


def _moment(types: Types, value: int) -> datetime:
    return to_datetime(value * DAY if types[0] == t.DATE else value)


def _part(name: str, compute: Callable[[datetime], int]) -> None:
    register(name, 1, checked(times, t.INT), lambda _, types, x: compute(_moment(types, x)))


_part("year", lambda m: m.year)
_part("quarter", lambda m: (m.month + 2) // 3)
_part("month", lambda m: m.month)
_part("day", lambda m: m.day)
_part("hour", lambda m: m.hour)
_part("minute", lambda m: m.minute)
_part("second", lambda m: m.second)
_part("dayofweek", lambda m: m.isoweekday() % 7 + 1)
_part("weekofyear", lambda m: m.isocalendar().week)

register(
    "date", 1, checked(times, t.DATE), lambda _, types, x: x if types[0] == t.DATE else x // DAY,
    lambda _, __, x: f"CAST({x} AS DATE)",
)  # fmt: skip
register(
    "unix_micros", 1, checked(times, t.BIGINT), lambda _, types, x: x * DAY if types[0] == t.DATE else x,
    lambda _, __, x: f"unix_micros(CAST({x} AS TIMESTAMP))",
)  # fmt: skip


def _integers(types: Types) -> None:
    for type_ in types:
        if not type_.is_integer and not type_.is_null:
            raise ArgumentTypeError(f"it takes a whole number, not {type_}")


def _since_1970(name: str, check: Callable[[Types], None], unit: int) -> None:
    """A number as a time: so many units after 1970 UTC. One that is too large is an error of its row."""

    def value(types: Types, x: str) -> str:
        return f"timestamp_micros({micros_sql(types[0], x, unit)})"

    register(
        name, 1, checked(check, t.TIMESTAMP), lambda _, __, x: micros_of(x, unit), lambda _, types, x: value(types, x),
        error=lambda _, types, x: f"CASE WHEN {x} IS NOT NULL AND {value(types, x)} IS NULL THEN 'overflow' END",
    )  # fmt: skip


_since_1970("timestamp_seconds", numbers, SECOND)
_since_1970("timestamp_millis", _integers, MILLISECOND)
_since_1970("timestamp_micros", _integers, 1)

TRUNCATIONS = {"SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR, "DAY": DAY, "WEEK": WEEK}
_MONDAY_OFFSET = 4 * DAY


def _truncated(_: DataType, types: Types, unit: str, value: int) -> int:
    micros = value * DAY if types[1] == t.DATE else value
    word = unit.upper()
    if word in TRUNCATIONS:
        offset = _MONDAY_OFFSET if word == "WEEK" else 0
        return micros - (micros - offset) % TRUNCATIONS[word]
    moment = to_datetime(micros)
    month = {"MONTH": moment.month, "QUARTER": (moment.month - 1) // 3 * 3 + 1, "YEAR": 1}[word]
    first = datetime(moment.year, month, 1, tzinfo=UTC)
    return (first - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _truncated_type(types: Types) -> DataType:
    strings(types[:1])
    times(types[1:])
    return t.TIMESTAMP


register("date_trunc", 2, _truncated_type, _truncated)


def _shift_type(types: Types) -> DataType:
    times(types[:1])
    return t.TIMESTAMP


register(
    "add_micros", 2, _shift_type, lambda _, __, x, micros: x + micros,
    lambda _, __, x, micros: f"timestamp_micros(unix_micros({x}) + {micros})",
    lambda _, x, micros: f"({x} {'-' if micros.startswith('-') else '+'} {format_micros(abs(int(micros)))})",
)  # fmt: skip
