from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, from_iso
from laminar_dagster.semantics.windows import Calendar, Cumulate, Hop, Session, Tumble, Window

TIMES = st.integers(-(10**15), 10**15)


def test_a_row_at_the_end_belongs_to_the_next_window() -> None:
    assert Tumble(10).assign(9) == (Window(0, 10),)
    assert Tumble(10).assign(10) == (Window(10, 20),)


def test_times_before_1970_are_floored_and_not_truncated() -> None:
    assert Tumble(10).assign(-1) == (Window(-10, 0),)
    assert Tumble(10).assign(-10) == (Window(-10, 0),)


def test_an_offset_shifts_the_grid_also_when_it_is_longer_than_the_window() -> None:
    assert Tumble(10, 3).assign(2) == (Window(-7, 3),)
    assert Tumble(10, 3).assign(3) == (Window(3, 13),)
    assert Tumble(10, 13).assign(3) == Tumble(10, 3).assign(3)
    assert Tumble(10, -7).assign(3) == Tumble(10, 3).assign(3)


def test_a_hop_need_not_be_a_multiple_of_its_slide() -> None:
    assert Hop(slide=3, size=7).assign(6) == (Window(0, 7), Window(3, 10), Window(6, 13))
    assert Hop(slide=3, size=7).assign(7) == (Window(3, 10), Window(6, 13))
    assert Hop(slide=3, size=7).slice == 1


def test_a_hop_with_a_slide_longer_than_its_size_leaves_gaps() -> None:
    assert Hop(slide=10, size=4).assign(13) == (Window(10, 14),)
    assert Hop(slide=10, size=4).assign(14) == ()


@given(TIMES, st.integers(1, 50), st.integers(1, 200), st.integers(-60, 60))
def test_a_hop_gives_exactly_the_windows_that_hold_the_row(t: int, slide: int, size: int, offset: int) -> None:
    windows = Hop(slide, size, offset).assign(t)
    assert all(w.start <= t < w.end and w.end - w.start == size for w in windows)
    assert all((w.start - offset) % slide == 0 for w in windows)
    candidates = range((t - size - offset) // slide, (t - offset) // slide + 2)
    starts = {offset + n * slide for n in candidates}
    assert {w.start for w in windows} == {s for s in starts if s <= t < s + size}


@given(TIMES, st.integers(1, 1000), st.integers(-1000, 1000))
def test_a_tumbling_window_is_a_hop_that_moves_by_its_size(t: int, size: int, offset: int) -> None:
    assert Tumble(size, offset).assign(t) == Hop(size, size, offset).assign(t)


def test_cumulating_windows_share_a_start_and_end_at_each_step() -> None:
    assert Cumulate(step=10, size=30).assign(15) == (Window(0, 20), Window(0, 30))
    assert Cumulate(step=10, size=30).assign(20) == (Window(0, 30),)
    assert Cumulate(step=10, size=30).assign(-1) == (Window(-30, 0),)


@pytest.mark.parametrize(
    ("moment", "start", "end", "hours"),
    [
        ("2025-03-30T12:00:00Z", "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z", 23),
        ("2025-10-26T12:00:00Z", "2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z", 25),
        ("2025-06-01T12:00:00Z", "2025-05-31T22:00:00Z", "2025-06-01T22:00:00Z", 24),
    ],
)
def test_a_calendar_day_in_berlin_is_as_long_as_the_clock_says(moment: str, start: str, end: str, hours: int) -> None:
    (window,) = Calendar("DAY", 1, "Europe/Berlin").assign(from_iso(moment))
    assert window == Window(from_iso(start), from_iso(end))
    assert window.end - window.start == hours * HOUR


def test_the_hour_that_a_clock_shows_twice_is_in_one_calendar_day() -> None:
    day = Calendar("DAY", 1, "Europe/Berlin")
    assert day.assign(from_iso("2025-10-26T00:30:00Z")) == day.assign(from_iso("2025-10-26T01:30:00Z"))


def test_calendar_months_quarters_and_years_begin_where_the_calendar_says() -> None:
    moment = from_iso("2025-05-17T12:00:00Z")
    assert Calendar("MONTH", 1, "UTC").assign(moment) == (
        Window(from_iso("2025-05-01T00:00:00Z"), from_iso("2025-06-01T00:00:00Z")),
    )
    assert Calendar("MONTH", 3, "UTC").assign(moment)[0].start == from_iso("2025-04-01T00:00:00Z")
    assert Calendar("MONTH", 12, "UTC").assign(moment)[0].start == from_iso("2025-01-01T00:00:00Z")


def test_calendar_weeks_begin_on_monday() -> None:
    (window,) = Calendar("WEEK", 1, "UTC").assign(from_iso("2025-05-18T23:59:59Z"))
    assert window.start == from_iso("2025-05-12T00:00:00Z")
    assert window.end - window.start == 7 * DAY


@given(st.integers(0, 2 * 10**15), st.sampled_from(["DAY", "WEEK", "MONTH"]))
def test_every_moment_is_in_its_calendar_window(t: int, unit: str) -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Kathmandu"):
        (window,) = Calendar(unit, 1, zone).assign(t)
        assert window.start <= t < window.end


def test_sessions_exactly_a_gap_apart_are_one() -> None:
    session = Session(10)
    windows = [session.assign(t)[0] for t in (0, 10, 21)]
    assert session.merge(windows) == [Window(0, 20), Window(21, 31)]


@given(st.lists(st.integers(-200, 200), max_size=30), st.integers(1, 20))
def test_merging_sessions_does_not_depend_on_order_and_covers_every_row(times: list[int], gap: int) -> None:
    session = Session(gap)
    windows = [session.assign(t)[0] for t in times]
    merged = session.merge(windows)
    assert merged == session.merge(list(reversed(windows)))
    assert all(a.end < b.start for a, b in pairwise(merged))
    assert all(any(w.start <= t < w.end for w in merged) for t in times)


def test_windows_say_what_they_are() -> None:
    assert str(Tumble(MINUTE)) == "TUMBLE(size 1 minute)"
    assert str(Session(30 * MINUTE)) == "SESSION(gap 30 minutes)"
