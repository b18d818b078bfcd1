"""Rows that have processing time: where they land, that they are counted, and that a run warns of it once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from laminar_dagster.cli.run import run_and_report
from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.integration import laminar_assets
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import MINUTE, SECOND
from state_store import CommitRow
from tests.integration.shop import GivenSpark
from tests.laws.agreement import as_table, aside
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, after_noon, commits, rows
from tests.laws.queries import source

pytestmark = pytest.mark.spark

FALLING_BACK = (
    source(lag=5)
    + """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM {window}
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE WITH (on_null_event_time = 'fallback');
"""
)
WINDOWS = (
    "TUMBLE(ev, ts, INTERVAL '10' SECOND)",
    "HOP(ev, ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "SESSION(ev, ts, INTERVAL '4' SECOND)",
)
drawn_rows = rows(st.one_of(st.none(), after_noon(-20, 40)), keys="ab", values=range(1, 10))
# Commits, and by how many seconds the clock moves on to the tick that takes them.
drawn_commits = commits(drawn_rows, rows=(1, 4), commits=(0, 3))
drawn_ticks = st.lists(st.tuples(drawn_commits, st.integers(0, 15)), min_size=1, max_size=3)
Ticks = list[tuple[Commits, int]]


def observed(runner: Runner, sql: str, log: Ticks) -> Observed:
    try:
        runner.open(sql)
        now = NOON
        for commits, seconds in log:
            for commit in commits:
                runner.commit("ev", commit)
            now += seconds * SECOND
            runner.tick(now)
        return runner.observe("out")
    finally:
        runner.close()


@on_spark(examples=4)
@given(log=drawn_ticks, window=st.sampled_from(WINDOWS))
def test_spark_and_the_reference_agree_on_rows_that_fall_back(spark: Any, log: Ticks, window: str) -> None:
    sql = FALLING_BACK.format(window=window)
    on_engine = observed(SparkRunner(lambda: spark), sql, log)
    on_reference = observed(ReferenceRunner(), sql, log)
    assert as_table(on_engine.table) == as_table(on_reference.table)
    assert aside(on_engine) == aside(on_reference)
    assert on_engine.watermark == on_reference.watermark


def run(spark: Any, root: Path, sql: str, rows: list[dict[str, Any]]) -> CommitRow:
    plan = plan_script(sql)[0]
    MemoryConnector(plan.query.inputs[0].source, root).append(rows, 0)
    options = RunOptions(now=lambda: NOON + 5 * SECOND)
    (commit,) = run_view(plan, spark, project=root, data=root / "data", options=options)
    return commit


def test_rows_that_fall_back_are_counted_and_do_not_move_the_watermark(spark: Any, tmp_path: Path) -> None:
    sql = FALLING_BACK.format(window=WINDOWS[0]).replace("GROUP BY", "WHERE v < 9 GROUP BY")
    timed = {"k": "a", "v": 1, "ts": NOON}
    late = {"k": "a", "v": 2, "ts": None}
    commit = run(spark, tmp_path, sql, [timed, late, late, {**late, "v": 9}])
    assert commit.counts["null_event_time_rows"] == 3
    assert (commit.counts["aggregated"], commit.counts["filtered"], commit.counts["error"]) == (3, 1, 0)
    assert commit.watermark == NOON - 5 * SECOND
    assert "processing_time_fallback_rows" not in commit.counts


TIMELESS = """
CREATE SOURCE ev (k STRING, v BIGINT) WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(ev, INTERVAL '1' HOUR) GROUP BY window_start, window_end EMIT CHANGES;
"""


@pytest.fixture
def timeless(tmp_path: Path) -> Project:
    """A project whose source has no event time, and no file yet."""
    (tmp_path / "sql").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "sql" / "out.sql").write_text(TIMELESS)
    return Project.find(tmp_path)


def land(project: Project, name: str) -> None:
    (project.root / "landing" / name).write_text('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n{"k"\n')


def test_run_warns_once_of_a_source_without_event_time_and_each_epoch_counts_its_rows(
    spark: Any, timeless: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    land(timeless, "1.json")
    land(timeless, "2.json")
    commits: list[CommitRow] = []
    options = RunOptions(max_files=1)
    (plan,) = timeless.plans()
    assert run_and_report(plan, spark, timeless, options, Console(stderr=True), as_json=False)
    told = capsys.readouterr()
    assert told.err.count('warning: out: no event time is known for "ev"') == 1
    assert "2 epoch(s), 6 rows in" in told.out
    land(timeless, "3.json")
    run_view(plan, spark, project=timeless.root, data=timeless.data, on_epoch=commits.append)
    assert [commit.counts["processing_time_fallback_rows"] for commit in commits] == [2]
    (commit,) = commits
    assert commit.watermark == commit.processing_time > MINUTE


def test_dagster_logs_the_warning_once(spark: Any, timeless: Project) -> None:
    GivenSpark.session = spark
    state = dg.AssetSelection.assets(["out", "state"])
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(laminar_assets(timeless, resource=GivenSpark()), instance=instance, selection=state)
        logged = [entry for entry in instance.all_logs(done.run_id) if entry.level == logging.WARNING]
    assert done.success
    assert ["no event time is known" in entry.user_message for entry in logged] == [True]
