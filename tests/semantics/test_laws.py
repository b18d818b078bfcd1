"""Laws of the reference: what holds for every log, however it is cut and ordered."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.emit import CHANGES, EMIT_POLICIES, FINAL, ON_UPDATE, ON_WATERMARK, ON_WINDOW_CLOSE
from laminar_dagster.semantics.expressions import Call, Literal
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.reference import Commit, EpochResult, Reference
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.windows import Calendar, Cumulate, Hop, Session, Tumble
from laminar_dagster.semantics.zset import Change, applied, identity, summed
from tests.laws.logs import commits, edges, in_epochs, rows, seconds_after
from tests.semantics.queries import LATER, V, above, row, source, view

ROWS = rows(st.one_of(st.none(), seconds_after(0, -5, 60)), keys=("A", "B", None), values=(-1, 0, 1, 2, 5, None))
COMMITS = commits(ROWS, rows=(0, 5), commits=(0, 8))
INVERSE = Call("divide", (Literal(60, t.BIGINT), V), t.DOUBLE)
WINDOWS = st.sampled_from(
    [
        Tumble(10 * SECOND),
        Tumble(7 * SECOND, 3 * SECOND),
        Hop(4 * SECOND, 10 * SECOND),
        Cumulate(5 * SECOND, 15 * SECOND),
        Calendar("DAY", 1, "Europe/Berlin"),
        Session(4 * SECOND),
    ]
)
LATENESS = st.sampled_from([0, 6 * SECOND])
LAG = st.sampled_from([0, 5 * SECOND])
Rows = list[dict[str, Any]]


def epochs_of(query: Query, commits: Sequence[Rows], cuts: Sequence[int]) -> tuple[Reference, list[EpochResult]]:
    reference = Reference(query)
    results = [reference.epoch([Commit("ev", rows) for rows in epoch], LATER) for epoch in in_epochs(commits, cuts)]
    return reference, results


def outcome(query: Query, commits: Sequence[Rows], cuts: Sequence[int]) -> tuple[Any, ...]:
    """All that must not depend on the cut: the table, the side output, the watermark and the counts."""
    reference, results = epochs_of(query, commits, cuts)
    side = Counter(
        (e.kind, e.reason, identity(e.row or {}), e.window, e.watermark) for r in results for e in r.side_output
    )
    counts = sum((Counter(dict(r.counts)) for r in results), Counter())
    return Counter(map(identity, reference.table)), side, reference.watermark, counts


@given(COMMITS, edges, st.sampled_from([ON_WINDOW_CLOSE, FINAL]), WINDOWS, LATENESS, LAG)
def test_append_only_output_does_not_depend_on_the_cut_into_epochs(
    commits: list[Rows], cuts: list[int], emit: Any, window: Any, lateness: int, lag: int
) -> None:
    query = view(emit=emit, window=window, allowed_lateness=lateness, sources=[source(lag=lag)], argument=INVERSE)
    assert outcome(query, commits, cuts) == outcome(query, commits, [])


@given(COMMITS, edges, st.sampled_from([ON_WATERMARK, ON_UPDATE, CHANGES]), WINDOWS, LATENESS)
def test_the_table_of_a_changing_view_does_not_depend_on_the_cut_either(
    commits: list[Rows], cuts: list[int], emit: Any, window: Any, lateness: int
) -> None:
    query = view(emit=emit, window=window, allowed_lateness=lateness)
    assert outcome(query, commits, cuts) == outcome(query, commits, [])


@given(COMMITS, st.randoms(use_true_random=False), st.sampled_from([ON_WINDOW_CLOSE, FINAL]), WINDOWS)
def test_the_order_of_rows_within_a_commit_has_no_meaning(
    commits: list[Rows], shuffler: random.Random, emit: Any, window: Any
) -> None:
    query = view(emit=emit, window=window, max_groups_per_window=2, where=above(0))
    shuffled = [shuffler.sample(rows, len(rows)) for rows in commits]
    assert outcome(query, shuffled, []) == outcome(query, commits, [])


@given(commits(ROWS, rows=(0, 5), commits=(1, 8)), edges, WINDOWS, LATENESS, st.data())
def test_a_row_dated_a_year_ahead_changes_nothing_but_its_own_entry(
    commits: list[Rows], cuts: list[int], window: Any, lateness: int, data: st.DataObject
) -> None:
    query = view(window=window, allowed_lateness=lateness, sources=[source(max_future_skew=300 * SECOND)])
    ahead = {**row("A", 1, 0), "ts": LATER + 365 * 86_400 * SECOND}
    place = data.draw(st.integers(0, len(commits) - 1))
    disturbed = [[*rows, ahead] if number == place else rows for number, rows in enumerate(commits)]
    table, side, watermark, counts = outcome(query, commits, cuts)
    found_table, found_side, found_watermark, found_counts = outcome(query, disturbed, cuts)
    assert (found_table, found_watermark) == (table, watermark)
    assert [entry[:2] for entry in (found_side - side).elements()] == [("error", "future_timestamp")]
    assert found_counts - counts == Counter({"rows_in": 1, "error": 1})
    assert not counts - found_counts


@given(COMMITS, edges, WINDOWS)
def test_every_row_is_aggregated_filtered_or_set_aside(commits: list[Rows], cuts: list[int], window: Any) -> None:
    query = view(window=window, where=above(-1), argument=INVERSE, max_groups_per_window=1)
    _, results = epochs_of(query, commits, cuts)
    for result in results:
        counts = Counter(dict(result.counts))
        fates = ("aggregated", "filtered", "late", "error", "evicted", "between_windows")
        assert counts["rows_in"] == sum(counts[fate] for fate in fates)
        set_aside = [entry for entry in result.side_output if entry.row is not None]
        assert len(set_aside) == counts["late"] + counts["error"] + counts["evicted"]


@given(COMMITS, edges, st.sampled_from(EMIT_POLICIES), WINDOWS, LATENESS)
def test_the_changelog_summed_to_any_epoch_is_the_table(
    commits: list[Rows], cuts: list[int], emit: Any, window: Any, lateness: int
) -> None:
    query = view(emit=emit, window=window, allowed_lateness=lateness, period=10 * SECOND)
    reference = Reference(query)
    changes: list[Change] = []
    appended: list[Any] = []
    for number, commit in enumerate(commits):
        result = reference.epoch([Commit("ev", commit)], number * 3 * SECOND + 10**15)
        changes += result.changes
        appended += result.rows
        assert Counter(map(identity, reference.table)) == Counter(map(identity, [*applied(changes), *appended]))
        assert all(weight == 1 for _, weight in summed(changes))


@given(st.lists(ROWS, max_size=10), st.data())
def test_retracting_rows_leaves_what_a_fresh_computation_over_the_rest_gives(rows: Rows, data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.just([]))
    query = view(window=None, emit=CHANGES)
    retractions = [{**rows[i], "_weight": -1} for i in gone]
    left = [r for i, r in enumerate(rows) if i not in gone]
    incremental, _ = epochs_of(query, [rows, retractions], [1])
    fresh, _ = epochs_of(query, [left], [])
    assert Counter(map(identity, incremental.table)) == Counter(map(identity, fresh.table))


@given(COMMITS, WINDOWS)
def test_windows_that_were_emitted_never_change_and_appear_once(commits: list[Rows], window: Any) -> None:
    _, results = epochs_of(view(window=window), commits, range(len(commits)))
    seen = [(r["start"], r["end"], r["k"]) for result in results for r in result.rows]
    assert len(seen) == len(set(seen))
