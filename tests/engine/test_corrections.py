"""Corrections on random logs: a backfilled view is the view that would be if every row had been on time.

The oracle is the plain reference, given all rows in one commit: nothing is late in it. The changelog sums to the table
after every step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from laminar_dagster.conformance.harness import Observed
from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import HOUR, SECOND, from_iso
from state_store import MaintenancePolicy

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
NOW = NOON + HOUR
EVER = ((-(1 << 62), 1 << 62),)
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
SOURCE = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory'{changes});
"""
GROUPED = """
CREATE MATERIALIZED VIEW out AS
SELECT {shown}, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi FROM {window} WHERE v <> 13
GROUP BY window_start, window_end, k HAVING SUM(v) > 1 {fill} EMIT {strategy};
"""
BOUNDS = "window_start, window_end, k"
TUMBLE = "TUMBLE(ev, ts, INTERVAL '10' SECOND)"
VIEWS = {
    "tumble": GROUPED.format(shown=BOUNDS, window=TUMBLE, fill="", strategy="ON WINDOW CLOSE"),
    "tumble without its identity": GROUPED.format(shown="v_sum AS t", window=TUMBLE, fill="", strategy="FINAL").replace(
        "v_sum AS t", "MIN(v) AS lo"
    ),
    "hop on watermark": GROUPED.format(
        shown=BOUNDS, window="HOP(ev, ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)", fill="", strategy="ON WATERMARK"
    ),
    "session": GROUPED.format(
        shown=BOUNDS, window="SESSION(ev, ts, INTERVAL '3' SECOND)", fill="", strategy="ON WINDOW CLOSE"
    ),
    "session, changes": GROUPED.format(
        shown=BOUNDS, window="SESSION(ev, ts, INTERVAL '3' SECOND)", fill="", strategy="CHANGES"
    ),
    "gaps filled": GROUPED.format(shown=BOUNDS, window=TUMBLE, fill="GAP FILL LOCF", strategy="ON WINDOW CLOSE"),
    "projection": f"""CREATE MATERIALIZED VIEW out AS SELECT window_start, k, v FROM {TUMBLE} WHERE v <> 13
        EMIT ON WINDOW CLOSE;""",
    "groups": """CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ev WHERE v <> 13 GROUP BY k
        EMIT CHANGES;""",
}
rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "v": st.sampled_from([1, 2, 13, 40]),
        "ts": st.integers(0, 40).map(lambda seconds: NOON + seconds * SECOND),
    }
)
commits = st.lists(st.lists(rows, min_size=1, max_size=4), min_size=2, max_size=5)
Log = list[list[dict[str, Any]]]
few = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def on_time(sql: str, log: Log, view: str = "out") -> Observed:
    runner = ReferenceRunner()
    try:
        runner.open(sql)
        runner.commit("ev", [row for commit in log for row in commit])
        runner.tick(NOW)
        return runner.observe(view)
    finally:
        runner.close()


def ticked(runner: SparkRunner, sql: str, log: Log) -> None:
    runner.open(sql)
    for commit in log:
        runner.commit("ev", commit)
        runner.tick(NOW)


def table(found: Observed) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(data_columns(row).items(), key=str)) for row in found.table)


def assert_lawful(found: Observed) -> None:
    if found.changes:
        assert broken_laws(found.table, found.changes, unique=found.unique) == []


@pytest.mark.parametrize("kind", VIEWS)
@few
@given(log=commits, again=st.booleans())
def test_a_backfill_of_everything_is_the_view_as_if_all_had_been_on_time(
    spark: Any, kind: str, log: Log, again: bool
) -> None:
    sql = SOURCE.format(changes="") + VIEWS[kind]
    runner = SparkRunner(lambda: spark, maintenance=EAGER)
    try:
        ticked(runner, sql, log)
        before = runner.observe("out")
        runner.backfill("out", EVER, NOW)
        found = runner.observe("out")
        assert table(found) == table(on_time(sql, log))
        assert_lawful(found)
        assert found.watermark == before.watermark
        more = [[{"k": "a", "v": 2, "ts": NOON + 60 * SECOND}]]
        if again:
            runner.backfill("out", EVER, NOW)
            assert len(runner.observe("out").changes) == len(found.changes)
        for commit in more:
            runner.commit("ev", commit)
            runner.tick(NOW)
        after = runner.observe("out")
        assert table(after) == table(on_time(sql, [*log, *more]))
        assert_lawful(after)
    finally:
        runner.close()
