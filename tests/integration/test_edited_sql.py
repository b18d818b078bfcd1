"""Dagster after the SQL was edited: nothing that was built with another query is ticked, maintained or judged."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from laminar_dagster.integration import laminar_definitions, laminar_maintenance, laminar_sensor
from state_store import StoreReader
from state_store import format as f
from tests.cli.told_epochs import ToldEpoch, tell, timer
from tests.integration.shop import PER_HOUR, GivenSpark, Shop

LATER = PER_HOUR.replace("EMIT ON WINDOW CLOSE", "ALLOW LATENESS INTERVAL '5' MINUTE EMIT ON WINDOW CLOSE")
OTHER = PER_HOUR.replace("per_hour", "other")
TIMERS = {f.TIMERS: [timer("12:00:00", "12:01:00", 1)]}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Two views with epochs enough that merges are due; the lateness of one is taken away since."""
    Shop(tmp_path, LATER, OTHER)
    for view in ("per_hour", "other"):
        epochs = [ToldEpoch("12:05:00", "12:03:00", {"sales": ("12:03:00", "12:05:00")}, tables=TIMERS)] * 17
        tell(tmp_path / "data" / view, epochs)
    return Shop(tmp_path, PER_HOUR, OTHER)


def test_the_sensor_says_so_and_asks_for_no_tick_that_would_fail(shop: Shop) -> None:
    shop.sell(("2026-01-05T09:00:00Z", "north", 1))
    sensor = laminar_sensor(shop.project, resource=GivenSpark(), views=["per_hour"])
    with pytest.raises(dg.Failure, match=r"\[LMR0405\]"):
        sensor.evaluate_tick(dg.build_sensor_context(instance=shop.instance))
    both = laminar_sensor(shop.project, resource=GivenSpark())
    (request,) = both.evaluate_tick(dg.build_sensor_context(instance=shop.instance)).run_requests
    assert [key.to_user_string() for key in request.asset_selection or ()] == ["other/state"]


def test_upkeep_leaves_the_view_and_maintains_the_others_and_then_fails(shop: Shop) -> None:
    before = {view: files(shop, view) for view in ("per_hour", "other")}
    upkeep = laminar_maintenance(shop.project, resource=GivenSpark())
    done = dg.materialize([upkeep], instance=shop.instance, raise_on_error=False)
    assert not done.success
    assert "[LMR0405]" in str(done.get_step_failure_events()[0].event_specific_data)
    assert files(shop, "per_hour") == before["per_hour"]
    assert files(shop, "other") < before["other"]


def files(shop: Shop, view: str) -> int:
    return len(StoreReader(shop.project.store(view)).table(f.TIMERS).files())


@pytest.mark.parametrize("check", ["duplicate_emission", "changelog_sums_to_table", "verify"])
def test_a_check_that_goes_by_the_query_is_refused(shop: Shop, check: str) -> None:
    definitions = laminar_definitions(shop.project, resource=GivenSpark())
    part = "per_hour" if check == "verify" else "per_hour/state"
    key = dg.AssetCheckKey(dg.AssetKey.from_user_string(part), check)
    checks = [c for c in definitions.asset_checks or () if key in c.check_keys]
    done = dg.materialize(
        [*shop.assets, *checks],
        instance=shop.instance,
        selection=dg.AssetSelection.checks(key),
        raise_on_error=False,
    )
    assert "[LMR0405]" in str(done.get_step_failure_events()[0].event_specific_data)
