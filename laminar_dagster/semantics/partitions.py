"""Partitions of results by event time: which one a moment is in, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from laminar_dagster.semantics.time import CYCLE_YEARS, in_calendar, year_text
from laminar_dagster.semantics.windows import Calendar, WindowKind

UTC_ZONE = "UTC"
HOURLY = "hour"
NAMES = {"hour": "-%m-%d-%H:00", "day": "-%m-%d", "week": "-%m-%d", "month": "-%m-01"}  # after the year


def in_time(name: str) -> tuple[int, str]:
    """What names of partitions are in order of time by: text alone has years with a sign in another."""
    year, _, rest = name[1:].partition("-")
    return (int(name[0] + year), rest) if name else (0, "")


@dataclass(frozen=True)
class Partitioning:
    """Hours, days, weeks (from Monday) or months, as the clocks of `zone` have them. Hours are always those of UTC."""

    unit: str = "day"
    zone: str = UTC_ZONE

    def name_of(self, moment: int) -> str:
        """The partition that a moment is in, by the name of its first hour or day."""
        utc, cycles = in_calendar(moment)
        local = utc if self.zone == UTC_ZONE else utc.astimezone(ZoneInfo(self.zone))
        if self.unit == "week":
            local -= timedelta(days=local.weekday())
        return year_text(local.year + cycles * CYCLE_YEARS) + local.strftime(NAMES[self.unit])

    def __str__(self) -> str:
        return self.unit if self.zone == UTC_ZONE else f"{self.unit} in {self.zone}"


def partitioning_of(unit: str, window: WindowKind | None, zone: str | None = None) -> Partitioning:
    """The zone that the view names, else the one of its calendar windows, else UTC."""
    own = window.zone if isinstance(window, Calendar) else UTC_ZONE
    return Partitioning(unit, UTC_ZONE if unit == HOURLY else zone or own)
