"""A view that does not plan is an asset that fails; the code location loads, and all other views are ticked."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from laminar_dagster.integration import laminar_assets, laminar_definitions, laminar_schedule, laminar_sensor
from tests.integration.shop import PER_HOUR, GivenSpark, Shop

WRONG = "CREATE MATERIALIZED VIEW wrong AS SELECT region, SUM(amuont) AS s FROM sales GROUP BY region EMIT CHANGES;"
OVER_WRONG = (
    "CREATE MATERIALIZED VIEW over_wrong AS SELECT region, MAX(s) AS s FROM wrong GROUP BY region EMIT CHANGES;"
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, PER_HOUR, WRONG, OVER_WRONG)


def test_the_location_loads_and_shows_what_is_wrong(shop: Shop) -> None:
    definitions = laminar_definitions(shop.project, resource=GivenSpark())
    dg.Definitions.validate_loadable(definitions)
    specs = {spec.key.to_user_string(): spec for asset in definitions.assets or () for spec in asset.specs}
    assert "per_hour" in specs
    assert 'column "amuont" does not exist' in str(specs["wrong/state"].description)
    assert "[LMR0121]" in str(specs["over_wrong/state"].description)


def test_its_run_fails_with_the_error_and_is_not_tried_again(shop: Shop) -> None:
    assets = laminar_assets(shop.project, resource=GivenSpark())
    done = dg.materialize(assets, selection=["wrong/state"], instance=shop.instance, raise_on_error=False)
    assert not done.success
    (failed,) = done.get_step_failure_events()
    assert "[LMR0102]" in str(failed.event_specific_data)


def test_schedules_and_sensors_of_all_views_go_on(shop: Shop) -> None:
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    schedule = laminar_schedule(shop.project, resource=GivenSpark())
    assert "wrong" in str(schedule.description)
    sensor = laminar_sensor(shop.project, resource=GivenSpark())
    (request,) = sensor.evaluate_tick(dg.build_sensor_context(instance=shop.instance)).run_requests
    assert [key.to_user_string() for key in request.asset_selection or ()] == ["per_hour/state"]
    alone = laminar_sensor(shop.project, resource=GivenSpark(), views=["wrong"])
    with pytest.raises(dg.Failure, match="LMR0102"):
        alone.evaluate_tick(dg.build_sensor_context(instance=shop.instance))
