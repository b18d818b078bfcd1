"""What runs by itself: a schedule that ticks, a sensor that ticks what has something to do, and upkeep."""

# No `from __future__ import annotations`: Dagster and pydantic look at the types themselves.

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import dagster as dg
from pydantic import Field

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.factory import Factory, Given, factory_of
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.jobs import HOUR_SECONDS, AssetJob, tick_job
from laminar_dagster.integration.maintenance import maintenance_asset

FLOOR_SECONDS = 5  # the daemon looks no more often
EVERY_FIVE_MINUTES = "*/5 * * * *"
AT_NIGHT = "0 3 * * *"
SensorAnswer = dg.SkipReason | dg.RunRequest


class Automation(dg.Model, dg.Resolvable):
    """What runs by itself. What is left out does not; jobs and buttons are there all the same."""

    name: str = Field(default="laminar", description="What the names of jobs, schedules and sensors begin with.")
    schedule: str | None = Field(default=None, description="When to tick all views, as cron has it.")
    sensor_seconds: int | None = Field(
        default=None,
        ge=FLOOR_SECONDS,
        description="How often to look which views have something to do, and tick these.",
    )
    maintenance: str | None = Field(default=None, description="When to merge and delete files, as cron has it.")
    time_zone: str = Field(default="UTC", description="Whose clock cron goes by.")
    max_runtime_seconds: int = Field(default=HOUR_SECONDS, ge=1, description="A run that takes longer is ended.")
    running: bool = Field(default=False, description="Whether schedules and sensors are on from the start.")


def laminar_schedule(
    project: Project | Path | str | None = None,
    *,
    cron: str = EVERY_FIVE_MINUTES,
    views: Sequence[str] | None = None,
    name: str = "laminar_schedule",
    time_zone: str = "UTC",
    max_runtime_seconds: int = HOUR_SECONDS,
    running: bool = False,
    **given: Unpack[Given],
) -> dg.ScheduleDefinition:
    """Ticks views (default: all) at the times that cron says; not while an earlier tick of theirs goes on."""
    factory = factory_of(project, given)
    job = tick_job(factory, f"{name}_tick", views, max_runtime_seconds)
    policy = Automation(schedule=cron, time_zone=time_zone, running=running)
    return schedule_of(name, job, factory.chosen(views), policy)


def laminar_sensor(
    project: Project | Path | str | None = None,
    *,
    views: Sequence[str] | None = None,
    name: str = "laminar_sensor",
    minimum_interval_seconds: int = 30,
    max_runtime_seconds: int = HOUR_SECONDS,
    running: bool = False,
    **given: Unpack[Given],
) -> dg.SensorDefinition:
    """Ticks those views (default: of all) that have something to do, and the views that read them."""
    factory = factory_of(project, given)
    job = tick_job(factory, f"{name}_tick", views, max_runtime_seconds)
    policy = Automation(sensor_seconds=max(minimum_interval_seconds, FLOOR_SECONDS), running=running)
    return sensor_of(factory, name, job, factory.chosen(views), policy)


def laminar_maintenance(
    project: Project | Path | str | None = None, *, name: str = "laminar_maintenance", **given: Unpack[Given]
) -> dg.AssetsDefinition:
    """An asset whose materialization merges small files of every view and deletes what is no longer retained."""
    return maintenance_asset(factory_of(project, given), name)


def laminar_maintenance_schedule(
    name: str = "laminar_maintenance", *, cron: str = AT_NIGHT, time_zone: str = "UTC", running: bool = False
) -> dg.ScheduleDefinition:
    """Materializes the asset that `laminar_maintenance` made under this name."""
    job = dg.define_asset_job(
        f"{name}_job", selection=dg.AssetSelection.assets(name), executor_def=dg.in_process_executor
    )
    return dg.ScheduleDefinition(
        name=f"{name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone=time_zone,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
    )


def automated(factory: Factory, job: AssetJob, policy: Automation) -> dg.Definitions:
    """The schedules and sensors that a policy asks for, over the project's own tick job."""
    views = factory.chosen(None)
    schedules: list[dg.ScheduleDefinition] = []
    sensors: list[dg.SensorDefinition] = []
    if policy.schedule is not None:
        schedules.append(schedule_of(f"{policy.name}_schedule", job, views, policy))
    if policy.sensor_seconds is not None:
        sensors.append(sensor_of(factory, f"{policy.name}_sensor", job, views, policy))
    if policy.maintenance is not None:
        schedules.append(
            laminar_maintenance_schedule(
                f"{policy.name}_maintenance",
                cron=policy.maintenance,
                time_zone=policy.time_zone,
                running=policy.running,
            )
        )
    return dg.Definitions(schedules=schedules, sensors=sensors)


def schedule_of(name: str, job: AssetJob, views: Sequence[str], policy: Automation) -> dg.ScheduleDefinition:
    def evaluate(context: dg.ScheduleEvaluationContext) -> SensorAnswer:
        from laminar_dagster.integration.looking import tick_unless_active

        return tick_unless_active(context.instance, views)

    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=policy.schedule or EVERY_FIVE_MINUTES,
        execution_timezone=policy.time_zone,
        execution_fn=evaluate,
        description=f"Ticks {', '.join(views)}.",
        default_status=dg.DefaultScheduleStatus.RUNNING if policy.running else dg.DefaultScheduleStatus.STOPPED,
    )


def sensor_of(
    factory: Factory, name: str, job: AssetJob, views: Sequence[str], policy: Automation
) -> dg.SensorDefinition:
    can_run = [view for view in views if view not in factory.refused]

    def evaluate(context: dg.SensorEvaluationContext) -> SensorAnswer:
        from laminar_dagster.integration.looking import tick_what_is_due

        with shown_in_dagster():
            for view in views if not can_run else ():
                raise factory.refused[view][0]
            return tick_what_is_due(context, factory, can_run, name, policy.sensor_seconds or FLOOR_SECONDS)

    return dg.SensorDefinition(
        name=name,
        job=job,
        evaluation_fn=evaluate,
        minimum_interval_seconds=policy.sensor_seconds,
        required_resource_keys=factory.required_keys,
        description=f"Looks, without Spark, which of {', '.join(views)} have something to do, and ticks these.",
        default_status=dg.DefaultSensorStatus.RUNNING if policy.running else dg.DefaultSensorStatus.STOPPED,
    )
