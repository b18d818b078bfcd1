"""Corrections under random ticks, late rows, backfills and fold-backs, and on the cases that are hard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.time import HOUR, SECOND
from laminar_dagster.semantics.windows import Window
from tests.engine.corrected_view import NOON, CorrectedView, Row, at
from tests.laws.examples import on_spark
from tests.laws.logs import KEYS, VALUES, commits
from tests.laws.queries import CUMULATE, HOP, SESSION, TUMBLE, source

pytestmark = pytest.mark.spark

GROUPED = """
CREATE MATERIALIZED VIEW out AS
SELECT {shown}, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi FROM {window} WHERE v <> 13
GROUP BY window_start, window_end, k {rest};
"""
BOUNDS = "window_start, window_end, k"


def grouped(window: str, rest: str, shown: str = BOUNDS) -> str:
    return source() + GROUPED.format(shown=shown, window=window, rest=rest)


VIEWS = {
    "tumble": grouped(TUMBLE, "HAVING SUM(v) > 1 EMIT ON WINDOW CLOSE"),
    "tumble on watermark": grouped(TUMBLE, "ALLOW LATENESS INTERVAL '3' SECOND EMIT ON WATERMARK"),
    "hop": grouped(HOP, "HAVING SUM(v) > 1 EMIT ON WINDOW CLOSE"),
    "cumulate": grouped(CUMULATE, "EMIT CHANGES"),
    "session": grouped(SESSION, "EMIT ON WINDOW CLOSE"),
    "session, changes": grouped(SESSION, "EMIT CHANGES"),
    "gaps filled": grouped(TUMBLE, "GAP FILL LOCF EMIT ON WINDOW CLOSE"),
}
OTHERS = {
    "tumble that does not show its group": grouped(TUMBLE, "EMIT FINAL", shown="MIN(v) AS lo"),
    "calendar": grouped("TUMBLE(ev, ts, INTERVAL '1' DAY, TIME ZONE 'Europe/Berlin')", "EMIT ON WINDOW CLOSE"),
    "hop on watermark": grouped(HOP, "ALLOW LATENESS INTERVAL '3' SECOND EMIT ON WATERMARK"),
    "projection": source()
    + f"""CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, k, v FROM {TUMBLE} WHERE v <> 13
        EMIT ON WINDOW CLOSE;""",
    "groups": source()
    + """CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ev WHERE v <> 13 GROUP BY k
        EMIT CHANGES;""",
}
drawn_rows = st.tuples(st.integers(0, 40), st.sampled_from(KEYS), st.sampled_from(VALUES))
drawn_commits = commits(drawn_rows, rows=(1, 4), commits=(2, 3))
ranges = st.tuples(st.integers(-5, 40), st.integers(1, 12))
chosen = st.sampled_from([None, "group_key LIKE '%a%'", "event_time < '2026-01-01T12:00:20Z'"])


@pytest.mark.parametrize("kind", VIEWS)
@on_spark(examples=2)
@given(first=drawn_commits, backfilled=ranges, second=drawn_commits, where=chosen, again=ranges)
def test_a_corrected_view_is_what_its_rows_say(
    spark: Any, kind: str, first: Any, backfilled: Any, second: Any, where: str | None, again: Any
) -> None:
    go_through(spark, VIEWS[kind], first, backfilled, second, where, again)


# Late rows before and after each correction, inside of its range, across its edge and outside; windows that stay open.
TELLING = (
    [[(1, "a", 2), (12, "b", 1)], [(30, "a", 40)], [(3, "a", 1), (11, "b", 40), (22, None, 2)]],
    (9, 5),
    [[(5, "b", 2), (19, "a", 13)], [(14, "a", 2), (33, "b", 1)]],
    "group_key LIKE '%a%'",
    (20, 12),
)


@pytest.mark.parametrize("kind", OTHERS)
def test_so_is_a_view_of_another_kind(spark: Any, kind: str) -> None:
    go_through(spark, OTHERS[kind], *TELLING, unit=3 * HOUR if kind == "calendar" else SECOND)


def go_through(
    spark: Any, sql: str, first: Any, backfilled: Any, second: Any, where: str | None, again: Any, unit: int = SECOND
) -> None:
    view = CorrectedView(spark, sql)
    try:
        view.take(*_commits(first, unit))
        view.backfill(*_range(backfilled, unit))
        view.take(*_commits(second, unit))
        view.fold(where)
        view.backfill(*_range(again, unit))
        view.repeat(backfill=Window(*_range(again, unit)))
        view.fold()
        view.repeat(backfill=None)
        view.finish()
    finally:
        view.close()


def _commits(drawn: Any, unit: int) -> list[list[Row]]:
    return [[at(seconds, k, v, unit) for seconds, k, v in commit] for commit in drawn]


def _range(drawn: tuple[int, int], unit: int) -> tuple[int, int]:
    start, length = drawn
    return NOON + start * unit, NOON + (start + length) * unit
