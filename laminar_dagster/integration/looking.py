"""What schedules and sensors see when they look: runs that go on, and views that have something to do. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from laminar_dagster.engine.due import Views, why_due
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.factory import Factory
from laminar_dagster.integration.holding_off import held_off
from laminar_dagster.integration.translator import STATE
from laminar_dagster.semantics.time import from_datetime
from state_store import StoreError

DUE = "laminar/due"
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def active_runs(instance: dg.DagsterInstance) -> dict[str, str]:
    """For each step that a run has before it or is at, that run. A view's step has the view's name."""
    found: dict[str, str] = {}
    for run in instance.get_runs(dg.RunsFilter(statuses=ACTIVE)):
        found |= dict.fromkeys(steps_of(instance, run), run.run_id)
    return found


def steps_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Sequence[str]:
    if run.step_keys_to_execute is not None:
        return list(run.step_keys_to_execute)
    if run.execution_plan_snapshot_id is None:
        return []
    return list(instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id).step_keys_to_execute)


def tick_unless_active(instance: dg.DagsterInstance, views: Sequence[str]) -> dg.SkipReason | dg.RunRequest:
    """Ticks do not pile up behind one that takes long: the next one takes what this one missed."""
    active = active_runs(instance)
    going = [_goes_on(view, active[view]) for view in views if view in active]
    return dg.SkipReason("; ".join(going)) if going else dg.RunRequest()


@dataclass(frozen=True)
class Seen:
    """A view at one look: why it is due, or why it is left. `follows`: it may be ticked after one that it reads."""

    why: str | None = None
    left: str = ""
    follows: bool = True
    error: LaminarError | StoreError | None = None


@dataclass(frozen=True)
class Look:
    """One look of a sensor at the views of a project."""

    context: dg.SensorEvaluationContext
    sensor: str
    interval: float
    known: Views
    active: Mapping[str, str]
    now: int

    def at(self, view: str) -> Seen:
        if view in self.active:
            return Seen(left=_goes_on(view, self.active[view]), follows=False)
        try:
            why = why_due(self.known, view, self.now)
        except (LaminarError, StoreError) as error:
            self.context.log.error(error.render())
            return Seen(error=error, follows=False)
        if why is None:
            return Seen(left=f"{view}: nothing new")
        held = held_off(self.context.instance, self.sensor, view, self.interval)
        return Seen(why) if held is None else Seen(left=held, follows=False)


def tick_what_is_due(
    context: dg.SensorEvaluationContext, factory: Factory, views: Sequence[str], sensor: str, interval: float
) -> dg.SkipReason | dg.RunRequest:
    """A run of the views that have something to do and of those that read them, in that order.

    It has no run key: one made of offsets would be refused after a failed tick, and the view would stand still.
    """
    project = factory.located(context.resources if factory.required_keys else None)
    known = Views(factory.plans, project.root, project.data)
    now = from_datetime(datetime.now(UTC))
    look = Look(context, sensor, interval, known, active_runs(context.instance), now)
    seen = {view: look.at(view) for view in views}
    due = {view: found.why for view, found in seen.items() if found.why is not None}
    if due:
        return _requested(factory, known, due, [view for view, found in seen.items() if found.follows])
    for found in seen.values():
        if found.error is not None:
            raise found.error
    return dg.SkipReason("; ".join(found.left for found in seen.values()))


def _goes_on(view: str, run_id: str) -> str:
    return f"{view}: run {run_id[:8]} is queued or active"


def _requested(factory: Factory, known: Views, due: dict[str, str], free: Sequence[str]) -> dg.RunRequest:
    wanted = set(due)
    for view in factory.plans:
        if view in wanted:
            wanted |= {query.view for query in known.readers_of(view)}
    return dg.RunRequest(
        asset_selection=[factory.key(STATE, view) for view in free if view in wanted],
        tags={DUE: "; ".join(f"{view}: {why}" for view, why in due.items())},
    )
