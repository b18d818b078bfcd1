"""Functions over timestamps and dates, in UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions.casts import micros_of, micros_sql, time_in_micros
from laminar_dagster.semantics.functions.table import (
    ArgumentTypeError,
    Types,
    checked,
    numbers,
    register,
    strings,
    times,
)
from laminar_dagster.semantics.functions.values import fit
from laminar_dagster.semantics.time import (
    CYCLE,
    CYCLE_YEARS,
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    WEEK,
    format_micros,
    from_datetime,
    in_calendar,
)
from laminar_dagster.semantics.types import DataType


def _moment(types: Types, value: int) -> tuple[datetime, int]:
    return in_calendar(value * DAY if types[0] == t.DATE else value)


def _part(name: str, compute: Callable[[datetime], int]) -> None:
    register(name, 1, checked(times, t.INT), lambda _, types, x: compute(_moment(types, x)[0]))


def _year(_: DataType, types: Types, x: int) -> int:
    moment, cycles = _moment(types, x)
    return moment.year + cycles * CYCLE_YEARS


register("year", 1, checked(times, t.INT), _year)
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


def _micros(type_: DataType, value: int) -> int:
    """Of a time, or of a date's midnight; Spark has dates whose midnight is no TIMESTAMP."""
    return int(fit(value * DAY, t.BIGINT)) if type_ == t.DATE else value


def _error(time: int, spark: Callable[..., str]) -> Callable[..., str | None]:
    """A function has no value where the time that goes in or comes out is beyond what Spark has."""
    return lambda type_, types, *arguments: (
        f"CASE WHEN {arguments[time]} IS NOT NULL AND {spark(type_, types, *arguments)} IS NULL THEN 'overflow' END"
    )


def _unix_micros_sql(_: DataType, types: Types, x: str) -> str:
    return time_in_micros(types[0], x)


register(
    "unix_micros", 1, checked(times, t.BIGINT), lambda _, types, x: _micros(types[0], x), _unix_micros_sql,
    error=lambda type_, types, x: _error(0, _unix_micros_sql)(type_, types, x) if types[0] == t.DATE else None,
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


# Below this a day, week or year may begin before all times.
_TRUNCATED_FROM = -(1 << 63) + 400 * DAY


def _truncated(_: DataType, types: Types, unit: str, value: int) -> int:
    micros = _micros(types[1], value)
    if micros < _TRUNCATED_FROM:
        raise RowError("overflow")
    word = unit.upper()
    if word in TRUNCATIONS:
        offset = _MONDAY_OFFSET if word == "WEEK" else 0
        return micros - (micros - offset) % TRUNCATIONS[word]
    moment, cycles = in_calendar(micros)
    month = {"MONTH": moment.month, "QUARTER": (moment.month - 1) // 3 * 3 + 1, "YEAR": 1}[word]
    return from_datetime(datetime(moment.year, month, 1, tzinfo=UTC)) + cycles * CYCLE


def _truncated_type(types: Types) -> DataType:
    strings(types[:1])
    times(types[1:])
    return t.TIMESTAMP


def _truncated_sql(_: DataType, types: Types, unit: str, x: str) -> str:
    micros = time_in_micros(types[1], x)
    time = f"timestamp_micros({micros})" if types[1] == t.DATE else x
    return f"CASE WHEN {micros} >= {_TRUNCATED_FROM}L THEN date_trunc({unit}, {time}) END"


register("date_trunc", 2, _truncated_type, _truncated, _truncated_sql, error=_error(1, _truncated_sql))


def _shift_type(types: Types) -> DataType:
    times(types[:1])
    return t.TIMESTAMP


def _shifted_sql(_: DataType, types: Types, x: str, micros: str) -> str:
    return f"timestamp_micros(try_add({time_in_micros(types[0], x)}, CAST({micros} AS BIGINT)))"


register(
    "add_micros", 2, _shift_type, lambda _, types, x, micros: int(fit(_micros(types[0], x) + micros, t.BIGINT)),
    _shifted_sql,
    lambda _, x, micros: f"({x} {'-' if micros.startswith('-') else '+'} {format_micros(abs(int(micros)))})",
    error=_error(0, _shifted_sql),
)  # fmt: skip
