"""Every kind of window on random logs, under any cut into epochs: Spark gives what the reference gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine import merging
from laminar_dagster.semantics.time import SECOND
from state_store import MaintenancePolicy
from tests.laws.agreement import as_table, aside, at_last
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, Row, after_noon, commits, cuts, rows
from tests.laws.queries import WINDOWS, lateness, source

pytestmark = pytest.mark.spark

KINDS = {
    **WINDOWS,
    "hop_slide_is_size": "HOP(ev, ts, INTERVAL '5' SECOND, INTERVAL '5' SECOND)",
}
GROUPED = """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi
FROM {window}
WHERE v <> 13
GROUP BY window_start, window_end, k
{lateness}
EMIT ON WINDOW CLOSE;
"""
FIRST_ROWS = """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, v, ROW_NUMBER() OVER (PARTITION BY window_end{by} ORDER BY v DESC NULLS LAST) AS n
FROM {window}
QUALIFY n <= {limit}
{lateness}
EMIT ON WINDOW CLOSE;
"""
drawn_commits = commits(rows(after_noon(-10, 40)), rows=(1, 5), commits=(2, 6))


def at(seconds: int) -> Row:
    return {"k": "a", "v": 1, "ts": NOON + seconds * SECOND}


# The first commit closes the session of :00 (its end and the lateness are :06, the watermark is :07); the row of the
# second touches it, is not late, and so begins a session of its own.
BESIDE_A_CLOSED_SESSION = [[at(0), at(9)], [at(3)]]


@pytest.mark.parametrize("kind", ["hop", "cumulate", "session"])
@on_spark(examples=4)
@given(drawn=drawn_commits, cut=cuts(6), by=st.sampled_from(["", ", k"]), limit=st.integers(1, 2))
@example(drawn=BESIDE_A_CLOSED_SESSION, cut=frozenset(), by="", limit=2)
def test_the_first_rows_of_windows_are_the_same_under_any_cut(
    spark: Any, kind: str, drawn: Commits, cut: frozenset[int], by: str, limit: int
) -> None:
    sql = source() + FIRST_ROWS.format(window=KINDS[kind], by=by, limit=limit, lateness=lateness(3))
    eager = MaintenancePolicy(files_per_bucket=1)
    on_spark = at_last(SparkRunner(lambda: spark, maintenance=eager), sql, drawn, cut)
    by_rule = at_last(ReferenceRunner(), sql, drawn, frozenset())
    assert as_table(on_spark.table) == as_table(by_rule.table)
    assert aside(on_spark) == aside(by_rule)


@pytest.mark.parametrize("kind", KINDS)
@on_spark(examples=5)
@given(drawn=drawn_commits, cut=cuts(6), late=st.sampled_from([0, 3]), few=st.sampled_from([0, merging.FEW_PAIRS]))
@example(drawn=BESIDE_A_CLOSED_SESSION, cut=frozenset(), late=3, few=0)
def test_spark_and_the_reference_agree_under_any_cut_into_epochs(
    spark: Any, kind: str, drawn: Commits, cut: frozenset[int], late: int, few: int
) -> None:
    sql = source() + GROUPED.format(window=KINDS[kind], lateness=lateness(late))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "FEW_PAIRS", few)
        on_spark = at_last(SparkRunner(lambda: spark), sql, drawn, cut)
    by_rule = at_last(ReferenceRunner(), sql, drawn, frozenset())
    assert as_table(on_spark.table) == as_table(by_rule.table)
    assert aside(on_spark) == aside(by_rule)
    assert on_spark.watermark == by_rule.watermark
