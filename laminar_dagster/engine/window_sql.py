"""Panes and windows as Spark SQL over columns of microseconds. `pmod` floors, also before 1970."""

from __future__ import annotations

from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import DAY
from laminar_dagster.semantics.windows import Calendar, Cumulate, FixedWindow, Hop, Session, Tumble


def fixed_window(query: Query) -> FixedWindow:
    assert query.window is not None
    assert not isinstance(query.window, Session), "planning refuses the windows that are not wired"
    return query.window


def pane_start_sql(window: FixedWindow, time: str) -> str:
    """The start of the pane in which a row is stored."""
    match window:
        case Tumble(size, offset):
            return _floored(time, size, offset)
        case Hop(offset=offset):
            return _floored(time, window.slice, offset)
        case Cumulate(step, size):
            start = _floored(time, size, 0)
            return f"({time} - pmod({time} - {start}, {step}L))"
        case Calendar():
            return _calendar_start(window, time)


def pane_end_sql(window: FixedWindow, start: str) -> str:
    """The end of the pane that begins at `start`."""
    match window:
        case Tumble(size=size):
            return f"({start} + {size}L)"
        case Hop():
            return f"({start} + {window.slice}L)"
        case Cumulate(step=step):
            return f"({start} + {step}L)"
        case Calendar():
            return _calendar_end(window, start)


def first_end_sql(window: FixedWindow, time: str) -> str:
    """The end of the first window that closes of those a row at `time` is in."""
    match window:
        case Hop(slide, size, offset):
            first = _floored(f"({time} - {size}L)", slide, offset)
            return f"({first} + {slide + size}L)"
        case _:
            return pane_end_sql(window, pane_start_sql(window, time))


def last_end_sql(window: FixedWindow, time: str) -> str:
    """The end of the last window that closes of those a row at `time` is in."""
    match window:
        case Hop(slide, size, offset):
            return f"({_floored(time, slide, offset)} + {size}L)"
        case Cumulate(size=size):
            return f"({_floored(time, size, 0)} + {size}L)"
        case _:
            return pane_end_sql(window, pane_start_sql(window, time))


def last_start_sql(window: FixedWindow, time: str) -> str:
    """The start of that last window."""
    match window:
        case Hop(slide, _, offset):
            return _floored(time, slide, offset)
        case Cumulate(size=size):
            return _floored(time, size, 0)
        case _:
            return pane_start_sql(window, time)


def starts_sql(window: FixedWindow, first: str, last: str) -> str:
    """An array of the starts of all windows from the one that begins at `first` to the one that begins at `last`."""
    match window:
        case Tumble(size=size):
            return f"sequence({first}, {last}, {size}L)"
        case Calendar():
            step = f"{window.count} MONTH" if window.unit == "MONTH" else f"{_days(window)} DAY"
            dates = f"sequence({_local_date(window, first)}, {_local_date(window, last)}, INTERVAL {step})"
            # Distinct, because a date that a zone skipped begins when the next one does.
            return f"array_distinct(transform({dates}, d -> {_instant('d', window.zone)}))"
        case _:
            raise AssertionError(f"windows that overlap leave no gaps: {window}")


def _floored(time: str, step: int, offset: int) -> str:
    shifted = f"{time} - {offset}L" if offset else time
    return f"({time} - pmod({shifted}, {step}L))"


def _calendar_start(window: Calendar, time: str) -> str:
    """The calendar's own edge, as the wall clock of the zone sees it."""
    local = f"CAST(from_utc_timestamp(timestamp_micros({time}), '{window.zone}') AS DATE)"
    if window.unit == "MONTH":
        months = f"(year({local}) * 12 + month({local}) - 1)"
        first = f"({months} - pmod({months}, {window.count}))"
        month = f"pmod({first}, 12)"
        return _instant(f"make_date(({first} - {month}) div 12, {month} + 1, 1)", window.zone)
    days = _days(window)
    monday = 4 if window.unit == "WEEK" else 0
    number = f"unix_date({local})"
    return _instant(f"date_from_unix_date({number} - pmod({number} - {monday}, {days}))", window.zone)


def _calendar_end(window: Calendar, start: str) -> str:
    """The edge after `start`."""
    local = _local_date(window, start)
    if window.unit == "MONTH":
        return _instant(f"add_months(trunc({local}, 'MONTH'), {window.count})", window.zone)
    return _instant(f"date_add({local}, {_days(window)})", window.zone)


def _local_date(window: Calendar, start: str) -> str:
    """The date on which a window begins. Half a day is added: where a midnight does not exist, a day begins later."""
    return f"CAST(from_utc_timestamp(timestamp_micros({start} + {DAY // 2}L), '{window.zone}') AS DATE)"


def _days(window: Calendar) -> int:
    return window.count * (7 if window.unit == "WEEK" else 1)


def _instant(date: str, zone: str) -> str:
    return f"unix_micros(to_utc_timestamp(CAST({date} AS TIMESTAMP), '{zone}'))"
