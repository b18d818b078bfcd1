"""One run of a view in Dagster: which asset is which part of it, what is selected, and where its data lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions
from laminar_dagster.integration.config import ViewRunConfig
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.plan.plan import Plan
from state_store import StoreReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Results = Iterator[dg.MaterializeResult[None]]


@dataclass(frozen=True)
class ViewAssets:
    """A view and the specs of its parts, by name, as the translator gave them; and those of the sources it reads."""

    plan: Plan
    project: Project
    parts: Mapping[str, dg.AssetSpec]
    sources: Mapping[str, dg.AssetSpec] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.plan.query.view


@dataclass(frozen=True)
class ViewRun:
    context: dg.AssetExecutionContext
    view: ViewAssets
    config: ViewRunConfig
    resource: LaminarResource

    @cached_property
    def project(self) -> Project:
        return self.resource.located(self.view.project)

    @cached_property
    def session(self) -> SparkSession:
        return self.resource.open_session(self.project)

    @property
    def plan(self) -> Plan:
        return self.view.plan

    def reader(self) -> StoreReader:
        """The view's store as it is now."""
        return StoreReader(self.project.store(self.view.name))

    def selects(self, part: str) -> bool:
        return self.view.parts[part].key in self.context.selected_asset_keys

    @property
    def partition_keys(self) -> list[str]:
        """The partitions that the run is asked for; a tick has none."""
        partitioned = self.context.has_partition_key or self.context.has_partition_key_range
        return list(self.context.partition_keys) if partitioned else []

    def options(self) -> RunOptions:
        return self.config.applied_to(RunOptions(maintenance=self.project.maintenance))
