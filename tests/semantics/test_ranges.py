"""Stretches of time that a correction is about: which windows overlap them, and which rows those need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.ranges import ALWAYS, EVER, joined, last_end, lies_inside, overlap, reach, rows_needed
from laminar_dagster.semantics.time import HOUR, from_iso
from laminar_dagster.semantics.windows import Calendar, Cumulate, FixedWindow, Hop, Tumble, Window

KINDS = (Tumble(10), Tumble(10, offset=3), Hop(4, 10), Hop(10, 4), Hop(5, 5, offset=2), Cumulate(5, 15))
kinds = st.sampled_from(KINDS)
stretches = st.tuples(st.integers(-60, 60), st.integers(1, 25)).map(lambda drawn: Window(drawn[0], sum(drawn)))


def windows(kind: FixedWindow) -> set[Window]:
    """All windows around the stretches that are drawn."""
    return {window for moment in range(-200, 200) for window in kind.assign(moment)}


@given(kind=kinds, ranges=st.lists(stretches, max_size=3))
def test_the_reach_of_ranges_is_that_of_the_windows_that_overlap_them(kind: FixedWindow, ranges: list[Window]) -> None:
    overlapping = [window for window in windows(kind) if overlap(window, ranges)]
    inside = {moment for window in overlapping for moment in range(window.start, window.end)}
    found = {moment for stretch in reach(kind, ranges) for moment in range(stretch.start, stretch.end)}
    # Between hops that leave gaps lie moments that belong to no window.
    assert {moment for moment in found if kind.assign(moment)} == inside
    needed = {moment for stretch in rows_needed(kind, ranges) for moment in range(stretch.start, stretch.end)}
    assert inside <= needed
    if overlapping and kind.assign(max(r.end for r in ranges) - 1):
        assert last_end(kind, ranges) == max(window.end for window in overlapping)


@given(kind=kinds, ranges=st.lists(stretches, max_size=3), moment=st.integers(-90, 90))
def test_a_moment_lies_inside_if_no_window_of_it_stays_as_it_was(
    kind: FixedWindow, ranges: list[Window], moment: int
) -> None:
    others = [window for window in windows(kind) if not overlap(window, ranges)]
    assert lies_inside(kind, moment, ranges) == (not any(w.start <= moment < w.end for w in others))


def test_ranges_that_touch_are_one() -> None:
    assert joined([Window(5, 9), Window(0, 3), Window(3, 4), Window(8, 12)]) == (Window(0, 4), Window(5, 12))


@pytest.mark.parametrize("kind", [*KINDS, Calendar("DAY", 1, "Europe/Berlin")])
def test_all_of_time_reaches_over_all_of_time(kind: FixedWindow) -> None:
    assert reach(kind, [EVER]) == (EVER,)
    assert last_end(kind, [EVER]) == ALWAYS
    assert rows_needed(kind, [EVER]) == (EVER,)


def test_a_day_of_a_time_zone_is_taken_whole() -> None:
    berlin = Calendar("DAY", 1, "Europe/Berlin")
    noon = from_iso("2026-03-29T12:00:00Z")
    (day,) = reach(berlin, [Window(noon, noon + 1)])
    assert day == Window(from_iso("2026-03-28T23:00:00Z"), from_iso("2026-03-29T22:00:00Z"))
    assert day.end - day.start == 23 * HOUR
