"""What somebody who opens Dagster sees and does: real clicks in Chromium, over a real web server, daemon and Spark."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from assets.generator import FIRST_SPAN, read_position
from benchmarks import click_to_commit
from laminar_dagster.semantics.time import to_datetime
from state_store import StoreReader
from state_store import format as f
from tests.browser.interface import SIZE, Interface
from tests.browser.served import SECONDS_TO_RUN, Served, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(700)]

VIEWS = (
    "sales_per_minute",
    "sales_last_5_minutes",
    "sales_per_hour",
    "click_sessions",
    "customer_balance",
    "daily_report",
)
SOURCES = ("new_events", "sales", "clicks", "payments")
TABLES = " or ".join(f'key:"{key}"' for key in (*VIEWS, *SOURCES))
GROUPS = ",".join(f"global@global:{group}" for group in ("sources", "sales", "web", "finance", "reports"))
MINUTES = "sales_per_minute"
SCHEDULE = "balance_every_minute"
SCHEDULE_SECONDS = 60 + SECONDS_TO_RUN


def day(shop: Served, number: int) -> str:
    """The days of the first events are 0, before a midnight, and 1."""
    position = read_position(shop.root / "data" / "landing")
    assert position is not None
    first = to_datetime(position.next_event_time - FIRST_SPAN)
    return f"{first + timedelta(days=number):%Y-%m-%d}"


def epochs(shop: Served, view: str) -> list[str]:
    """The kinds of the view's epochs, oldest first."""
    reader = StoreReader(shop.root / "data" / view)
    return [commit.epoch_kind for commit in reader.log.commits()][::-1] if reader.exists else []


def rows(shop: Served, view: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = StoreReader(shop.root / "data" / view).read(table).to_pylist()
    return found


def operations(shop: Served, epoch: int) -> Counter[str]:
    """How many changes of each kind the epoch published."""
    return Counter(row["_op"] for row in rows(shop, MINUTES, f.CHANGELOG) if row["_epoch"] == epoch)


@pytest.fixture
def ticked(shop: Served, interface: Interface) -> None:
    """`sales_per_minute` has ticked, by a click, in this test or in one before it."""
    if not epochs(shop, MINUTES):
        assert interface.tick(MINUTES)["status"] == "SUCCESS"


def test_the_lineage_graph_shows_all_views(interface: Interface) -> None:
    interface.page.set_viewport_size({"width": 1280, "height": 1120})
    interface.open(f"/asset-groups~{quote(TABLES)}?expanded={quote(GROUPS)}")
    interface.button("Hide navigation").click()
    interface.sees(*VIEWS, *SOURCES)
    interface.picture("lineage")


def test_materialize_on_a_state_ticks_and_fills_partitions(shop: Served, interface: Interface, ticked: None) -> None:
    assert epochs(shop, MINUTES)[0] == "tick"
    interface.page.set_viewport_size({"width": 1280, "height": 1320})
    interface.open(f"/assets/{MINUTES}/state?view=events")
    interface.sees("open_windows", "watermark_lag_seconds", "last_epochs", "last_closed_windows")
    interface.picture("tick")
    interface.page.set_viewport_size(SIZE)
    interface.open(f"/assets/{MINUTES}?view=partitions")
    interface.sees("Materialized (2)", day(shop, 0), day(shop, 1))
    interface.page.get_by_text(day(shop, 1)).first.click()
    interface.sees("dagster/partition_row_count")
    interface.picture("partitions")


def test_every_stretch_of_a_tick_is_in_the_log_of_its_run(shop: Served, ticked: None) -> None:
    """So that the benchmark, which is not part of the suite, finds them."""
    run = next(run for run in shop.runs() if run["assetSelection"] == [{"path": [MINUTES, "state"]}])
    events = shop.ask(click_to_commit.EVENTS, run=run["runId"])["logsForRun"]["events"]
    found = click_to_commit.stretches(run["creationTime"], events)
    assert all(seconds >= 0 for seconds in found.values())
    assert sum(found.values()) == pytest.approx(run["endTime"] - run["creationTime"], abs=0.5)


def test_a_check_fails_visibly_when_hardly_any_row_may_be_late(interface: Interface, ticked: None) -> None:
    interface.open(f"/assets/{MINUTES}/state?view=checks")
    interface.page.get_by_text("late_rate").first.click()
    interface.sees("At most 0.0001", "Failed", "Succeeded")
    interface.picture("check")


def test_a_range_backfill_from_the_dialog_shows_corrections(shop: Served, interface: Interface, ticked: None) -> None:
    """The first of the two days has no rows at all, and is reported all the same: else the backfill would fail."""
    before = len(rows(shop, MINUTES, f.OUTPUT))
    assert interface.backfill(MINUTES, day(shop, -1), day(shop, 0))["status"] == "COMPLETED_SUCCESS"
    assert epochs(shop, MINUTES)[-1] == "backfill"
    changes = operations(shop, len(epochs(shop, MINUTES)))
    assert changes["-U"] == changes["+U"] > 0
    assert len(rows(shop, MINUTES, f.OUTPUT)) == before + changes["+I"] - changes["-D"]
    interface.open(f"/assets/{MINUTES}?view=events&partition={day(shop, 0)}")
    interface.sees("epoch_kind", "backfill", "+U")
    interface.picture("backfill")


def test_late_rows_are_folded_back_from_the_launchpad(shop: Served, interface: Interface, ticked: None) -> None:
    assert interface.launch(f"fold_late_rows_of_{MINUTES}")["status"] == "SUCCESS"
    assert epochs(shop, MINUTES)[-1] == "fold_late"
    assert operations(shop, len(epochs(shop, MINUTES))).total() > 0
    assert all(row["folded_epoch"] for row in rows(shop, MINUTES, f.SIDE_OUTPUT) if row["kind"] == "late")


def test_a_view_that_cannot_run_shows_the_error_with_its_hint(interface: Interface) -> None:
    run = interface.tick("refunds_in_all")
    assert run["status"] == "FAILURE"
    interface.open(f"/runs/{run['runId']}")
    interface.sees("STEP_FAILURE")
    interface.button("View full message").click()
    interface.sees("[LMR0612]", "hint: ALTER TABLE delta.")
    interface.picture("failure")


def test_a_schedule_that_is_turned_on_ticks_by_itself(shop: Served, interface: Interface) -> None:
    interface.open(f"/locations/shop/schedules/{SCHEDULE}")
    switch = interface.page.locator("label", has=interface.page.locator("input[type=checkbox]")).first
    switch.click()
    until("an epoch by the schedule", lambda: epochs(shop, "customer_balance"), SCHEDULE_SECONDS)
    launched = [run for run in shop.runs() if {"key": "dagster/schedule_name", "value": SCHEDULE} in run["tags"]]
    assert shop.ended(launched[-1]["runId"])["status"] == "SUCCESS"
    interface.open(f"/locations/shop/schedules/{SCHEDULE}")
    interface.sees("Requested", "1 run")
    interface.picture("schedule")
    switch.click()
