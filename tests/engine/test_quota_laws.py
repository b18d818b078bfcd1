"""Limits on random logs, under any cut into epochs: Spark keeps and evicts what the reference does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine import merging
from state_store import MaintenancePolicy
from tests.laws import queries
from tests.laws.agreement import as_table, aside, at_last
from tests.laws.examples import on_spark
from tests.laws.logs import Commits, after_noon, commits, cuts, rows
from tests.laws.queries import LIMIT_OPTIONS, lateness, limits, source

pytestmark = pytest.mark.spark

WINDOWS = {**queries.WINDOWS, "tumble": "TUMBLE(ev, ts, INTERVAL '5' SECOND)"}
WINDOWED = """
CREATE MATERIALIZED VIEW out AS
SELECT window_id, window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s
FROM {window} WHERE v <> 13 GROUP BY window_start, window_end, k
{lateness} EMIT {emit} WITH ({limits});
"""
KEPT = """
CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, k, v FROM {window} WHERE v <> 13
EMIT ON WINDOW CLOSE WITH (max_state_rows = {most});
"""
GROUPS = "CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ev GROUP BY k WITH ({limits});"
drawn_rows = rows(after_noon(0, 25), keys=("a", "b", "c", None), values=(1, 2, 13))
drawn_commits = commits(drawn_rows, rows=(1, 6), commits=(2, 4))


def agree(spark: Any, sql: str, drawn: Commits, cut: frozenset[int], *, eager: bool = False) -> None:
    maintenance = MaintenancePolicy(files_per_bucket=1) if eager else None
    found = at_last(SparkRunner(lambda: spark, maintenance=maintenance), source() + sql, drawn, cut)
    wanted = at_last(ReferenceRunner(), source() + sql, drawn, frozenset())
    assert as_table(found.table) == as_table(wanted.table)
    assert aside(found) == aside(wanted)


@pytest.mark.parametrize("kind", ["tumble", "hop", "cumulate"])
@on_spark(examples=3)
@given(
    drawn=drawn_commits,
    cut=cuts(4),
    late=st.sampled_from([0, 3]),
    emit=st.sampled_from(["ON WINDOW CLOSE", "CHANGES"]),
    limits=limits(),
    few=st.sampled_from([0, merging.FEW_PAIRS]),
)
def test_limits_of_fixed_windows_keep_the_same_rows_under_any_cut(
    spark: Any, kind: str, drawn: Commits, cut: frozenset[int], late: int, emit: str, limits: str, few: int
) -> None:
    sql = WINDOWED.format(window=WINDOWS[kind], lateness=lateness(late), emit=emit, limits=limits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "FEW_PAIRS", few)
        agree(spark, sql, drawn, cut, eager=few == 0)


@on_spark(examples=3)
@given(drawn=drawn_commits, cut=cuts(4), late=st.sampled_from([0, 3]), limits=limits(LIMIT_OPTIONS[1:]))
def test_limits_of_sessions_keep_the_same_rows_under_any_cut(
    spark: Any, drawn: Commits, cut: frozenset[int], late: int, limits: str
) -> None:
    form = {"window": WINDOWS["session"], "lateness": lateness(late), "emit": "ON WINDOW CLOSE", "limits": limits}
    agree(spark, WINDOWED.format(**form), drawn, cut)


@on_spark(examples=3)
@given(drawn=drawn_commits, cut=cuts(4), kind=st.sampled_from(["tumble", "hop"]), most=st.integers(1, 4))
def test_a_limit_of_rows_that_are_kept_keeps_the_same_under_any_cut(
    spark: Any, drawn: Commits, cut: frozenset[int], kind: str, most: int
) -> None:
    agree(spark, KEPT.format(window=WINDOWS[kind], most=most), drawn, cut)


@on_spark(examples=3)
@given(drawn=drawn_commits, cut=cuts(4), limits=limits(LIMIT_OPTIONS[2:]))
def test_a_limit_of_groups_without_a_window_keeps_the_same_under_any_cut(
    spark: Any, drawn: Commits, cut: frozenset[int], limits: str
) -> None:
    agree(spark, GROUPS.format(limits=limits), drawn, cut)
