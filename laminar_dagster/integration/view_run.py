"""One run of a view in Dagster: what is selected of it, where its data lies, and which Spark runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import MAX_FILES, MAX_ROWS, RunOptions
from laminar_dagster.integration.config import ViewRunConfig
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.session_log import told_session
from laminar_dagster.integration.translator import ViewAssets
from laminar_dagster.plan.plan import Plan
from state_store import StoreReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Results = Iterator[dg.MaterializeResult[None]]


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
        return told_session(self.resource, self.project, self.context.log)

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
        config = self.config
        return RunOptions(
            max_rows=config.max_rows or MAX_ROWS,
            max_files=config.max_files or MAX_FILES,
            max_epochs=config.max_epochs,
            replan=config.replan,
            maintenance=self.project.maintenance,
        )
