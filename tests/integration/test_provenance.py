"""The provenance that is logged for partitions is what Dagster itself writes, and does what it is for."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from pyspark.sql import SparkSession

from laminar_dagster.integration.provenance import CODE_VERSION, DATA_VERSION
from tests.integration.shop import PER_HOUR, Shop, events_of

MONDAY, TUESDAY = "2026-01-05", "2026-01-06"


def status(shop: Shop, partition: str) -> StaleStatus:
    graph = dg.Definitions(assets=shop.assets).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(shop.instance, graph, LoadingContextForTest(shop.instance))
    return resolver.get_status(dg.AssetKey("per_hour"), partition)


@pytest.mark.spark
def test_logged_partitions_have_the_tags_that_dagster_gives_to_results(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1), ("2026-01-06T09:00:00Z", "north", 1))
    result = shop.tick()
    (by_dagster,), (logged,) = events_of(result, "per_hour/state"), events_of(result, "per_hour")
    its, ours = by_dagster.tags or {}, logged.tags or {}
    assert {name for name in its if name.startswith("dagster/")} == {n for n in ours if n.startswith("dagster/")}
    assert its[CODE_VERSION] == ours[CODE_VERSION]
    assert {n: v for n, v in its.items() if "input" in n} == {n: v for n, v in ours.items() if "input" in n}
    assert ours[DATA_VERSION].endswith("-e1")


@pytest.mark.spark
def test_a_tick_leaves_old_partitions_fresh_and_a_changed_view_makes_them_stale(
    tmp_path: Path, spark: SparkSession
) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1), ("2026-01-06T09:00:00Z", "north", 1))
    shop.tick()
    assert status(shop, TUESDAY) is StaleStatus.MISSING
    shop.sell(("2026-01-07T09:00:00Z", "north", 1))
    shop.tick()
    assert [status(shop, day) for day in (MONDAY, TUESDAY)] == [StaleStatus.FRESH, StaleStatus.FRESH]
    changed = Shop(tmp_path, PER_HOUR.replace("SUM(amount)", "MAX(amount)"), spark=spark)
    assert status(changed, MONDAY) is StaleStatus.STALE
