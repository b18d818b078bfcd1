"""Years that Python's datetime cannot hold: their text, windows and partitions follow the calendar as it goes on."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.partitions import Partitioning, in_time
from laminar_dagster.semantics.time import CYCLE, REACH, day_to_iso, from_iso, to_iso
from laminar_dagster.semantics.watermark import Shard, ShardPolicy, directed
from laminar_dagster.semantics.windows import Calendar, Window

TIMES = {
    -62_167_219_200_000_000: "0000-01-01T00:00:00Z",
    -62_167_219_200_000_001: "-0001-12-31T23:59:59.999999Z",
    253_402_300_800_000_000: "+10000-01-01T00:00:00Z",
    -(1 << 63): "-290308-12-21T19:59:05.224192Z",
    (1 << 63) - 1: "+294247-01-10T04:00:54.775807Z",
}


@pytest.mark.parametrize("micros", TIMES)
def test_a_time_of_any_year_has_a_text_that_can_be_read_again(micros: int) -> None:
    assert to_iso(micros) == TIMES[micros]
    assert from_iso(TIMES[micros]) == micros


def test_a_day_of_any_year_has_a_text() -> None:
    assert [day_to_iso(day) for day in (-719_528, 2_932_897, -(1 << 31))] == [
        "0000-01-01", "+10000-01-01", "-5877641-06-23",
    ]  # fmt: skip


@pytest.mark.parametrize("zone", ["Europe/Zurich", "America/New_York"])
@pytest.mark.parametrize(("unit", "count"), [("DAY", 1), ("DAY", 3), ("WEEK", 1), ("MONTH", 1), ("MONTH", 12)])
def test_windows_of_a_calendar_repeat_after_four_hundred_years(unit: str, count: int, zone: str) -> None:
    """So do those of three days, after three times as long."""
    kind, turn = Calendar(unit, count, zone), 3 * CYCLE
    for text in ("2030-03-31T01:30:00Z", "2031-11-02T06:30:00Z", "9999-12-31T23:30:00Z"):
        near = from_iso(text)
        (window,) = kind.assign(near)
        assert window.start <= near < window.end
        assert kind.assign(near + 20 * turn) == (Window(window.start + 20 * turn, window.end + 20 * turn),)


EDGES = (-REACH, REACH - 1, from_iso("0001-01-01T00:00:00Z"), from_iso("-0001-01-01T00:00:00Z"))


@pytest.mark.parametrize("moment", EDGES)
def test_a_calendar_has_windows_as_far_as_event_times_reach(moment: int) -> None:
    for unit, count in (("DAY", 2), ("WEEK", 1), ("MONTH", 5)):
        (window,) = Calendar(unit, count, "Europe/Zurich").assign(moment)
        assert window.start <= moment < window.end
        assert Calendar(unit, count, "Europe/Zurich").assign(window.end)[0].start == window.end


def test_partitions_of_any_year_have_names_and_an_order() -> None:
    months = Partitioning("month", "Europe/Zurich")
    moments = [-REACH, from_iso("-0001-05-01T00:00:00Z"), 0, from_iso("9999-12-31T23:30:00Z"), REACH - 1]
    names = [months.name_of(moment) for moment in moments]
    assert names == ["-144169-06-01", "-0001-05-01", "1970-01-01", "+10000-01-01", "+148108-07-01"]
    assert sorted(set(names), key=in_time) == names
    assert in_time("") < in_time("2026-01-01-05:00") < in_time("2026-01-01-06:00")


def test_a_watermark_stays_in_reach() -> None:
    shard = Shard(None, 0)
    assert directed((), None, {}, to=1 << 70, now=0).watermark == REACH - 1
    assert shard.advanced(-(1 << 63), ShardPolicy(lag=5)).watermark == -REACH
    assert shard.advanced((1 << 63) - 1, ShardPolicy(lag=5)).watermark == REACH - 1


@pytest.mark.parametrize("size", ["'200000' YEAR", "'99999999' WEEK, TIME ZONE 'Europe/Zurich'"])
def test_windows_longer_than_all_years_are_refused(size: str) -> None:
    source = "CREATE SOURCE ev (ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');"
    window = f"TUMBLE(ev, ts, INTERVAL {size})"
    view = f"CREATE MATERIALIZED VIEW out AS SELECT COUNT(*) AS n FROM {window} GROUP BY window_start, window_end;"
    with pytest.raises(LaminarError, match="longer than any time") as refused:
        plan_script(source + view)
    assert refused.value.code == "LMR0201"
