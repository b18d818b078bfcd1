"""A small project for the tests of the Dagster integration: a source in memory, a view, and runs of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
from pyspark.sql import SparkSession

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.integration import LaminarResource, laminar_assets
from laminar_dagster.semantics.time import from_iso

SOURCE = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'memory', max_future_skew = 'none');
"""
PER_HOUR = """
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, window_end, region, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, region
EMIT ON WINDOW CLOSE WITH (partition_start = '2026-01-01');
"""


class GivenSpark(LaminarResource):
    """The session of the test suite."""

    session: ClassVar[Any] = None

    def open_session(self, project: Project) -> SparkSession:
        assert self.session is not None, "the test has no Spark"
        given: SparkSession = self.session
        return given


class Shop:
    """A project in a directory, with a Dagster instance that lasts."""

    def __init__(self, root: Path, *views: str, spark: SparkSession | None = None) -> None:
        self.root = root
        (root / "sql").mkdir(parents=True, exist_ok=True)
        (root / "sql" / "views.sql").write_text(SOURCE + "".join(views or (PER_HOUR,)))
        (root / "dagster").mkdir(exist_ok=True)
        (root / "dagster" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        GivenSpark.session = spark
        self.project = Project.find(root)
        self.assets = laminar_assets(self.project, resource=GivenSpark())
        self.instance = dg.DagsterInstance.from_config(str(root / "dagster"))

    def sell(self, *sales: tuple[str, str, int]) -> None:
        """One commit of (time, region, amount)."""
        source = next(
            e.source for p in self.project.planned().plans for e in p.query.inputs if e.source.name == "sales"
        )
        memory = MemoryConnector(source, self.root)
        rows = [{"region": region, "amount": amount, "at": from_iso(at)} for at, region, amount in sales]
        memory.append(rows, memory.backlog(None))

    def run(
        self,
        *keys: str,
        partitions: tuple[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        raise_on_error: bool = True,
    ) -> dg.ExecuteInProcessResult:
        """Materialize assets, named as `view/part`; a range of partitions makes it a backfill."""
        tags = {}
        if partitions is not None:
            tags = {"dagster/asset_partition_range_start": partitions[0]}
            tags["dagster/asset_partition_range_end"] = partitions[1]
        views = {key.split("/")[0] for key in keys}
        return dg.materialize(
            self.assets,
            instance=self.instance,
            selection=dg.AssetSelection.assets(*(dg.AssetKey.from_user_string(key) for key in keys)),
            tags=tags,
            run_config={"ops": {view: {"config": dict(config)} for view in views}} if config else None,
            raise_on_error=raise_on_error,
        )

    def tick(self, view: str = "per_hour", **config: Any) -> dg.ExecuteInProcessResult:
        return self.run(f"{view}/state", config=config)

    def materializations(self, key: str, limit: int = 100) -> list[dg.AssetMaterialization]:
        """All that the instance knows of an asset, oldest first."""
        found = self.instance.fetch_materializations(dg.AssetKey.from_user_string(key), limit=limit).records
        events = [record.asset_materialization for record in reversed(found)]
        return [event for event in events if event is not None]

    def partitions(self, key: str) -> dict[str | None, Mapping[str, Any]]:
        """The plain metadata of the last materialization of each partition."""
        return {event.partition: values(event) for event in self.materializations(key)}


def values(event: dg.AssetMaterialization) -> dict[str, Any]:
    return {name: entry.value for name, entry in event.metadata.items()}


def events_of(result: dg.ExecuteInProcessResult, key: str) -> Sequence[dg.AssetMaterialization]:
    """The materializations of an asset in one run."""
    wanted = dg.AssetKey.from_user_string(key)
    events = (event.materialization for event in result.get_asset_materialization_events())
    return [event for event in events if event.asset_key == wanted]
