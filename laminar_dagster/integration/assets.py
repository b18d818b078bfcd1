"""Views as Dagster assets: one multi_asset per view, whose run is a tick, a backfill or a fold-back."""

# No `from __future__ import annotations`: Dagster looks at the types of `context` and `config` itself.

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.config import ViewRunConfig
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.observations import source_asset
from laminar_dagster.integration.resource import RESOURCE_KEY, LaminarResource
from laminar_dagster.integration.translator import (
    SOURCE,
    STATE,
    VIEW_PARTS,
    LaminarAsset,
    LaminarTranslator,
    ViewAssets,
)
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Source

# One object for all: two calls with resources of their own under one key would be in conflict.
DEFAULT_RESOURCE = LaminarResource()
AssetJob = Any  # what dg.define_asset_job gives; Dagster has no public name for it


def laminar_assets(
    project: Project | Path | str | None = None,
    *,
    sql: str | None = None,
    translator: LaminarTranslator | None = None,
    resource: LaminarResource | str | None = None,
    made_elsewhere: Collection[str] = (),
) -> list[dg.AssetsDefinition]:
    """The views of a project as assets, and its sources as observable ones.

    `project`: a project, its directory, or a folder of `.sql` files; by default the working directory's. `sql`: the
    text itself, in place of files. `resource`: a LaminarResource, or the key of one in the Definitions.
    `made_elsewhere`: sources that are assets of your own, under the same key.
    """
    return _factory(project, sql, translator, resource, made_elsewhere).assets()


def laminar_definitions(
    project: Project | Path | str | None = None,
    *,
    sql: str | None = None,
    translator: LaminarTranslator | None = None,
    resource: LaminarResource | str | None = None,
    made_elsewhere: Collection[str] = (),
) -> dg.Definitions:
    """The assets, and for each view a job that folds late rows back. Runs share one process, so one JVM."""
    factory = _factory(project, sql, translator, resource, made_elsewhere)
    return dg.Definitions(assets=factory.assets(), jobs=factory.jobs(), executor=dg.in_process_executor)


def laminar_jobs(
    project: Project | Path | str | None = None, *, sql: str | None = None, translator: LaminarTranslator | None = None
) -> list[AssetJob]:
    """For each view a job that folds late rows back; which rows, its configuration says."""
    return _factory(project, sql, translator, None, ()).jobs()


def _factory(
    project: Project | Path | str | None,
    sql: str | None,
    translator: LaminarTranslator | None,
    resource: LaminarResource | str | None,
    made_elsewhere: Collection[str],
) -> "AssetFactory":
    found = project if isinstance(project, Project) else _project_at(None if project is None else Path(project))
    chosen = found if sql is None else replace(found, text=sql)
    return AssetFactory(chosen, translator or LaminarTranslator(), resource or DEFAULT_RESOURCE, made_elsewhere)


def _project_at(location: Path | None) -> Project:
    """The project that a directory belongs to. One that holds `.sql` files is itself where its SQL is."""
    found = Project.find(location)
    holds_sql = location is not None and any(location.glob("*.sql"))
    return replace(found, sql=location.resolve()) if location is not None and holds_sql else found


@dataclass(frozen=True)
class AssetFactory:
    project: Project
    translator: LaminarTranslator
    resource: LaminarResource | str
    made_elsewhere: Collection[str]

    @cached_property
    def plans(self) -> dict[str, Plan]:
        return {plan.query.view: plan for plan in self.project.plans()}

    @cached_property
    def sources(self) -> dict[str, Source]:
        inputs = (entry.source for plan in self.plans.values() for entry in plan.query.inputs)
        return {source.name: source for source in inputs if source.connector != VIEW_CONNECTOR}

    @property
    def _key(self) -> str:
        return self.resource if isinstance(self.resource, str) else RESOURCE_KEY

    def assets(self) -> list[dg.AssetsDefinition]:
        observed = [source for name, source in self.sources.items() if name not in self.made_elsewhere]
        made = [
            *(source_asset(s, self._spec(SOURCE, s.name), self.project, self.plans, self._key) for s in observed),
            *(self._view(plan) for plan in self.plans.values()),
        ]
        if isinstance(self.resource, str):
            return made
        return list(dg.with_resources(made, {RESOURCE_KEY: self.resource}))

    def jobs(self) -> list[AssetJob]:
        return [
            dg.define_asset_job(
                f"fold_late_rows_of_{view}",
                selection=dg.AssetSelection.assets(self._spec(STATE, view).key),
                description=f"Puts late rows of `{view}` into their windows and publishes the corrections.",
                config={"ops": {view: {"config": {"fold_late": {"where": None}}}}},
            )
            for view in self.plans
        ]

    def _spec(self, part: str, name: str) -> dg.AssetSpec:
        return self.translator.get_asset_spec(LaminarAsset(part, name, self.project, self.plans))

    def _view(self, plan: Plan) -> dg.AssetsDefinition:
        view = plan.query.view
        read = dict.fromkeys(entry.source.name for entry in plan.query.inputs)
        return view_asset(
            ViewAssets(
                plan,
                self.project,
                {part: self._spec(part, view) for part in VIEW_PARTS},
                {name: self._spec(SOURCE, name) for name in read if name in self.sources},
            ),
            self._key,
        )


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
