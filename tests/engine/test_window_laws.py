"""Every kind of window on random logs, under any cut into epochs: Spark gives what the reference gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine import merging
from laminar_dagster.semantics.time import SECOND, from_iso
from state_store import MaintenancePolicy

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
WINDOWS = {
    "hop": "HOP(ev, ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)",
    "hop_slide_is_size": "HOP(ev, ts, INTERVAL '5' SECOND, INTERVAL '5' SECOND)",
    "cumulate": "CUMULATE(ev, ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "session": "SESSION(ev, ts, INTERVAL '3' SECOND)",
}
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi
FROM {window}
WHERE v <> 13
GROUP BY window_start, window_end, k
ALLOW LATENESS INTERVAL '{lateness}' SECOND
EMIT ON WINDOW CLOSE;
"""
rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "v": st.sampled_from([1, 2, 13, 40]),
        "ts": st.integers(-10, 40).map(lambda seconds: NOON + seconds * SECOND),
    }
)
commits = st.lists(st.lists(rows, min_size=1, max_size=5), min_size=2, max_size=6)


def observed(runner: Runner, sql: str, drawn: list[list[dict[str, Any]]], ticks: frozenset[int]) -> Observed:
    try:
        runner.open(sql)
        for position, commit in enumerate(drawn):
            runner.commit("ev", commit)
            if position in ticks:
                runner.tick(None)
        runner.tick(None)
        return runner.observe("out")
    finally:
        runner.close()


RESULTS = ("window_start", "window_end", "k", "n", "s", "hi")


def table(found: Observed, columns: tuple[str, ...] = RESULTS) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[c] for c in columns) for row in found.table)


def aside(found: Observed) -> Counter[tuple[Any, ...]]:
    return Counter((entry["kind"], *(entry["row"][c] for c in ("k", "v", "ts"))) for entry in found.side_output)


FIRST_ROWS = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, v, ROW_NUMBER() OVER (PARTITION BY window_end{by} ORDER BY v DESC NULLS LAST) AS n
FROM {window}
QUALIFY n <= {limit}
ALLOW LATENESS INTERVAL '3' SECOND
EMIT ON WINDOW CLOSE;
"""


@pytest.mark.parametrize("kind", ["hop", "cumulate", "session"])
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    drawn=commits,
    cut=st.frozensets(st.integers(0, 5)),
    by=st.sampled_from(["", ", k"]),
    limit=st.integers(1, 2),
)
def test_the_first_rows_of_windows_are_the_same_under_any_cut(
    spark: Any, kind: str, drawn: list[list[dict[str, Any]]], cut: frozenset[int], by: str, limit: int
) -> None:
    sql = FIRST_ROWS.format(window=WINDOWS[kind], by=by, limit=limit)
    eager = MaintenancePolicy(files_per_bucket=1)
    on_spark = observed(SparkRunner(lambda: spark, maintenance=eager), sql, drawn, cut)
    by_rule = observed(ReferenceRunner(), sql, drawn, frozenset())
    columns = ("window_start", "window_end", "k", "v", "n")
    assert table(on_spark, columns) == table(by_rule, columns)
    assert aside(on_spark) == aside(by_rule)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    drawn=commits,
    cut=st.frozensets(st.integers(0, 5)),
    lateness=st.sampled_from([0, 3]),
    few=st.sampled_from([0, merging.FEW_PAIRS]),
)
def test_spark_and_the_reference_agree_under_any_cut_into_epochs(
    spark: Any, kind: str, drawn: list[list[dict[str, Any]]], cut: frozenset[int], lateness: int, few: int
) -> None:
    sql = SQL.format(window=WINDOWS[kind], lateness=lateness)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "FEW_PAIRS", few)
        on_spark = observed(SparkRunner(lambda: spark), sql, drawn, cut)
    by_rule = observed(ReferenceRunner(), sql, drawn, frozenset())
    assert table(on_spark) == table(by_rule)
    assert aside(on_spark) == aside(by_rule)
    assert on_spark.watermark == by_rule.watermark
