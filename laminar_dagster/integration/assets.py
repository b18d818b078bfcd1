"""Views as Dagster assets: one multi_asset per view, whose run is a tick, a backfill or a fold-back."""

# No `from __future__ import annotations`: Dagster looks at the types of `context` and `config` itself.

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.config import ViewRunConfig
from laminar_dagster.integration.factory import Factory, Given, factory_of
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.observations import source_asset
from laminar_dagster.integration.translator import SOURCE, ViewAssets


def laminar_assets(project: Project | Path | str | None = None, **given: Unpack[Given]) -> list[dg.AssetsDefinition]:
    """The views of a project as assets, and its sources as observable ones.

    `project`: a project, its directory, or a folder of `.sql` files; by default the working directory's.
    """
    return assets_of(factory_of(project, given))


def assets_of(factory: Factory) -> list[dg.AssetsDefinition]:
    observed = [source for name, source in factory.sources.items() if name not in factory.made_elsewhere]
    sources = [
        source_asset(s, factory.spec(SOURCE, s.name), factory.project, factory.plans, factory.resource_key)
        for s in observed
    ]
    views = [view_asset(view, factory.resource_key) for view in factory.views.values()]
    refused = [refused_asset(name, factory) for name in factory.refused]
    return factory.bound([*sources, *views, *refused])


def refused_asset(name: str, factory: Factory) -> dg.AssetsDefinition:
    """A view that cannot be planned: its run fails with what is wrong, and all others go on."""
    errors = factory.refused[name]
    texts = "\n\n".join(error.render() for error in errors)
    spec = factory.translator.get_refused_spec(name)
    said = spec.replace_attributes(description=f"**Refused.** Its run fails until this is mended:\n\n```\n{texts}\n```")

    @dg.multi_asset(name=name, specs=[said])
    def materialize() -> None:
        raise dg.Failure(description=texts, metadata={"code": errors[0].code}, allow_retries=False)

    return materialize


def view_asset(view: ViewAssets, resource_key: str) -> dg.AssetsDefinition:
    """The parts of one view. A run with partitions is a backfill; one without, a tick or a fold-back."""
    specs: Sequence[dg.AssetSpec] = list(view.parts.values())

    # The pool is a courtesy in the queue; what keeps two runs of a view apart is the store's own fence.
    @dg.multi_asset(
        name=view.name,
        specs=specs,
        can_subset=True,
        pool=view.name,
        backfill_policy=dg.BackfillPolicy.single_run(),
        required_resource_keys={resource_key},
    )
    def materialize(context: dg.AssetExecutionContext, config: ViewRunConfig) -> Iterator[dg.MaterializeResult[None]]:
        # What loads the definitions needs none of the engine, and starts the quicker.
        from laminar_dagster.integration.running import run_asset

        with shown_in_dagster():
            yield from run_asset(context, view, config, getattr(context.resources, resource_key))

    return materialize
