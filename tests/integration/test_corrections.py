"""Backfills of partitions and fold-backs of late rows, from Dagster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from laminar_dagster.integration import laminar_definitions
from state_store import StoreReader
from tests.integration.shop import GivenSpark, Shop, events_of, values

ON_TIME = (("2026-01-05T09:10:00Z", "north", 4), ("2026-01-07T09:00:00Z", "north", 1), ("2026-01-09T00:00:00Z", "x", 1))
LATE = (("2026-01-05T09:20:00Z", "north", 6), ("2026-01-07T09:30:00Z", "south", 3))


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    """Two closed days, with a late row for each in the side output."""
    found = Shop(tmp_path, spark=spark)
    found.sell(*ON_TIME)
    found.sell(*LATE)
    found.tick()
    return found


def totals(shop: Shop) -> dict[tuple[str, str], int]:
    rows: list[dict[str, Any]] = StoreReader(shop.project.store("per_hour")).read("output").to_pylist()
    return {(f"{row['window_start']:%m-%d}", row["region"]): row["total"] for row in rows}


@pytest.mark.spark
def test_a_backfill_reports_every_partition_asked_for_with_its_corrections(shop: Shop) -> None:
    assert totals(shop) == {("01-05", "north"): 4, ("01-07", "north"): 1}
    result = shop.run("per_hour", partitions=("2026-01-05", "2026-01-06"))
    assert totals(shop) == {("01-05", "north"): 10, ("01-07", "north"): 1}
    reported = {e.partition: values(e) for e in events_of(result, "per_hour")}
    assert set(reported) == {"2026-01-05", "2026-01-06"}
    corrected, untouched = reported["2026-01-05"], reported["2026-01-06"]
    assert (corrected["-U"], corrected["+U"], corrected["epoch_kind"]) == (1, 1, "backfill")
    assert corrected["dagster/partition_row_count"] == 1
    assert (untouched["rows"], untouched["dagster/partition_row_count"]) == (0, 0)
    assert not {"+I", "-U", "+U", "-D"} & set(untouched)
    changes = {e.partition: values(e)["rows"] for e in events_of(result, "per_hour/changelog")}
    assert changes == {"2026-01-05": 2}
    assert len(events_of(result, "per_hour/state")) == 1
    assert events_of(shop.tick(), "per_hour") == [], "the correction is told already"


@pytest.mark.spark
def test_a_backfill_with_nothing_to_correct_reports_its_partitions_all_the_same(tmp_path: Path, spark: Any) -> None:
    shop = Shop(tmp_path, spark=spark)
    result = shop.run("per_hour", "per_hour/side_output", partitions=("2026-02-01", "2026-02-02"))
    for key in ("per_hour", "per_hour/side_output"):
        assert [e.partition for e in events_of(result, key)] == ["2026-02-01", "2026-02-02"]
    assert events_of(result, "per_hour/changelog") == []


@pytest.mark.spark
def test_late_rows_are_folded_back_by_a_job_that_says_which(shop: Shop) -> None:
    definitions = laminar_definitions(shop.project, resource=GivenSpark())
    job = definitions.resolve_job_def("fold_late_rows_of_per_hour")
    chosen = {"ops": {"per_hour": {"config": {"fold_late": {"where": "event_time < '2026-01-06'"}}}}}
    first = job.execute_in_process(run_config=chosen, instance=shop.instance)
    assert totals(shop) == {("01-05", "north"): 10, ("01-07", "north"): 1}
    assert {e.partition: values(e)["+U"] for e in events_of(first, "per_hour")} == {"2026-01-05": 1}
    rest = job.execute_in_process(instance=shop.instance)
    assert totals(shop) == {("01-05", "north"): 10, ("01-07", "north"): 1, ("01-07", "south"): 3}
    assert {e.partition: values(e)["+I"] for e in events_of(rest, "per_hour")} == {"2026-01-07": 1}
    (state,) = events_of(rest, "per_hour/state")
    assert state.asset_key == dg.AssetKey(["per_hour", "state"])
