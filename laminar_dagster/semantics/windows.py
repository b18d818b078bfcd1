"""Which windows a row belongs to: `assign` for fixed windows, merging for sessions. All half-open, [start, end).

A row is stored once, in its `pane`: the widest stretch of time that no window's edge cuts. `windows_of` a pane are
those that contain it; they merge their panes when they are emitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from laminar_dagster.semantics.time import (
    CYCLE,
    CYCLE_YEARS,
    DAY,
    HOUR,
    format_micros,
    from_datetime,
    in_calendar,
)

_1970 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, order=True)
class Window:
    start: int
    end: int


def floor_to(t: int, step: int, offset: int) -> int:
    """`floor((t - offset) / step) * step + offset`: floor, not truncation, also before 1970."""
    return (t - offset) // step * step + offset


@dataclass(frozen=True)
class Tumble:
    """`[floor_to(t, size), + size)`: each row is in exactly one window."""

    size: int
    offset: int = 0

    def assign(self, t: int) -> tuple[Window, ...]:
        start = floor_to(t, self.size, self.offset)
        return (Window(start, start + self.size),)

    def pane(self, t: int) -> Window:
        return self.assign(t)[0]

    def windows_of(self, pane: Window) -> tuple[Window, ...]:
        return (pane,)

    def __str__(self) -> str:
        shifted = f", offset {format_micros(self.offset)}" if self.offset else ""
        return f"TUMBLE(size {format_micros(self.size)}{shifted})"


@dataclass(frozen=True)
class Hop:
    """Every window with `start` on the slide's grid and `start <= t < start + size`.

    A slide longer than the size leaves gaps: a time in one of them is in no window.
    """

    slide: int
    size: int
    offset: int = 0

    def assign(self, t: int) -> tuple[Window, ...]:
        last = floor_to(t, self.slide, self.offset)
        first = floor_to(t - self.size, self.slide, self.offset) + self.slide
        return tuple(Window(s, s + self.size) for s in range(first, last + 1, self.slide))

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size

    @property
    def slice(self) -> int:
        """The widest step at whose multiples all windows start and end."""
        return math.gcd(self.slide, self.size)

    def pane(self, t: int) -> Window:
        start = floor_to(t, self.slice, self.offset)
        return Window(start, start + self.slice)

    def windows_of(self, pane: Window) -> tuple[Window, ...]:
        return self.assign(pane.start)

    def __str__(self) -> str:
        shifted = f", offset {format_micros(self.offset)}" if self.offset else ""
        return f"HOP(slide {format_micros(self.slide)}, size {format_micros(self.size)}{shifted})"


@dataclass(frozen=True)
class Cumulate:
    """Windows that share a start and end at each step up to `size`."""

    step: int
    size: int

    def assign(self, t: int) -> tuple[Window, ...]:
        start = floor_to(t, self.size, 0)
        first_end = floor_to(t, self.step, start) + self.step
        return tuple(Window(start, end) for end in range(first_end, start + self.size + 1, self.step))

    def pane(self, t: int) -> Window:
        start = floor_to(t, self.step, floor_to(t, self.size, 0))
        return Window(start, start + self.step)

    def windows_of(self, pane: Window) -> tuple[Window, ...]:
        return self.assign(pane.start)

    def __str__(self) -> str:
        return f"CUMULATE(step {format_micros(self.step)}, size {format_micros(self.size)})"


@dataclass(frozen=True)
class Calendar:
    """A number of months, weeks or days as the calendar of `zone` counts them, daylight saving included."""

    unit: str
    count: int
    zone: str

    def assign(self, t: int) -> tuple[Window, ...]:
        moment, cycles = in_calendar(t)
        local = moment.astimezone(ZoneInfo(self.zone))
        start, end = self._bounds(local.date(), cycles)
        return (Window(self._instant(start), self._instant(end)),)

    def pane(self, t: int) -> Window:
        return self.assign(t)[0]

    def windows_of(self, pane: Window) -> tuple[Window, ...]:
        return (pane,)

    def _bounds(self, local: date, cycles: int) -> tuple[int, int]:
        """The dates, as days since 1970, between which a date lies that is so many cycles after `local`."""
        if self.unit == "MONTH":
            months = ((local.year + cycles * CYCLE_YEARS) * 12 + local.month - 1) // self.count * self.count
            return _month(months), _month(months + self.count)
        days, monday = self.count * (7 if self.unit == "WEEK" else 1), 4 if self.unit == "WEEK" else 0
        start = floor_to(local.toordinal() - _1970 + cycles * CYCLE // DAY, days, monday)
        return start, start + days

    def _instant(self, day: int) -> int:
        """When the clocks of `zone` show the midnight that a date begins with."""
        wall, cycles = in_calendar(day * DAY)
        return from_datetime(wall.replace(tzinfo=ZoneInfo(self.zone))) + cycles * CYCLE

    def __str__(self) -> str:
        return f"TUMBLE({self.count} calendar {self.unit.lower()}, {self.zone})"


def _month(number: int) -> int:
    """The first day of a month, as days since 1970; months are counted from the year 0."""
    cycles, year = divmod(number // 12, CYCLE_YEARS)
    return date(year + CYCLE_YEARS, number % 12 + 1, 1).toordinal() - _1970 + (cycles - 1) * CYCLE // DAY


@dataclass(frozen=True)
class Session:
    """`[first, last + gap)` over rows of one key; rows exactly `gap` apart are one session."""

    gap: int

    def assign(self, t: int) -> tuple[Window, ...]:
        return (Window(t, t + self.gap),)

    def pane(self, t: int) -> Window:
        return Window(t, t + self.gap)

    def merge(self, windows: list[Window]) -> list[Window]:
        """The sessions that result when windows that overlap or touch become one."""
        merged: list[Window] = []
        for window in sorted(windows):
            if merged and window.start <= merged[-1].end:
                merged[-1] = Window(merged[-1].start, max(merged[-1].end, window.end))
            else:
                merged.append(window)
        return merged

    def __str__(self) -> str:
        return f"SESSION(gap {format_micros(self.gap)})"


FixedWindow = Tumble | Hop | Cumulate | Calendar
WindowKind = FixedWindow | Session


def has_gaps(kind: WindowKind | None) -> bool:
    """Whether a time may be in no window."""
    return isinstance(kind, Hop) and kind.has_gaps


def first_window(kind: WindowKind, t: int) -> Window:
    """The first to begin of the windows that times from `t` on are in."""
    if isinstance(kind, Hop):
        start = floor_to(t - kind.size, kind.slide, kind.offset) + kind.slide
        return Window(start, start + kind.size)
    return min(kind.assign(t))


def last_window(kind: WindowKind, t: int) -> Window:
    """The last to begin of the windows that times up to `t` are in; the longest of these."""
    if isinstance(kind, Hop):
        start = floor_to(t, kind.slide, kind.offset)
        return Window(start, start + kind.size)
    return max(kind.assign(t))


def longest_window(kind: WindowKind | None) -> int | None:
    """No window is longer than this; None for sessions, which have no bound. A calendar's may gain an hour."""
    match kind:
        case Tumble(size=size) | Hop(size=size) | Cumulate(size=size):
            return size
        case Calendar(unit, count):
            return count * {"DAY": 1, "WEEK": 7, "MONTH": 31}[unit] * DAY + HOUR
        case _:
            return None
