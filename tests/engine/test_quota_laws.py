"""Limits on random logs, under any cut into epochs: Spark keeps and evicts what the reference does."""

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
from laminar_dagster.semantics.quotas import LIMITS
from laminar_dagster.semantics.time import SECOND, from_iso
from state_store import MaintenancePolicy

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
WINDOWS = {
    "tumble": "TUMBLE(ev, ts, INTERVAL '5' SECOND)",
    "hop": "HOP(ev, ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(ev, ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "session": "SESSION(ev, ts, INTERVAL '3' SECOND)",
}
EV = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory');
"""
WINDOWED = """
CREATE MATERIALIZED VIEW out AS
SELECT window_id, window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s
FROM {window} WHERE v <> 13 GROUP BY window_start, window_end, k
ALLOW LATENESS INTERVAL '{lateness}' SECOND EMIT {emit} WITH ({limits});
"""
KEPT = """
CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, k, v FROM {window} WHERE v <> 13
ALLOW LATENESS INTERVAL '{lateness}' SECOND EMIT ON WINDOW CLOSE WITH (max_state_rows = {most});
"""
GROUPS = "CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ev GROUP BY k WITH ({limits});"
COLUMNS = ("window_id", "window_start", "window_end", "k", "v", "n", "s")
rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "c", None]),
        "v": st.sampled_from([1, 2, 13]),
        "ts": st.integers(0, 25).map(lambda seconds: NOON + seconds * SECOND),
    }
)
commits = st.lists(st.lists(rows, min_size=1, max_size=6), min_size=2, max_size=4)
cuts = st.frozensets(st.integers(0, 3))
small = st.integers(1, 4)
on_spark = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def limits(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Some of these options, each with a small number."""
    chosen = st.dictionaries(st.sampled_from(names), small, min_size=1)
    return chosen.map(lambda given: ", ".join(f"{name} = {most}" for name, most in given.items()))


ALL = tuple(limit.option for limit in LIMITS)


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


def agree(spark: Any, sql: str, drawn: list[list[dict[str, Any]]], cut: frozenset[int], *, eager: bool = False) -> None:
    maintenance = MaintenancePolicy(files_per_bucket=1) if eager else None
    found = observed(SparkRunner(lambda: spark, maintenance=maintenance), sql, drawn, cut)
    wanted = observed(ReferenceRunner(), sql, drawn, frozenset())
    columns = [name for name in COLUMNS if name in (wanted.table or [{}])[0]]
    assert _counted(found.table, columns) == _counted(wanted.table, columns)
    assert _aside(found) == _aside(wanted)


def _counted(table: Any, columns: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in columns) for row in table)


def _aside(found: Observed) -> Counter[tuple[Any, ...]]:
    return Counter(
        (entry["kind"], entry["reason"], *(entry["row"][name] for name in ("k", "v", "ts")))
        for entry in found.side_output
    )


@pytest.mark.parametrize("kind", ["tumble", "hop", "cumulate"])
@on_spark
@given(
    drawn=commits,
    cut=cuts,
    lateness=st.sampled_from([0, 3]),
    emit=st.sampled_from(["ON WINDOW CLOSE", "CHANGES"]),
    limits=limits(ALL),
    few=st.sampled_from([0, merging.FEW_PAIRS]),
)
def test_limits_of_fixed_windows_keep_the_same_rows_under_any_cut(
    spark: Any, kind: str, drawn: Any, cut: Any, lateness: int, emit: str, limits: str, few: int
) -> None:
    sql = EV + WINDOWED.format(window=WINDOWS[kind], lateness=lateness, emit=emit, limits=limits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "FEW_PAIRS", few)
        agree(spark, sql, drawn, cut, eager=few == 0)


@on_spark
@given(drawn=commits, cut=cuts, lateness=st.sampled_from([0, 3]), limits=limits(ALL[1:]))
def test_limits_of_sessions_keep_the_same_rows_under_any_cut(
    spark: Any, drawn: Any, cut: Any, lateness: int, limits: str
) -> None:
    sql = WINDOWED.format(window=WINDOWS["session"], lateness=lateness, emit="ON WINDOW CLOSE", limits=limits)
    agree(spark, EV + sql, drawn, cut)


@on_spark
@given(drawn=commits, cut=cuts, kind=st.sampled_from(["tumble", "hop"]), most=small)
def test_a_limit_of_rows_that_are_kept_keeps_the_same_under_any_cut(
    spark: Any, drawn: Any, cut: Any, kind: str, most: int
) -> None:
    agree(spark, EV + KEPT.format(window=WINDOWS[kind], lateness=0, most=most), drawn, cut)


@on_spark
@given(drawn=commits, cut=cuts, limits=limits(ALL[2:]))
def test_a_limit_of_groups_without_a_window_keeps_the_same_under_any_cut(
    spark: Any, drawn: Any, cut: Any, limits: str
) -> None:
    agree(spark, EV + GROUPS.format(limits=limits), drawn, cut)
