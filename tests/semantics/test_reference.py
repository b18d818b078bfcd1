from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.emit import CHANGES, EVERY, FINAL, ON_UPDATE, ON_WATERMARK, ON_WINDOW_CLOSE
from laminar_dagster.semantics.expressions import Call, Column, Literal
from laminar_dagster.semantics.query import SideOutput
from laminar_dagster.semantics.reference import Commit, Reference
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.windows import Cumulate, Hop, Session, Window
from tests.semantics.queries import (
    K,
    V,
    above,
    aside,
    named,
    ops,
    row,
    run,
    short,
    source,
    total,
    view,
)

INVERSE = Call("divide", (Literal(60, t.BIGINT), V), t.DOUBLE)
BIG = 2**62


# --- closing and lateness -------------------------------------------------------------------------------------


def test_the_epoch_that_moves_the_watermark_closes_with_its_own_rows() -> None:
    (epoch,) = run(view(), [[row("A", 1, 1), row("A", 2, 9), row("B", 0, 10)]])
    assert short(epoch.rows) == [(0, 10, "A", 2, 3)]


def test_a_commit_is_judged_by_the_commits_before_it_and_not_by_itself() -> None:
    (epoch,) = run(view(), [[row("A", 1, 25), row("A", 2, 1)], [row("A", 4, 2)]])
    assert short(epoch.rows) == [(0, 10, "A", 1, 2)]
    assert aside(epoch) == [("late", "allowed_lateness_exceeded", 4)]


def test_a_row_behind_the_watermark_whose_window_is_open_is_on_time() -> None:
    first, second = run(view(), [[row("A", 1, 9)]], [[row("A", 2, 1)]])
    assert first.watermark == 9 * SECOND
    assert second.side_output == ()


def test_a_late_row_enters_only_the_windows_still_open() -> None:
    hop = view(window=Hop(5 * SECOND, 10 * SECOND))
    _, second, third = run(hop, [[row("Z", 0, 10)]], [[row("A", 1, 9)]], [[row("Z", 0, 15)]])
    assert second.side_output == ()
    assert second.counts["partially_late_rows"] == 1
    assert (5, 15, "A", 1, 1) in short(third.rows)


def test_lateness_keeps_a_window_open_and_final_does_not_wait_for_it() -> None:
    epochs = ([[row("A", 1, 1)], [row("Z", 0, 10)]], [[row("A", 2, 2)]], [[row("Z", 0, 15)]])
    waiting = run(view(allowed_lateness=5 * SECOND), *epochs)
    assert [short(epoch.rows) for epoch in waiting] == [[], [], [(0, 10, "A", 2, 3)]]
    final = run(view(allowed_lateness=5 * SECOND, emit=FINAL), *epochs)
    assert short(final[0].rows) == [(0, 10, "A", 1, 1)]
    assert aside(final[1]) == [("late", "allowed_lateness_exceeded", 2)]


def test_an_entry_of_the_side_output_says_all_that_is_known() -> None:
    _, late = run(view(), [[row("A", 1, 12)]], [[row("B", 7, 3)]])
    (entry,) = late.side_output
    assert entry.row == row("B", 7, 3)
    assert entry.window == Window(0, 10 * SECOND)
    assert entry.group_key == {"k": "B"}
    assert (entry.event_time, entry.watermark) == (3 * SECOND, 12 * SECOND)


def test_metrics_only_counts_and_keeps_nothing() -> None:
    quiet = view(side_output=SideOutput({"late": "metrics_only"}))
    _, late = run(quiet, [[row("A", 1, 12)]], [[row("B", 7, 3)]])
    assert late.side_output == ()
    assert late.counts["late"] == 1


def test_cumulating_windows_close_one_after_another() -> None:
    epochs = run(
        view(window=Cumulate(10 * SECOND, 30 * SECOND)),
        [[row("A", 1, 5), row("A", 2, 15)]],
        [[row("A", 4, 25)]],
        [[row("Z", 0, 30)]],
    )
    closed = [short(epoch.rows) for epoch in epochs]
    assert closed == [[(0, 10, "A", 1, 1)], [(0, 20, "A", 2, 3)], [(0, 30, "A", 3, 7)]]


def test_a_row_between_the_windows_of_a_hop_is_counted_and_in_none() -> None:
    (epoch,) = run(view(window=Hop(10 * SECOND, 4 * SECOND)), [[row("A", 1, 5), row("A", 2, 13)]])
    assert epoch.counts["between_windows"] == 1
    assert epoch.side_output == ()


def test_rows_before_1970_are_counted_and_land_in_their_window() -> None:
    (epoch,) = run(view(), [[row("A", 1, -0.5), row("Z", 0, 0)]])
    assert short(epoch.rows) == [(-10, 0, "A", 1, 1)]
    assert epoch.counts["pre_epoch_rows"] == 1


# --- rows that are set aside ----------------------------------------------------------------------------------


def test_a_null_event_time_is_an_error_or_falls_back_to_processing_time() -> None:
    commits = [[row("A", 1, None)]]
    (strict,) = run(view(), commits, now=5 * SECOND)
    assert aside(strict) == [("error", "null_event_time", 1)]
    (lenient,) = run(view(emit=CHANGES, null_event_time="fallback"), commits, now=5 * SECOND)
    assert ops(lenient) == [("+I", 0, 10, "A", 1, 1)]
    assert lenient.watermark is None


def test_a_future_row_is_an_error_and_does_not_move_the_watermark() -> None:
    (epoch,) = run(view(), [[row("A", 1, 1), row("A", 2, 1000)]], now=10 * SECOND)
    assert aside(epoch) == [("error", "future_timestamp", 2)]
    assert epoch.watermark == 1 * SECOND


def test_a_row_that_where_removes_moves_the_watermark_and_is_never_late() -> None:
    filtered = view(where=above(0))
    first, second = run(filtered, [[row("A", 1, 1)], [row("A", -1, 20)]], [[row("A", -1, 2)]])
    assert short(first.rows) == [(0, 10, "A", 1, 1)]
    assert second.side_output == ()
    assert second.counts["filtered"] == 1


def test_an_unreadable_time_comes_before_where() -> None:
    (epoch,) = run(view(where=above(0)), [[row("A", -1, None)]])
    assert aside(epoch) == [("error", "null_event_time", -1)]


def test_a_row_whose_where_fails_is_an_error_even_if_it_is_late() -> None:
    doubtful = view(where=Call("gt", (INVERSE, Literal(1.0, t.DOUBLE)), t.BOOLEAN))
    _, second = run(doubtful, [[row("A", 1, 12)]], [[row("A", 0, 1)]])
    assert aside(second) == [("error", "division_by_zero", 0)]


def test_the_key_and_the_arguments_of_a_late_row_are_not_looked_at() -> None:
    late_key = replace(view(), keys=named(k=INVERSE))
    for query in (view(argument=INVERSE), late_key):
        _, second = run(query, [[row("A", 1, 12)]], [[row("A", 0, 1), row("A", 0, 13)]])
        assert aside(second) == [
            ("late", "allowed_lateness_exceeded", 0),
            ("error", "division_by_zero", 0),
        ]


def test_a_result_that_does_not_fit_gives_one_entry_when_it_would_be_emitted() -> None:
    rows = [[row("A", BIG, 1), row("A", BIG, 2), row("B", 1, 3)]]
    first, second = run(view(), rows, [[row("Z", 0, 10)]])
    assert first.side_output == ()
    assert short(second.rows) == [(0, 10, "B", 1, 1)]
    (entry,) = second.side_output
    assert (entry.kind, entry.reason, entry.group_key, entry.row) == ("error", "overflow", {"k": "A"}, None)


def test_a_changing_result_that_stops_fitting_is_deleted_and_reported_once() -> None:
    changing = view(emit=CHANGES)
    epochs = run(changing, [[row("A", BIG, 1)]], [[row("A", BIG, 2)]], [[row("A", 1, 3)]], [[row("A", -BIG, 4)]])
    assert [ops(epoch)[0][0] if epoch.changes else None for epoch in epochs] == ["+I", "-D", None, "+I"]
    assert [aside(epoch) for epoch in epochs] == [[], [("error", "overflow", None)], [], []]


def test_the_first_groups_of_a_window_stay_and_the_order_within_a_commit_is_by_key() -> None:
    limited = view(max_groups_per_window=2, emit=CHANGES)
    first, second = run(
        limited, [[row("C", 9, 1), row("B", 2, 2), row(None, 1, 3)]], [[row("A", 5, 4), row("B", 6, 5)]]
    )
    assert aside(first) == [("evicted", "max_groups", 9)]
    assert aside(second) == [("evicted", "max_groups", 5)]
    assert ops(second) == [("-U", 0, 10, "B", 1, 2), ("+U", 0, 10, "B", 2, 8)]


# --- emission -------------------------------------------------------------------------------------------------


def test_on_watermark_emits_when_the_watermark_reaches_the_end_and_corrects_within_lateness() -> None:
    query = view(emit=ON_WATERMARK, allowed_lateness=5 * SECOND)
    epochs = run(
        query,
        [[row("A", 1, 1)]],
        [[row("Z", 0, 10)]],
        [[row("A", 2, 2)]],
        [[row("Z", 0, 15)]],
        [[row("A", 4, 3)]],
    )
    assert [ops(epoch) for epoch in epochs] == [
        [],
        [("+I", 0, 10, "A", 1, 1)],
        [("-U", 0, 10, "A", 1, 1), ("+U", 0, 10, "A", 2, 3)],
        [],
        [],
    ]
    assert aside(epochs[-1]) == [("late", "allowed_lateness_exceeded", 4)]


def test_on_update_emits_each_changed_group_once_per_epoch() -> None:
    epochs = run(view(emit=ON_UPDATE), [[row("A", 1, 1)], [row("A", 2, 2)]], [[row("A", 0, 3)]], [])
    assert ops(epochs[0]) == [("+I", 0, 10, "A", 2, 3)]
    assert ops(epochs[1]) == [("-U", 0, 10, "A", 2, 3), ("+U", 0, 10, "A", 3, 3)]
    assert epochs[2].changes == ()


def test_every_waits_for_its_period_but_not_past_the_end_or_the_close_of_a_window() -> None:
    query = view(emit=EVERY, period=100 * SECOND, allowed_lateness=5 * SECOND)
    reference = Reference(query)
    steps = [(row("A", 1, 1), 0), (row("A", 2, 2), 50), (row("Z", 0, 10), 60), (row("A", 4, 3), 70)]
    seen = [ops(reference.epoch([Commit("ev", [r])], now * SECOND)) for r, now in steps]
    assert [[op[0] for op in found] for found in seen] == [["+I"], [], ["-U", "+U"], []]
    closing = reference.epoch([Commit("ev", [row("Z", 0, 15)])], 80 * SECOND)
    assert ops(closing) == [("-U", 0, 10, "A", 2, 3), ("+U", 0, 10, "A", 3, 7)]
    later = reference.epoch([], 100 * SECOND)
    assert [(op[0], op[3]) for op in ops(later)] == [("+I", "Z")]


def test_changes_delete_a_group_whose_last_row_is_retracted_and_insert_it_again() -> None:
    epochs = run(
        view(window=None, emit=CHANGES),
        [[row("A", 5, 1)]],
        [[row("A", 5, 1, -1)]],
        [[row("A", 7, 1)]],
    )
    assert [ops(epoch) for epoch in epochs] == [[("+I", "A", 1, 5)], [("-D", "A", 1, 5)], [("+I", "A", 1, 7)]]


def test_having_lets_a_row_in_and_out() -> None:
    having = Call("gt", (Column("a1", t.BIGINT), Literal(10, t.BIGINT)), t.BOOLEAN)
    epochs = run(
        view(window=None, emit=CHANGES, having=having),
        [[row("A", 5, 1)]],
        [[row("A", 7, 1)]],
        [[row("A", 7, 1, -1)]],
    )
    assert [ops(epoch) for epoch in epochs] == [[], [("+I", "A", 2, 12)], [("-D", "A", 2, 12)]]


def test_a_retraction_whose_window_is_closed_is_late_too() -> None:
    _, second = run(view(), [[row("A", 1, 1)], [row("Z", 0, 10)]], [[row("A", 1, 1, -1)]])
    assert aside(second) == [("late", "allowed_lateness_exceeded", 1)]


def test_a_projection_keeps_its_rows_until_the_window_closes() -> None:
    doubled = Call("multiply", (V, Literal(2, t.BIGINT)), t.BIGINT)
    query = replace(view(where=above(0)), keys=(), aggregates=(), output=named(k=K, twice=doubled), is_grouped=False)
    first, second = run(query, [[row("A", 1, 1), row("A", 1, 1), row("B", BIG, 2)]], [[row("Z", 9, 10)]])
    assert first.rows == ()
    assert aside(first) == [("error", "overflow", BIG)]
    assert short(second.rows) == [("A", 2), ("A", 2)]


def test_a_projection_without_a_window_passes_rows_and_retractions_on() -> None:
    query = replace(view(window=None, emit=CHANGES), keys=(), aggregates=(), output=named(k=K, v=V), is_grouped=False)
    reference = Reference(query)
    first = reference.epoch([Commit("ev", [row("A", 1, 1), row("A", 1, 1)])], 10**18)
    second = reference.epoch([Commit("ev", [row("A", 1, 1, -1)])], 10**18)
    assert (ops(first), ops(second)) == ([("+I", "A", 1)] * 2, [("-D", "A", 1)])
    assert reference.table == [{"k": "A", "v": 1}]


# --- sessions -------------------------------------------------------------------------------------------------

SESSION = Session(10 * SECOND)


def test_a_bridging_row_merges_two_sessions() -> None:
    query = view(window=SESSION, emit=CHANGES, sources=[source(lag=60 * SECOND)])
    first, second = run(query, [[row("A", 1, 0), row("A", 4, 18)]], [[row("A", 2, 9)]])
    assert ops(first) == [("+I", 0, 10, "A", 1, 1), ("+I", 18, 28, "A", 1, 4)]
    assert ops(second) == [("-D", 18, 28, "A", 1, 4), ("-U", 0, 10, "A", 1, 1), ("+U", 0, 28, "A", 3, 7)]


def test_a_session_whose_start_moves_back_is_another_one() -> None:
    query = view(window=SESSION, emit=CHANGES, sources=[source(lag=60 * SECOND)])
    _, second = run(query, [[row("A", 1, 5)]], [[row("A", 2, 0)]])
    assert ops(second) == [("-D", 5, 15, "A", 1, 1), ("+I", 0, 15, "A", 2, 3)]


def test_a_retraction_splits_a_session() -> None:
    query = view(window=SESSION, sources=[source(lag=60 * SECOND)])
    rows = [row("A", 1, 0), row("A", 2, 8), row("A", 4, 16)]
    _, _, closing = run(query, [rows], [[row("A", 2, 8, -1)]], [[row("Z", 0, 300)]])
    assert short(closing.rows) == [(0, 10, "A", 1, 1), (16, 26, "A", 1, 4)]


def test_a_row_of_a_closed_session_is_late_unless_it_touches_an_open_one() -> None:
    query = view(window=SESSION)
    first, second = run(query, [[row("A", 1, 0)], [row("Z", 0, 20)]], [[row("A", 2, 5), row("Z", 1, 10)]])
    assert short(first.rows) == [(0, 10, "A", 1, 1)]
    assert aside(second) == [("late", "allowed_lateness_exceeded", 2)]


def test_rows_of_one_commit_are_merged_before_they_are_judged() -> None:
    query = view(window=SESSION)
    _, second, third = run(query, [[row("Z", 0, 100)]], [[row("A", 1, 85), row("A", 2, 93)]], [[row("Z", 0, 103)]])
    assert second.side_output == ()
    assert short(third.rows) == [(85, 103, "A", 2, 3)]


def test_a_closed_session_is_not_joined_again() -> None:
    query = view(window=SESSION)
    first, second = run(query, [[row("A", 1, 0)], [row("Z", 0, 10)]], [[row("A", 2, 10)], [row("Z", 0, 40)]])
    assert short(first.rows) == [(0, 10, "A", 1, 1)]
    assert (10, 20, "A", 1, 2) in short(second.rows)


def test_an_emitted_session_that_grows_beyond_the_watermark_is_taken_back_until_it_ends_again() -> None:
    query = view(window=SESSION, emit=ON_WATERMARK, allowed_lateness=30 * SECOND)
    epochs = run(query, [[row("A", 1, 0)], [row("Z", 0, 10)]], [[row("A", 2, 9)]], [[row("Z", 0, 19)]])
    assert ops(epochs[0]) == [("+I", 0, 10, "A", 1, 1)]
    assert ops(epochs[1]) == [("-D", 0, 10, "A", 1, 1)]
    assert ops(epochs[2]) == [("+I", 0, 19, "A", 2, 3)]


def test_a_retraction_of_a_closed_session_does_not_reach_the_open_one_beside_it() -> None:
    query = view(window=SESSION)
    closed = [[row("A", 1, 0)], [row("Z", 0, 10)]]
    _, second = run(query, closed, [[row("A", 2, 10)], [row("A", 1, 0, -1)]])
    assert aside(second) == [("late", "allowed_lateness_exceeded", 1)]


# --- several sources ------------------------------------------------------------------------------------------


def test_a_slow_source_keeps_windows_open_for_the_fast_one() -> None:
    reference = Reference(view(sources=[source("a"), source("b")], emit=ON_WINDOW_CLOSE))
    reference.epoch([Commit("a", [row("x", 1, 1)]), Commit("b", [row("y", 1, 2)])], 10**18)
    fast = reference.epoch([Commit("a", [row("x", 2, 500)]), Commit("a", [row("x", 4, 3)])], 10**18)
    assert (fast.rows, fast.side_output) == ((), ())
    slow = reference.epoch([Commit("b", [row("y", 2, 10)])], 10**18)
    assert short(slow.rows) == [(0, 10, "x", 2, 5), (0, 10, "y", 1, 1)]


def test_an_idle_source_closes_the_last_window_on_an_empty_tick() -> None:
    reference = Reference(view(sources=[source(idle_timeout=60 * SECOND)]))
    reference.epoch([Commit("ev", [row("A", 1, 1)])], 0)
    assert reference.epoch([], 59 * SECOND).rows == ()
    assert short(reference.epoch([], 70 * SECOND).rows) == [(0, 10, "A", 1, 1)]


def test_distinct_aggregates_see_each_value_once() -> None:
    once = replace(total(), kernel=AGGREGATES["sum"].kernel(t.BIGINT, distinct=True), distinct=True)
    query = replace(view(), aggregates=(once,), output=named(s=Column("a1", t.BIGINT)))
    (epoch,) = run(query, [[row("A", 3, 1), row("A", 3, 2), row("A", 4, 3), row("Z", 0, 10)]])
    assert short(epoch.rows) == [(7,)]
