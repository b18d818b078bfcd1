"""Keeps a sensor from asking at every look for a tick that fails each time: each failure in a row doubles the wait."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

SENSOR = "dagster/sensor_name"  # Dagster tags the runs that a sensor asks for with this
LOOKED_AT = 10
LONGEST_SECONDS = 600.0


def held_off(
    instance: dg.DagsterInstance, sensor: str, view: str, interval: float, now: datetime | None = None
) -> str | None:
    """Until when a view is not ticked by this sensor, because its last ticks failed; None if it may be."""
    failures, last = _failures_in_a_row(instance, sensor, view)
    moment = (now or datetime.now(UTC)).timestamp()
    until = last + min(interval * 2**failures, LONGEST_SECONDS)
    if not failures or moment >= until:
        return None
    return (
        f"{view}: {failures} tick(s) in a row failed, the next is tried {datetime.fromtimestamp(until, UTC):%H:%M:%S}"
    )


def _failures_in_a_row(instance: dg.DagsterInstance, sensor: str, view: str) -> tuple[int, float]:
    """How many, and when the last of them ended."""
    count, ended = 0, 0.0
    for record in instance.get_run_records(dg.RunsFilter(tags={SENSOR: sensor}), limit=LOOKED_AT):
        stats = instance.get_run_step_stats(record.dagster_run.run_id, [view])
        if not stats or stats[0].status is None:
            continue
        if stats[0].status.value != "FAILURE":
            break
        count, ended = count + 1, max(ended, record.end_time or stats[0].end_time or 0.0)
    return count, ended
