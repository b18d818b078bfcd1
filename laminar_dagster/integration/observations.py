"""Sources as assets that Dagster observes: what they hold, and how far the views that read them have seen time come.

An observation has metadata and no data version: with one, every new version of a source would mark all partitions of
its views as stale.
"""

# No `from __future__ import annotations`: Dagster looks at the type of `context` itself.

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from laminar_dagster.engine.observing import observed, watermark_in
from laminar_dagster.engine.project import Project
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.quiet import beta_accepted
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import Source
from laminar_dagster.semantics.time import SECOND
from state_store import StoreReader

if TYPE_CHECKING:
    from laminar_dagster.integration.view_run import ViewRun


def source_metadata(source: Source, project: Project, plans: Mapping[str, Plan]) -> dict[str, Any]:
    """Version, rows, files, bytes, as far as they are known without Spark, and the watermark that views have seen."""
    readers = [view for view, plan in plans.items() if any(e.source.name == source.name for e in plan.query.inputs)]
    times = [watermark_in(StoreReader(project.store(view)), source.name) for view in readers]
    latest = max((time for time in times if time is not None), default=None)
    watermark = {} if latest is None else {"watermark": dg.MetadataValue.timestamp(latest / SECOND)}
    counts = observed(source, project.root)
    row_count = {"dagster/row_count": counts["rows"]} if "rows" in counts else {}
    return {**counts, **row_count, **watermark}


def log_observations(run: "ViewRun") -> None:
    """After a tick: what the view's own sources hold."""
    sources = {entry.source.name: entry.source for entry in run.plan.query.inputs}
    for name, spec in run.view.sources.items():
        metadata = source_metadata(sources[name], run.project, {run.view.name: run.plan})
        run.context.log_event(dg.AssetObservation(spec.key, metadata=metadata))


def source_asset(
    source: Source, spec: dg.AssetSpec, project: Project, plans: Mapping[str, Plan], resource_key: str
) -> dg.AssetsDefinition:
    """A source as an asset that can be observed; no Spark is started for it."""

    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        resource: LaminarResource = getattr(context.resources, resource_key)
        with shown_in_dagster():
            metadata = source_metadata(source, resource.located(project), plans)
            yield dg.ObserveResult(asset_key=spec.key, metadata=metadata)

    with beta_accepted():
        observable: Callable[..., dg.AssetsDefinition] = dg.multi_observable_source_asset(
            name=f"observe_{source.name}", specs=[spec], required_resource_keys={resource_key}
        )
    return observable(observe)
