"""Views that correct themselves, on random logs with retractions, under any cut: Spark does what the reference does.

After every tick the changelog sums to the table, and both are the reference's; the table is the batch result over the
rows that are live.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import HOUR, SECOND, from_iso
from laminar_dagster.semantics.zset import consolidate
from state_store import MaintenancePolicy

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
NOW = NOON + HOUR
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
WINDOWS = {
    "none": ("ev", ""),
    "tumble": ("TUMBLE(ev, ts, INTERVAL '10' SECOND)", "window_start, window_end, "),
    "hop": ("HOP(ev, ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)", "window_start, window_end, "),
    "session": ("SESSION(ev, ts, INTERVAL '3' SECOND)", "window_start, window_end, "),
}
STRATEGIES = ("CHANGES", "ON UPDATE", "EVERY INTERVAL '10' SECOND", "ON WATERMARK")
CHANGES = ", changes = 'cdf'"
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory'{changes});
CREATE MATERIALIZED VIEW out AS
SELECT {bounds}k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi, COUNT(DISTINCT v) AS d
FROM {window}
WHERE v <> 13
GROUP BY {bounds}k
HAVING SUM(v) > 1
{lateness}
EMIT {strategy};
"""
rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "v": st.sampled_from([1, 2, 13, 40]),
        "ts": st.integers(0, 40).map(lambda seconds: NOON + seconds * SECOND),
    }
)
commits = st.lists(st.lists(rows, min_size=1, max_size=4), min_size=2, max_size=5)


def with_retractions(drawn: list[list[dict[str, Any]]], picks: list[int]) -> list[list[dict[str, Any]]]:
    """Some rows of earlier commits are taken back by later ones, each once."""
    live: list[dict[str, Any]] = []
    out = []
    for commit, pick in zip(drawn, [*picks, *[0] * len(drawn)], strict=False):
        taken = [live.pop(pick % len(live)) for _ in range(min(2, len(live))) if pick]
        out.append([*commit, *({**row, "_weight": -1} for row in taken)])
        live += commit
    return out


def ticks(runner: Runner, sql: str, log: list[list[dict[str, Any]]], cut: frozenset[int]) -> list[Observed]:
    try:
        runner.open(sql)
        seen = []
        for position, commit in enumerate(log):
            runner.commit("ev", commit)
            if position in cut or position == len(log) - 1:
                runner.tick(NOW + position * 7 * SECOND)
                seen.append(runner.observe("out"))
        return seen
    finally:
        runner.close()


def summed(changes: Any) -> Counter[tuple[Any, ...]]:
    weighted = consolidate((data_columns(row), row["_weight"]) for row in changes)
    return Counter({tuple(sorted(row.items(), key=str)): weight for row, weight in weighted})


def table(found: Observed) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(data_columns(row).items(), key=str)) for row in found.table)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    drawn=commits,
    picks=st.lists(st.integers(0, 5), max_size=5),
    cut=st.frozensets(st.integers(0, 4)),
    strategy=st.sampled_from(STRATEGIES),
    retracts=st.booleans(),
)
def test_spark_and_the_reference_agree_after_every_tick(
    spark: Any, kind: str, drawn: list[list[dict[str, Any]]], picks: list[int], cut: frozenset[int], strategy: str,
    retracts: bool,
) -> None:  # fmt: skip
    window, bounds = WINDOWS[kind]
    if kind == "none" and strategy == "ON WATERMARK":
        strategy = "CHANGES"
    if kind == "session" and strategy.startswith("EVERY"):
        # Commits of sessions may be epochs of their own, and EVERY goes by epochs: one each, on both sides.
        cut = frozenset(range(len(drawn)))
    lateness = "ALLOW LATENESS INTERVAL '3' SECOND" if bounds else ""
    sql = SQL.format(
        changes=CHANGES if retracts else "", bounds=bounds, window=window, lateness=lateness, strategy=strategy
    )
    log = with_retractions(drawn, picks) if retracts else drawn
    on_spark = ticks(SparkRunner(lambda: spark, maintenance=EAGER), sql, log, cut)
    by_rule = ticks(ReferenceRunner(), sql, log, cut)
    for ours, expected in zip(on_spark, by_rule, strict=True):
        assert table(ours) == table(expected)
        assert summed(ours.changes) == summed(expected.changes)
        assert broken_laws(ours.table, ours.changes, unique=ours.unique) == []
        assert ours.watermark == expected.watermark
