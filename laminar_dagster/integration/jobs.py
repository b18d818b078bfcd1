"""Jobs over views: ticks in the order in which views read each other, and fold-backs of late rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.factory import Factory, Given, factory_of
from laminar_dagster.integration.translator import STATE

MAX_RUNTIME = "dagster/max_runtime"
HOUR_SECONDS = 3600
AssetJob = Any  # what dg.define_asset_job gives; Dagster has no public name for it


def laminar_jobs(
    project: Project | Path | str | None = None,
    *,
    name: str = "laminar",
    max_runtime_seconds: int = HOUR_SECONDS,
    **given: Unpack[Given],
) -> list[AssetJob]:
    """A job that ticks every view, and for each view one that folds late rows back."""
    factory = factory_of(project, given)
    tick = tick_job(factory, f"{name}_tick", None, max_runtime_seconds)
    return [tick, *fold_jobs(factory, max_runtime_seconds)]


def tick_job(factory: Factory, name: str, views: Sequence[str] | None, max_runtime_seconds: int) -> AssetJob:
    chosen = factory.chosen(views)
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*(factory.key(STATE, view) for view in chosen)),
        description=f"Ticks {', '.join(f'`{view}`' for view in chosen)}: takes what is new, closes what is due.",
        tags=_bounded(max_runtime_seconds),
        executor_def=dg.in_process_executor,
    )


def fold_jobs(factory: Factory, max_runtime_seconds: int) -> list[AssetJob]:
    """For each view a job that puts late rows into their windows; which rows, its configuration says."""
    return [
        dg.define_asset_job(
            f"fold_late_rows_of_{view}",
            selection=dg.AssetSelection.assets(factory.key(STATE, view)),
            description=f"Puts late rows of `{view}` into their windows and publishes the corrections.",
            config={"ops": {view: {"config": {"fold_late": {"where": None}}}}},
            tags=_bounded(max_runtime_seconds),
            executor_def=dg.in_process_executor,
        )
        for view in factory.plans
    ]


def _bounded(seconds: int) -> dict[str, str]:
    """A run whose process, daemon and code server were all killed would hold its pool for ever."""
    return {MAX_RUNTIME: str(seconds)}
