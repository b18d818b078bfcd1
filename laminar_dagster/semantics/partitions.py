"""Partitions of results by event time: which one a moment is in, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from laminar_dagster.semantics.time import to_datetime
from laminar_dagster.semantics.windows import Calendar, WindowKind

UTC_ZONE = "UTC"
HOURLY = "hour"
NAMES = {"hour": "%Y-%m-%d-%H:00", "day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m-01"}


@dataclass(frozen=True)
class Partitioning:
    """Hours, days, weeks (from Monday) or months, as the clocks of `zone` have them. Hours are always those of UTC."""

    unit: str = "day"
    zone: str = UTC_ZONE

    def name_of(self, moment: int) -> str:
        """The partition that a moment is in, by the name of its first hour or day."""
        local = self._local(moment)
        if self.unit == "week":
            local -= timedelta(days=local.weekday())
        return local.strftime(NAMES[self.unit])

    def _local(self, moment: int) -> datetime:
        utc = to_datetime(moment)
        return utc if self.zone == UTC_ZONE else utc.astimezone(ZoneInfo(self.zone))

    def __str__(self) -> str:
        return self.unit if self.zone == UTC_ZONE else f"{self.unit} in {self.zone}"


def partitioning_of(unit: str, window: WindowKind | None, zone: str | None = None) -> Partitioning:
    """The zone that the view names, else the one of its calendar windows, else UTC."""
    own = window.zone if isinstance(window, Calendar) else UTC_ZONE
    return Partitioning(unit, UTC_ZONE if unit == HOURLY else zone or own)
