"""Corrections where something stands in the way: rows set aside for other reasons, hidden sessions, edges, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from laminar_dagster.engine.correcting import backfill, backfill_of, fold_late, previewed
from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.windows import Window
from tests.engine.corrected_view import EVER, NOON, NOW, CorrectedView, at, plain
from tests.engine.test_corrections import BOUNDS, grouped
from tests.laws.queries import HOP, SESSION, TUMBLE, source

pytestmark = pytest.mark.spark

Open = Callable[[str], CorrectedView]


@pytest.fixture
def opened(spark: Any) -> Iterator[Open]:
    made: list[CorrectedView] = []

    def view(sql: str) -> CorrectedView:
        made.append(CorrectedView(spark, sql))
        return made[-1]

    yield view
    for one in made:
        one.close()


def second(seconds: int) -> int:
    return NOON + seconds * SECOND


def table(view: CorrectedView, *columns: str) -> list[tuple[Any, ...]]:
    """The view's rows, bounds of windows as seconds after noon."""

    def value(row: Any, name: str) -> Any:
        return (row[name] - NOON) // SECOND if name.startswith("window") else row[name]

    return sorted(tuple(value(row, name) for name in columns) for row in view.look().table)


def options(view: CorrectedView) -> dict[str, Any]:
    root = view.runner.root
    return {"project": root, "data": root / "data", "options": RunOptions(now=lambda: NOW)}


def test_a_late_row_joins_a_closed_session_to_an_open_one_which_closes_whole(opened: Open) -> None:
    view = opened(grouped(SESSION, "EMIT ON WINDOW CLOSE"))
    view.take([at(0), at(2)], [at(12, "b")], [at(5)], [at(8)])
    assert table(view, *BOUNDS.split(", "), "n") == [(0, 5, "a", 2)]
    view.fold()
    assert table(view, "window_start") == [], "the session is open again, with all its rows"
    assert [row["_op"] for row in view.look().changes] == ["+I", "-D"]
    view.take([at(11), at(30)])
    assert table(view, *BOUNDS.split(", "), "n") == [(0, 14, "a", 5), (12, 15, "b", 1)]
    view.finish()


def test_a_session_that_having_hides_takes_the_ones_it_swallowed_away(opened: Open) -> None:
    view = opened(grouped(SESSION, "HAVING COUNT(*) < 4 EMIT ON WINDOW CLOSE"))
    view.take([at(0), at(2)], [at(7)], [at(40)], [at(5), at(6)])
    assert table(view, "window_start", "n") == [(0, 2), (7, 1)]
    view.runner.backfill("out", [(second(9), second(10))], NOW)
    assert table(view, "window_start", "n") == []
    assert plain(view.look().table) == plain([])
    view.finish()


def test_a_late_row_at_the_edge_of_a_backfill_counts_in_the_windows_inside_and_can_be_folded_into_the_others(
    opened: Open,
) -> None:
    view = opened(grouped(HOP, "EMIT ON WINDOW CLOSE"))
    view.take([at(60)], [at(9), at(12, v=1), at(13, "b")])
    view.backfill(second(12), second(13))
    inside = [(4, "a", 2), (4, "b", 1), (8, "a", 2), (8, "b", 1), (12, "a", 1), (12, "b", 1)]
    assert table(view, "window_start", "k", "n") == inside
    view.take([at(16)])
    view.runner.fold_late("out", NOW, "event_time >= '2026-01-01T12:00:16Z'")
    after = table(view, "window_start", "k", "n")
    assert set(after) >= {(8, "a", 3), (12, "a", 2), (16, "a", 1)}, "what counted in a window still does"
    view.fold()
    assert (0, "a", 1) in table(view, "window_start", "k", "n")
    view.finish()


def test_rows_that_were_set_aside_for_another_reason_stay_aside(opened: Open) -> None:
    keyed = source().replace("'memory'", "'memory', unique_key = 'k, v', unique_within = '5 seconds'")
    limits = " WITH (max_groups_per_window = 2, max_state_rows = 3)"
    view = opened(keyed + grouped(TUMBLE, "EMIT ON WINDOW CLOSE" + limits).replace(source(), ""))
    ahead = at(31 * 24 * 3600, "future")
    twice = [at(1), at(1), at(2, "b", 1)]
    log = [twice, [at(3, "c", 1), ahead], [at(40, v=3)], [at(4, v=5), at(5, "d", 7), at(41, v=4)]]
    for commit in log:
        view.runner.commit("ev", commit)
        view.runner.tick(NOW)
    kinds = sorted((entry["kind"], entry["row"]["k"]) for entry in view.look().side_output)
    before = table(view, "window_start", "k", "n")
    assert before == [(0, "a", 1), (0, "b", 1)]
    assert kinds == [("duplicate", "a"), ("error", "future"), ("evicted", "c"), ("late", "a"), ("late", "d")]
    view.runner.backfill("out", [(EVER.start, EVER.end)], NOW)
    assert table(view, "window_start", "k", "n") == [(0, "a", 2), (0, "b", 1), (0, "d", 1)]
    view.runner.backfill("out", [(EVER.start, EVER.end)], ahead["ts"] + SECOND)
    assert table(view, "window_start", "k", "n") == [(0, "a", 2), (0, "b", 1), (0, "d", 1)]
    view.runner.commit("ev", [at(80, v=9)])
    view.runner.tick(NOW)
    assert table(view, "window_start", "k", "n")[3:] == [(40, "a", 2)], "open windows were left as they were"


def test_a_group_whose_result_no_longer_fits_its_type_is_deleted_with_one_error_entry(opened: Open) -> None:
    view = opened(grouped(TUMBLE, "EMIT ON WINDOW CLOSE"))
    view.take([at(1, v=(1 << 63) - 1)], [at(40)])
    view.runner.commit("ev", [at(2)])
    view.runner.tick(NOW)
    view.runner.fold_late("out", NOW)
    view.runner.backfill("out", [(second(0), second(10))], NOW)
    found = view.look()
    assert (found.table, [row["_op"] for row in found.changes]) == ([], ["+I", "-D"])
    assert [entry["reason"] for entry in found.side_output if entry["kind"] == "error"] == ["result_overflow"]


def test_row_numbers_are_those_of_the_rows_that_a_window_has_now(opened: Open) -> None:
    ranked = f"""CREATE MATERIALIZED VIEW out AS SELECT * FROM (
        SELECT window_start, window_end, k, v, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end ORDER BY v DESC) AS place FROM {TUMBLE}) WHERE place <= 2
        EMIT ON WINDOW CLOSE;"""
    view = opened(source() + ranked)
    view.take([at(1, v=5), at(2, "b", 7)], [at(30)], [at(3, "c", 6)])
    view.fold()
    assert table(view, "k", "v", "place") == [("b", 7, 1), ("c", 6, 2)]
    view.finish()


def test_what_cannot_be_corrected_is_refused_and_nothing_changes(opened: Open, spark: Any) -> None:
    never = opened(grouped(TUMBLE, "EMIT ON WINDOW CLOSE"))
    plan = never.runner.plan("out")
    given = {"ranges": [(second(0), second(10))]}
    assert backfill(plan, spark, **given, **options(never)) is None
    assert fold_late(plan, spark, **options(never)) is None
    never.take([at(1)], [at(40)], [at(2)])
    with pytest.raises(LaminarError, match="LMR0721"):
        fold_late(plan, spark, where="no_such_column = 1", **options(never))
    with pytest.raises(LaminarError, match=r"LMR0721[\s\S]*now"):
        fold_late(plan, spark, where="event_time < now()", **options(never))
    for several in ("true) OR (true", "true; SELECT 1"):
        with pytest.raises(LaminarError, match="LMR0721"):
            fold_late(plan, spark, where=several, **options(never))
    assert fold_late(plan, spark, where="event_time > '2027-01-01'", **options(never)) is None
    before = len(never.look().changes)
    commit = backfill(plan, spark, ranges=[(second(500), second(600))], **options(never))
    assert commit is not None
    assert (commit.counts["rows_out"], len(never.look().changes)) == (0, before), "a range without rows"
    timeless = opened(
        source()
        + f"""CREATE MATERIALIZED VIEW out AS SELECT window_start, COUNT(*) AS n FROM {TUMBLE}
        GROUP BY window_start, window_end EMIT ON WINDOW CLOSE WITH (on_null_event_time = 'fallback');"""
    )
    with pytest.raises(LaminarError, match="LMR0724"):
        backfill(timeless.runner.plan("out"), spark, **given, **options(timeless))
    counted = opened(grouped(TUMBLE, "EMIT ON WINDOW CLOSE WITH (side_output.late = 'metrics_only')"))
    for commit_ in ([at(1)], [at(40)], [at(2), at(13)]):
        counted.runner.commit("ev", commit_)
        counted.runner.tick(NOW)
    with pytest.raises(LaminarError, match="LMR0722"):
        fold_late(counted.runner.plan("out"), spark, **options(counted))
    backfill(counted.runner.plan("out"), spark, **given, **options(counted))
    assert table(counted, "window_start", "n") == [(0, 2)]


def test_a_dry_run_tells_what_the_correction_then_does_and_writes_nothing(opened: Open, spark: Any) -> None:
    view = opened(grouped(TUMBLE, "EMIT ON WINDOW CLOSE"))
    view.take([at(1), at(11, "b")], [at(60)], [at(2), at(25, "c")])
    plan = view.runner.plan("out")
    correction = backfill_of([(second(0), second(30))])
    with open_view(plan, spark, **options(view)) as run:
        before = run.last
        shown = previewed(run, correction)
        assert shown is not None
        assert [row["_op"] for row in shown.changes.to_pylist()] == ["-U", "+U", "+I"]
        assert shown.partitions == {"2026-01-01": {"+I": 1, "+U": 1, "-U": 1}}
    with open_view(plan, spark, **options(view)) as run:
        assert run.last == before
        commit = run.correct(correction)
        assert commit is not None
        assert {name: commit.counts[name] for name in shown.counts} == shown.counts
        assert (commit.counts["folded_rows"], commit.corrected["partitions"]) == (2, shown.partitions)


def test_an_epoch_that_was_cut_short_is_finished_first_and_a_dry_run_waits_for_that(opened: Open, spark: Any) -> None:
    view = opened(grouped(TUMBLE, "EMIT ON WINDOW CLOSE"))
    view.take([at(1)], [at(60)])
    view.runner.commit("ev", [at(2)])
    view.rows.append(at(2))
    plan, given = view.runner.plan("out"), options(view)

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    stopped = {**given, "options": RunOptions(now=lambda: NOW, after_write=stop)}
    with pytest.raises(KeyboardInterrupt), open_view(plan, spark, **stopped) as run:
        run.drain()
    correction = backfill_of([(second(0), second(10))])
    with pytest.raises(LaminarError, match="LMR0726"), open_view(plan, spark, **given) as run:
        previewed(run, correction)
    view.backfill(second(0), second(10))
    assert table(view, "window_start", "n") == [(0, 2)]
    view.repeat(backfill=Window(second(0), second(10)))
