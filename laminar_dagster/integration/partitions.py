"""A view's partitions as Dagster's: the same names that the output's `_partition` has."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

import dagster as dg

from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.ranges import joined
from laminar_dagster.semantics.time import from_datetime
from laminar_dagster.semantics.windows import Window

DEFAULT_START = "2020-01-01"
MONDAY = 1


def partitions_of(query: Query) -> dg.TimeWindowPartitionsDefinition | None:
    """Hours, days, weeks or months from `partition_start` up to the current one; None for a view without windows."""
    if query.window is None:
        return None
    zone = query.partition.zone
    start = _first_day(query.labels.get("partition_start", DEFAULT_START), query.partition.unit)
    match query.partition.unit:
        case "hour":
            return dg.HourlyPartitionsDefinition(f"{start}-00:00", timezone=zone, end_offset=1)
        case "week":
            return dg.WeeklyPartitionsDefinition(start, timezone=zone, day_offset=MONDAY, end_offset=1)
        case "month":
            return dg.MonthlyPartitionsDefinition(start, timezone=zone, end_offset=1)
        case _:
            return dg.DailyPartitionsDefinition(start, timezone=zone, end_offset=1)


def _first_day(start: str, unit: str) -> str:
    """The week or month that the start lies in counts as a whole: Dagster would leave it out."""
    day = date.fromisoformat(start)
    whole = {"week": day - timedelta(days=day.weekday()), "month": day.replace(day=1)}
    return whole.get(unit, day).isoformat()


def ranges_of(partitions: dg.TimeWindowPartitionsDefinition, keys: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """The stretches of event time that partitions cover, in microseconds; neighbours are one stretch."""
    bounds = (partitions.time_window_for_partition_key(key) for key in keys)
    stretches = joined(Window(from_datetime(bound.start), from_datetime(bound.end)) for bound in bounds)
    return tuple((stretch.start, stretch.end) for stretch in stretches)
