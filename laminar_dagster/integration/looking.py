"""What schedules and sensors see when they look: runs that go on, and views that have something to do. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from laminar_dagster.engine.due import Views, why_due
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.factory import Factory
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


def tick_what_is_due(
    context: dg.SensorEvaluationContext, factory: Factory, views: Sequence[str]
) -> dg.SkipReason | dg.RunRequest:
    """A run of the views that have something to do and of those that read them, in that order.

    It has no run key: one made of offsets would be refused after a failed tick, and the view would stand still.
    """
    project = factory.located(context.resources if factory.required_keys else None)
    known = Views(factory.plans, project.root, project.data)
    active, now = active_runs(context.instance), from_datetime(datetime.now(UTC))
    due: dict[str, str] = {}
    idle: list[str] = []
    failed: list[LaminarError | StoreError] = []
    for view in views:
        try:
            why = _goes_on(view, active[view]) if view in active else why_due(known, view, now)
        except (LaminarError, StoreError) as error:
            context.log.error(error.render())
            failed.append(error)
            continue
        if why is not None and view not in active:
            due[view] = why
        else:
            idle.append(why or f"{view}: nothing new")
    if due:
        return _requested(factory, known, due, [view for view in views if view not in active])
    if failed:
        raise failed[0]
    return dg.SkipReason("; ".join(idle))


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
