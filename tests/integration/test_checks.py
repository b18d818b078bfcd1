"""Asset checks: what they measure, when they run, and what a failure does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from laminar_dagster.integration import Check, Checks, laminar_definitions
from state_store import StoreReader
from tests.integration.shop import PER_HOUR, GivenSpark, Shop
from tests.integration.test_tick import PER_DAY, PER_REGION

CHEAP = {"late_rate", "error_rate", "watermark_lag", "duplicate_emission", "changelog_sums_to_table"}
SALES = (
    (("2026-01-05T09:10:00Z", "north", 4), ("2026-01-05T10:20:00Z", "south", 1), ("2026-01-06T12:00:00Z", "north", 1)),
    (("2026-01-05T09:30:00Z", "north", 5), ("2026-01-06T13:00:00Z", "north", 2), ("2026-01-06T13:10:00Z", "west", 2)),
)
ALL = Checks(watermark_lag=Check(max=1e10))


@pytest.fixture(scope="module")
def ticked(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Of six rows one is late; the day over the hours has a changelog."""
    shop = Shop(tmp_path_factory.mktemp("shop"), PER_HOUR, PER_DAY, spark=spark)
    for sales in SALES:
        shop.sell(*sales)
    shop.run("per_hour/state", "per_day/state")
    return shop.root


@pytest.fixture
def shop(tmp_path: Path, ticked: Path, spark: SparkSession) -> Shop:
    shutil.copytree(ticked, tmp_path / "shop")
    return Shop(tmp_path / "shop", PER_HOUR, PER_DAY, spark=spark)


def evaluated(shop: Shop, key: str, checks: Checks = ALL, config: Any = None, names: Any = None) -> dict[str, Any]:
    """Run the checks of an asset alone, as the button in the UI does: name to result."""
    definitions = laminar_definitions(shop.project, resource=GivenSpark(), checks=checks)
    asset = dg.AssetKey.from_user_string(key)
    chosen = dg.AssetSelection.checks_for_assets(asset)
    if names is not None:
        chosen = dg.AssetSelection.checks(*(dg.AssetCheckKey(asset, name) for name in names))
    job = dg.define_asset_job("look", selection=chosen)
    built = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job])).resolve_job_def("look")
    result = built.execute_in_process(instance=shop.instance, run_config=config)
    return {e.check_name: e for e in result.get_asset_check_evaluations()}


def numbers(evaluation: dg.AssetCheckEvaluation) -> dict[str, Any]:
    return {name: value.value for name, value in evaluation.metadata.items()}


def test_a_view_that_never_ran_passes_and_says_why(tmp_path: Path) -> None:
    found = evaluated(Shop(tmp_path), "per_hour/state")
    assert set(found) == CHEAP
    assert all(e.passed and e.description == "no epoch yet" for e in found.values())


@pytest.mark.spark
def test_the_cheap_checks_say_what_they_found(shop: Shop) -> None:
    found = evaluated(shop, "per_hour/state")
    assert {name: e.passed for name, e in found.items()} == {**dict.fromkeys(CHEAP, True), "late_rate": False}
    late = found["late_rate"]
    assert late.severity is dg.AssetCheckSeverity.WARN
    assert numbers(late) == {"rows": 6, "late": 1, "epochs": 1, "limit": 0.05, "value": 1 / 6}
    assert numbers(found["duplicate_emission"])["rows"] == 3
    assert (found["changelog_sums_to_table"].description or "").startswith("the view has no changelog")
    assert numbers(evaluated(shop, "per_day/state")["changelog_sums_to_table"])["rows"] == 2


@pytest.mark.spark
def test_limits_come_from_the_definitions_or_from_the_run(shop: Shop) -> None:
    lenient = ALL.model_copy(update={"late_rate": Check(max=0.5)})
    assert evaluated(shop, "per_hour/state", lenient)["late_rate"].passed
    config = {"ops": {"per_hour_checks": {"config": {"limits": {"late_rate": 0.5, "watermark_lag": 1.0}}}}}
    found = evaluated(shop, "per_hour/state", config=config, names=["late_rate", "watermark_lag"])
    assert {name: e.passed for name, e in found.items()} == {"late_rate": True, "watermark_lag": False}
    wrong = {"ops": {"per_hour_checks": {"config": {"limits": {"late_rte": 0.5}}}}}
    with pytest.raises(dg.Failure, match=r'Did you mean "late_rate"'):
        evaluated(shop, "per_hour/state", config=wrong)


@pytest.mark.spark
def test_a_row_that_is_twice_in_the_table_is_found(shop: Shop) -> None:
    """As a defect would leave it: a file of the table with its rows twice."""
    for view in ("per_hour", "per_day"):
        reader = StoreReader(shop.project.store(view))
        path = reader.table("output").absolute(reader.files("output"))[0]
        table = pq.ParquetFile(path).read()
        pq.write_table(table.take([*range(table.num_rows), 0]), path)
    assert not evaluated(shop, "per_hour/state")["duplicate_emission"].passed
    found = evaluated(shop, "per_day/state")
    repeated, differing = found["duplicate_emission"], found["changelog_sums_to_table"]
    assert [(e.passed, e.severity) for e in (repeated, differing)] == [(False, dg.AssetCheckSeverity.ERROR)] * 2
    assert numbers(differing)["value"] == 1
    assert "| too_many |" in numbers(differing)["examples"]


@pytest.mark.spark
def test_a_tick_takes_the_cheap_checks_along_and_a_blocking_one_stops_what_reads_the_view(shop: Shop) -> None:
    strict = ALL.model_copy(update={"late_rate": Check(max=0, blocking=True)})
    shop.sell(("2026-01-07T09:00:00Z", "north", 1))
    definitions = laminar_definitions(shop.project, resource=GivenSpark(), checks=strict)
    tick = definitions.resolve_job_def("laminar_tick")
    result = tick.execute_in_process(instance=shop.instance, raise_on_error=False)
    assert not result.success
    assert {(e.asset_key.to_user_string(), e.check_name) for e in result.get_asset_check_evaluations()} == {
        ("per_hour/state", name) for name in CHEAP
    }
    steps = {event.step_key for event in result.get_step_success_events()}
    assert "per_hour" in steps
    assert "per_day" not in steps


@pytest.mark.spark
def test_verify_recomputes_a_window_and_finds_a_row_that_is_wrong(shop: Shop) -> None:
    (found,) = evaluated(shop, "per_hour").values()
    assert (found.check_name, found.passed, numbers(found)["windows"]) == ("verify", True, 1)
    reader = StoreReader(shop.project.store("per_hour"))
    for path in reader.table("output").absolute(reader.files("output")):
        table = pq.ParquetFile(path).read()
        at = table.schema.get_field_index("total")
        wrong = [value + 1 for value in table.column("total").to_pylist()]
        pq.write_table(table.set_column(at, table.schema.field(at), [wrong]), path)
    config = {"ops": {"per_hour_verify": {"config": {"since": "2026-01-05T09:00:00Z", "to": "2026-01-05T10:00:00Z"}}}}
    (broken,) = evaluated(shop, "per_hour", config=config).values()
    assert not broken.passed
    assert (numbers(broken)["value"], numbers(broken)["from"]) == (2, "2026-01-05T09:00:00Z")
    assert "| unexpected |" in numbers(broken)["examples"]


@pytest.mark.spark
def test_a_backfill_does_not_wait_for_a_replay(shop: Shop) -> None:
    definitions = laminar_definitions(shop.project, resource=GivenSpark())
    job = definitions.resolve_implicit_global_asset_job_def()
    days = {f"dagster/asset_partition_range_{end}": "2026-01-05" for end in ("start", "end")}
    result = job.execute_in_process(instance=shop.instance, asset_selection=[dg.AssetKey("per_hour")], tags=days)
    assert result.success
    assert [e.check_name for e in result.get_asset_check_evaluations()] == []


def test_a_view_without_windows_has_no_check_that_recomputes_one(tmp_path: Path) -> None:
    definitions = laminar_definitions(Shop(tmp_path, PER_REGION).project, checks=Checks(late_rate=None))
    keys = {(k.asset_key.to_user_string(), k.name) for k in definitions.resolve_asset_graph().asset_check_keys}
    assert keys == {("per_region/state", name) for name in CHEAP - {"late_rate", "watermark_lag"}}
