"""Rows that pass through: each comes out in the epoch that brings it, once, whatever is killed; nothing is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.laws import broken_laws
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import HOUR, SECOND
from state_store import MaintenancePolicy, StoreReader
from state_store import format as f
from tests.laws.agreement import as_table, ticks
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, commits, rows
from tests.laws.queries import AT_ONCE

pytestmark = pytest.mark.spark

NOW = NOON + HOUR
CDF = ", changes = 'cdf'"
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory'{changes});
CREATE MATERIALIZED VIEW out AS
SELECT k, 10 / v AS share, v + 1 AS more, ts FROM ev WHERE v <> 13 EMIT {strategy};
"""
KINDS = "CREATE MATERIALIZED VIEW kinds AS SELECT DISTINCT k FROM out;"
times = st.sampled_from([NOON, NOON + SECOND, NOON - HOUR, None, NOW + HOUR])
drawn_commits = commits(rows(times, values=(0, 2, 13, 40)), rows=(1, 5), commits=(2, 4))


def with_retractions(drawn: Commits) -> Commits:
    """Each commit but the first takes back what the one before it brought first, and its own last row.

    Of a commit with one row that is the same row, which can be taken back once.
    """
    return [
        [*commit, *({**row, "_weight": -1} for row in (*commit[1:][-1:], before[0]) if before is not commit)]
        for commit, before in zip(drawn, [drawn[0], *drawn], strict=False)
    ]


def after_each(runner: Runner, sql: str, log: Commits, *views: str) -> list[list[Observed]]:
    return list(ticks(runner, sql, log, frozenset(range(len(log))), *views, now=NOW, step=SECOND))


@pytest.mark.parametrize("changes", ["", CDF], ids=["appended", "taken_back"])
@on_spark(examples=2)
@given(drawn=drawn_commits, strategy=st.sampled_from(AT_ONCE))
def test_spark_and_the_reference_agree_after_every_tick(
    spark: Any, changes: str, drawn: Commits, strategy: str
) -> None:
    sql = SQL.format(changes=changes, strategy=strategy) + KINDS
    log = with_retractions(drawn) if changes else drawn
    on_spark = after_each(SparkRunner(lambda: spark, maintenance=EAGER), sql, log, "out", "kinds")
    for ours, expected in zip(on_spark, after_each(ReferenceRunner(), sql, log, "out", "kinds"), strict=True):
        for found, by_rule in zip(ours, expected, strict=True):
            assert as_table(found.table) == as_table(by_rule.table)
            assert len(found.side_output) == len(by_rule.side_output)
            assert broken_laws(found.table, found.changes, unique=found.unique) == []


def test_killed_after_every_write_each_row_comes_out_once(spark: Any) -> None:
    sql = SQL.format(changes=CDF, strategy="CHANGES")
    first = [{"k": k, "v": 2, "ts": NOON} for k in "aab"]
    log = [first, [{**first[0], "_weight": -1}, {"k": "c", "v": 40, "ts": NOON}]]
    (ours,) = after_each(SparkRunner(lambda: spark, crash=True), sql, log, "out")[-1]
    (expected,) = after_each(ReferenceRunner(), sql, log, "out")[-1]
    assert as_table(ours.table) == as_table(expected.table)
    assert len(ours.changes) == len(expected.changes)


def test_nothing_is_kept_and_a_row_that_was_never_there_takes_nothing_away(spark: Any, tmp_path: Path) -> None:
    plan = plan_script(SQL.format(changes=CDF, strategy="CHANGES"))[0]
    source = MemoryConnector(plan.query.inputs[0].source, tmp_path)
    source.append([{"k": "a", "v": 2, "ts": NOON}], 1)
    source.append([{"k": "z", "v": 2, "ts": NOON, "_weight": -1}], 2)
    options = RunOptions(now=lambda: NOW, max_files=1)
    epochs = run_view(plan, spark, project=tmp_path, data=tmp_path / "data", options=options)
    reader = StoreReader(tmp_path / "data" / "out")
    assert [epoch.counts["rows_out"] for epoch in epochs] == [1, 0]
    assert [row["k"] for row in reader.read(f.OUTPUT).to_pylist()] == ["a"]
    assert not (tmp_path / "data" / "out" / f.PARTIALS).exists()
