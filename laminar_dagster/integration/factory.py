"""A project as Dagster is shown it: what every public factory of this package begins with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.resource import LaminarResource, key_of, shared
from laminar_dagster.integration.translator import (
    SOURCE,
    VIEW_PARTS,
    LaminarAsset,
    LaminarTranslator,
    ViewAssets,
)
from laminar_dagster.plan.build import Planned
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Source

DEFAULT_RESOURCE = LaminarResource()
Asset = TypeVar("Asset", bound=dg.AssetsDefinition)


class Given(TypedDict, total=False):
    """What every factory takes besides the project.

    `sql`: the text itself, in place of files. `resource`: a LaminarResource, or the key of one in the Definitions.
    `made_elsewhere`: sources that are assets of your own, under the same key.
    """

    sql: str | None
    translator: LaminarTranslator | None
    resource: LaminarResource | str | None
    made_elsewhere: Collection[str]


def factory_of(project: Project | Path | str | None, given: Given) -> Factory:
    """`project`: a project, its directory, a folder of `.sql` files or one file; by default the working directory's."""
    found = project if isinstance(project, Project) else Project.find(None if project is None else Path(project))
    sql = given.get("sql")
    return Factory(
        found if sql is None else replace(found, text=sql),
        given.get("translator") or LaminarTranslator(),
        shared(given.get("resource") or DEFAULT_RESOURCE),
        given.get("made_elsewhere", ()),
    )


def _as_name(name: str) -> str:
    """What is refused, under a name that an asset may have: a file's name has signs that it may not."""
    return re.sub(r"\W", "_", name)


@dataclass(frozen=True)
class Factory:
    project: Project
    translator: LaminarTranslator
    resource: LaminarResource | str
    made_elsewhere: Collection[str] = ()

    @cached_property
    def _planned(self) -> Planned:
        return self.project.planned()

    @cached_property
    def plans(self) -> dict[str, Plan]:
        """The views that can run, those that others read before these."""
        return {plan.query.view: plan for plan in self._planned.plans}

    @cached_property
    def refused(self) -> dict[str, Sequence[LaminarError]]:
        """What cannot be planned, views and whole files, with all that is wrong: shown as assets that fail."""
        return {_as_name(name): errors for name, errors in self._planned.refused.items()}

    @cached_property
    def sources(self) -> dict[str, Source]:
        inputs = (entry.source for plan in self.plans.values() for entry in plan.query.inputs)
        return {source.name: source for source in inputs if source.connector != VIEW_CONNECTOR}

    @cached_property
    def views(self) -> dict[str, ViewAssets]:
        return {view: self._view(plan) for view, plan in self.plans.items()}

    def _view(self, plan: Plan) -> ViewAssets:
        read = dict.fromkeys(entry.source.name for entry in plan.query.inputs)
        return ViewAssets(
            plan,
            self.project,
            {part: self.spec(part, plan.query.view) for part in VIEW_PARTS},
            {name: self.spec(SOURCE, name) for name in read if name in self.sources},
        )

    def spec(self, part: str, name: str) -> dg.AssetSpec:
        return self.translator.get_asset_spec(LaminarAsset(part, name, self.project, self.plans))

    def key(self, part: str, view: str) -> dg.AssetKey:
        """The key of a part of a view; of one that is refused, that of the asset that says so."""
        return self.translator.get_refused_spec(view).key if view in self.refused else self.views[view].parts[part].key

    def chosen(self, views: Sequence[str] | None) -> list[str]:
        """These views, or all, in the order in which they read each other; then those that are refused."""
        for view in set(views or ()) - {*self.plans, *self.refused}:
            self.project.plan(view)  # says that there is none
        return [view for view in (*self.plans, *self.refused) if views is None or view in views]

    @property
    def resource_key(self) -> str:
        return self.resource if isinstance(self.resource, str) else key_of(self.resource)

    def bound(self, made: Iterable[Asset]) -> list[Asset]:
        """The definitions with the resource at hand; one that is named by its key comes from the Definitions."""
        if isinstance(self.resource, str):
            return list(made)
        return list(dg.with_resources(made, {self.resource_key: self.resource}))

    @property
    def wired(self) -> dict[str, Any]:
        """The resource as an argument of a decorator of asset checks, for which `bound` would make plain assets."""
        if isinstance(self.resource, str):
            return {"required_resource_keys": {self.resource}}
        return {"resource_defs": {self.resource_key: self.resource}}

    @property
    def required_keys(self) -> set[str]:
        """What a schedule or sensor needs from the Definitions."""
        return {self.resource} if isinstance(self.resource, str) else set()

    def located(self, resources: Any) -> Project:
        """The project with its data where the resource says, for a schedule or sensor."""
        if isinstance(self.resource, str):
            resource: LaminarResource = getattr(resources, self.resource)
        else:
            resource = self.resource.process_config_and_initialize()
        return resource.located(self.project)
