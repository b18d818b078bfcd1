"""Upkeep as an asset: small files merged, and those deleted that no retained epoch needs. No Spark."""

# No `from __future__ import annotations`: Dagster looks at the type of `context` itself.

from typing import Any

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.factory import Factory
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.plan.plan import Plan

DESCRIPTION = (
    "Merges small files of every view, folds old history and deletes what no retained epoch needs. Ticks do the same, "
    "a little after each epoch; this does all of it at once. A view that is being run is left for the next time."
)
TOTALLED = ("files merged", "files deleted", "files", "bytes")
COLUMNS = ("view", "files merged", "files deleted", "readable from epoch", "files", "bytes")


def maintenance_asset(factory: Factory, name: str) -> dg.AssetsDefinition:
    @dg.asset(
        name=name,
        group_name="maintenance",
        kinds={"deltalake"},
        description=DESCRIPTION,
        pool=name,
        required_resource_keys={factory.resource_key},
    )
    def maintain(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        project: Project = getattr(context.resources, factory.resource_key).located(factory.project)
        with shown_in_dagster():
            rows, refused = _all_maintained(context, list(factory.plans.values()), project)
            if refused is not None:
                raise refused
        return dg.MaterializeResult(metadata=_metadata(rows))

    (bound,) = factory.bound([maintain])
    return bound


def _all_maintained(
    context: dg.AssetExecutionContext, plans: list[Plan], project: Project
) -> tuple[list[dict[str, Any]], LaminarError | None]:
    """A view whose SQL was changed does not keep the others from being maintained; its error is given at the end."""
    rows: list[dict[str, Any]] = []
    refused: LaminarError | None = None
    for plan in plans:
        try:
            rows.append(_maintained(context, plan, project))
        except LaminarError as error:
            context.log.error(error.render())
            refused = refused or error
    return rows, refused


def _maintained(context: dg.AssetExecutionContext, plan: Plan, project: Project) -> dict[str, Any]:
    from laminar_dagster.engine.maintenance import maintain_view
    from state_store import StoreBusyError, StoreReader

    view = plan.query.view
    try:
        done = maintain_view(plan, project.store(view), project.maintenance)
    except StoreBusyError:
        context.log.warning(f"{view} is being run, and is left for the next time")
        return dict.fromkeys(COLUMNS, 0) | {"view": view, "busy": 1}
    if done is None:
        context.log.info(f"{view}: no epoch yet")
        return dict.fromkeys(COLUMNS, 0) | {"view": view}
    sizes = StoreReader(project.store(view)).sizes().values()
    context.log.info(f"{view}: {done.merged} files merged, {done.deleted} deleted")
    return {
        "view": view,
        "files merged": done.merged,
        "files deleted": done.deleted,
        "readable from epoch": done.oldest_epoch,
        "files": sum(size["disk_files"] for size in sizes),
        "bytes": sum(size["disk_bytes"] for size in sizes),
    }


def _metadata(rows: list[dict[str, Any]]) -> dict[str, Any]:
    from laminar_dagster.integration.summary import markdown_table

    shown = [{name: str(row[name]) for name in COLUMNS} for row in rows]
    totals = {name.replace(" ", "_"): sum(row[name] for row in rows) for name in COLUMNS if name in TOTALLED}
    busy = sum(row.get("busy", 0) for row in rows)
    return {**totals, "views_left_out": busy, "views": dg.MetadataValue.md(markdown_table(shown))}
