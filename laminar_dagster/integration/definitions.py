"""All that Dagster shows of a project, in one call: assets, checks, jobs, upkeep, and what runs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.assets import assets_of
from laminar_dagster.integration.automation import Automation, automated
from laminar_dagster.integration.checks import Checks, checks_of
from laminar_dagster.integration.factory import Given, factory_of
from laminar_dagster.integration.jobs import fold_jobs, tick_job
from laminar_dagster.integration.maintenance import maintenance_asset


def laminar_definitions(
    project: Project | Path | str | None = None,
    *,
    automation: Automation | None = None,
    checks: Checks | None = None,
    **given: Unpack[Given],
) -> dg.Definitions:
    """Assets and their checks, a job that ticks, jobs that fold late rows back, and upkeep.

    Runs share one process, so one JVM. `automation` says what runs by itself, `checks` what is looked at after a tick.
    """
    factory, policy = factory_of(project, given), automation or Automation()
    tick = tick_job(factory, f"{policy.name}_tick", None, policy.max_runtime_seconds)
    shown = dg.Definitions(
        assets=[*assets_of(factory), maintenance_asset(factory, f"{policy.name}_maintenance")],
        asset_checks=checks_of(factory, checks or Checks()),
        jobs=[tick, *fold_jobs(factory, policy.max_runtime_seconds)],
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(shown, automated(factory, tick, policy))
