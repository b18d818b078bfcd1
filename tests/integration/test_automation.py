"""What runs by itself: schedules and sensors that see, without Spark, what there is to do; and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from laminar_dagster.engine.due import Views, why_due
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.integration import (
    Automation,
    LaminarResource,
    laminar_definitions,
    laminar_schedule,
    laminar_sensor,
)
from laminar_dagster.integration.holding_off import SENSOR, held_off
from laminar_dagster.integration.jobs import MAX_RUNTIME
from laminar_dagster.integration.looking import DUE
from laminar_dagster.semantics.time import HOUR, MINUTE, from_iso
from state_store import StoreReader, StoreWriter
from tests.integration.shop import PER_HOUR, SOURCE, GivenSpark, Shop, values
from tests.integration.test_tick import PER_DAY, PER_REGION

ALL = Automation(schedule="*/5 * * * *", sensor_seconds=10, maintenance="0 3 * * *")


def sensed(shop: Shop, **given: Any) -> dg.RunRequest | str:
    """What the sensor asks for, or why it does not."""
    sensor = laminar_sensor(shop.project, resource=GivenSpark(), **given)
    context = dg.build_sensor_context(instance=shop.instance)
    found = sensor.evaluate_tick(context)
    return found.run_requests[0] if found.run_requests else found.skip_message or ""


def keys(request: dg.RunRequest | str) -> Sequence[str]:
    assert isinstance(request, dg.RunRequest), request
    return [key.to_user_string() for key in request.asset_selection or ()]


def test_the_sensor_asks_for_views_with_new_commits_and_for_those_that_read_them(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PER_DAY, PER_HOUR)
    assert sensed(shop) == "per_hour: nothing new; per_day: nothing new"
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    shop.sell(("2026-01-05T10:00:00Z", "north", 1))
    request = sensed(shop)
    assert keys(request) == ["per_hour/state", "per_day/state"]
    assert isinstance(request, dg.RunRequest)
    assert (request.run_key, request.tags[DUE]) == (None, "per_hour: 2 commit(s) of sales")
    assert keys(sensed(shop, views=["per_hour"])) == ["per_hour/state"]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_nothing_is_asked_for_while_a_run_of_the_view_is_queued_or_active(
    tmp_path: Path, status: dg.DagsterRunStatus
) -> None:
    shop = Shop(tmp_path, PER_HOUR, PER_REGION)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    whole = dg.Definitions(assets=shop.assets).resolve_implicit_global_asset_job_def()
    job = whole.get_subset(asset_selection={dg.AssetKey(["per_hour", "state"])})
    run = shop.instance.create_run_for_job(job, status=status)
    going = f"per_hour: run {run.run_id[:8]} is queued or active"
    assert keys(sensed(shop)) == ["per_region/state"]
    assert sensed(shop, views=["per_hour"]) == going
    schedule = laminar_schedule(shop.project, views=["per_hour"])
    context = dg.build_schedule_context(instance=shop.instance, scheduled_execution_time=datetime.now(UTC))
    assert schedule.evaluate_tick(context).skip_message == going
    shop.instance.report_run_failed(run)
    assert keys(sensed(shop)) == ["per_hour/state", "per_region/state"]
    assert schedule.evaluate_tick(context).run_requests


def test_the_sensor_finds_a_resource_by_its_key(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    sensor = laminar_sensor(shop.project, resource="streams")
    resources = {"streams": LaminarResource(data_dir="elsewhere")}
    found = sensor.evaluate_tick(dg.build_sensor_context(instance=shop.instance, resources=resources))
    assert keys(found.run_requests[0]) == ["per_hour/state"]


def test_a_tick_that_failed_is_tried_again_after_a_wait_that_grows(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PER_HOUR, PER_DAY)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    state = dg.AssetSelection.assets(dg.AssetKey(["per_hour", "state"]))
    tags = {SENSOR: "laminar_sensor"}
    for failures in (1, 2):
        shop_run = {"instance": shop.instance, "selection": state, "tags": tags, "raise_on_error": False}
        assert not dg.materialize(shop.assets, **shop_run).success, "there is no Spark"
        assert str(sensed(shop)).startswith(f"per_hour: {failures} tick(s) in a row failed")
    assert keys(sensed(shop, name="another")) == ["per_hour/state", "per_day/state"]
    soon, later = (datetime.now(UTC) + timedelta(seconds=seconds) for seconds in (30, 121))
    assert held_off(shop.instance, "laminar_sensor", "per_hour", 30, soon) is not None
    assert held_off(shop.instance, "laminar_sensor", "per_hour", 30, later) is None


def test_a_source_that_cannot_be_read_does_not_keep_other_views_from_being_ticked(tmp_path: Path) -> None:
    gone = SOURCE.replace("sales", "gone").replace("'memory'", "'files', format = 'json', path = 'nowhere'")
    other = PER_HOUR.replace("per_hour", "of_gone").replace("sales", "gone")
    shop = Shop(tmp_path, PER_HOUR, gone, other)
    with pytest.raises(dg.Failure, match=r"\[LMR0602\]"):
        sensed(shop)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    assert keys(sensed(shop)) == ["per_hour/state"]


def test_the_definitions_have_a_bounded_tick_job_a_schedule_a_sensor_and_upkeep(tmp_path: Path) -> None:
    definitions = laminar_definitions(Shop(tmp_path, PER_DAY, PER_HOUR).project, automation=ALL)
    tick = definitions.resolve_job_def("laminar_tick")
    assert tick.tags[MAX_RUNTIME] == "3600"
    assert next(iter(tick.nodes_in_topological_order)).name == "per_hour"
    schedule = definitions.resolve_schedule_def("laminar_schedule")
    assert (schedule.cron_schedule, schedule.default_status) == ("*/5 * * * *", dg.DefaultScheduleStatus.STOPPED)
    assert definitions.resolve_sensor_def("laminar_sensor").minimum_interval_seconds == 10
    assert definitions.resolve_schedule_def("laminar_maintenance_schedule").cron_schedule == "0 3 * * *"
    dg.Definitions.validate_loadable(definitions)


def test_a_view_over_a_view_ticks_when_that_one_has_and_a_fresh_state_may_be_demanded(tmp_path: Path) -> None:
    hourly = PER_HOUR.replace("WITH (", "WITH (freshness = '2 hours', ")
    shop = Shop(tmp_path, PER_DAY, hourly)
    specs = {spec.key.to_user_string(): spec for asset in shop.assets for spec in asset.specs}
    assert specs["per_day/state"].automation_condition is not None
    assert specs["per_day/state"].automation_condition.get_label() == "any_deps_updated"
    assert [key for key, spec in specs.items() if spec.automation_condition is not None] == ["per_day/state"]
    policy = specs["per_hour/state"].freshness_policy
    assert policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=2))
    assert specs["per_hour"].freshness_policy is None


def test_downstream_is_asked_for_when_upstream_was_ticked_by_itself(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PER_DAY, PER_HOUR)
    definitions = dg.Definitions(assets=shop.assets)
    first = dg.evaluate_automation_conditions(definitions, shop.instance)
    shop.instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["per_hour", "state"])))
    again = dg.evaluate_automation_conditions(definitions, shop.instance, cursor=first.cursor)
    assert (first.total_requested, again.total_requested) == (0, 1)
    assert again.get_num_requested(dg.AssetKey(["per_day", "state"])) == 1


IDLE = SOURCE.replace("max_future_skew", "idle_timeout = '10 minutes', max_future_skew")
EVERY = PER_HOUR.replace("per_hour", "often").replace("ON WINDOW CLOSE", "EVERY INTERVAL '5' MINUTES")


@pytest.mark.spark
def test_a_tick_is_due_when_the_clock_closes_a_window_or_ends_a_period(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, PER_DAY, PER_HOUR, EVERY, spark=spark)
    (tmp_path / "sql" / "views.sql").write_text(IDLE + PER_DAY + PER_HOUR + EVERY)
    plans = {plan.query.view: plan for plan in shop.project.plans()}
    views = Views(plans, tmp_path, shop.project.data)
    start = from_iso("2026-01-05T09:30:00Z")

    def ticked(view: str, now: int) -> None:
        run_view(plans[view], spark, project=tmp_path, data=shop.project.data, options=RunOptions(now=lambda: now))

    shop.sell(("2026-01-05T09:20:00Z", "north", 1))
    ticked("often", start)
    shop.sell(("2026-01-05T09:25:00Z", "north", 1))
    ticked("per_hour", start)
    ticked("often", start + MINUTE)
    assert why_due(views, "often", start + 2 * MINUTE) is None
    assert why_due(views, "often", start + 6 * MINUTE) == "changes wait for a period of EVERY that has passed"
    assert why_due(views, "per_hour", start + 30 * MINUTE) is None, "idle, and the watermark is not at the end yet"
    assert (why_due(views, "per_hour", start + 40 * MINUTE) or "").endswith("up to 2026-01-05T10:00:00Z")
    ticked("per_hour", start + 40 * MINUTE)
    ticked("per_day", start + 40 * MINUTE)
    assert why_due(views, "per_hour", start + 3 * HOUR) is None, "nothing is open, here or downstream, that would close"
    assert why_due(views, "per_hour", start + 17 * HOUR) is not None, "the day downstream closes"


@pytest.mark.spark
def test_upkeep_is_an_asset_that_leaves_out_views_that_are_run(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, PER_HOUR, PER_REGION, spark=spark)
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    shop.tick()
    definitions = laminar_definitions(shop.project, resource=LaminarResource())
    job = definitions.resolve_implicit_global_asset_job_def()
    chosen = {"asset_selection": [dg.AssetKey("laminar_maintenance")], "instance": shop.instance}
    with StoreWriter(shop.project.store("per_hour")):
        held = job.execute_in_process(**chosen).asset_materializations_for_node("laminar_maintenance")
    free = job.execute_in_process(**chosen).asset_materializations_for_node("laminar_maintenance")
    assert [values(event)["views_left_out"] for event in (*held, *free)] == [1, 0]
    assert "| per_hour |" in values(free[0])["views"]
    assert StoreReader(shop.project.store("per_hour")).commit() is not None
