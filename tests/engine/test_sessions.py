"""Sessions as the seed of the timers asks: they survive, they close on time, and stale timers are recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.open_windows import open_windows
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import MILLISECOND, SECOND
from state_store import CommitRow, StoreReader

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE ev (k STRING, value BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'memory', idle_timeout = '10 seconds');
CREATE MATERIALIZED VIEW sessions AS
SELECT SESSION_START(ts, INTERVAL '1' SECOND) AS s, SESSION_END(ts, INTERVAL '1' SECOND) AS e, SUM(value) AS total
FROM ev GROUP BY SESSION(ts, INTERVAL '1' SECOND)
EMIT ON WINDOW CLOSE;
"""
PLAN = plan_script(SQL)[0]
NOW = 100 * SECOND


class Project:
    """One view over one source; every tick is a run of its own, as after a process that is gone."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.source = MemoryConnector(PLAN.query.inputs[0].source, root)

    def tick(self, *rows: tuple[int, int], now: int = NOW) -> CommitRow:
        if rows:
            entries = [{"k": "a", "value": value, "ts": at * MILLISECOND} for at, value in rows]
            self.source.append(entries, self.source.backlog(0))
        options = RunOptions(now=lambda: now)
        done = run_view(PLAN, self.spark, project=self.root, data=self.root / "data", options=options)
        return done[-1]

    def reader(self) -> StoreReader:
        return StoreReader(self.root / "data" / "sessions")

    def rows(self) -> list[tuple[int, int, int]]:
        found = self.reader().read("output").to_pylist()
        return sorted((int(r["s"].timestamp() * 1000), int(r["e"].timestamp() * 1000), r["total"]) for r in found)


@pytest.fixture
def project(spark: Any, tmp_path: Path) -> Project:
    return Project(spark, tmp_path)


def test_the_seeds_case_gives_nothing_then_one_session(project: Project) -> None:
    project.tick((0, 10), (500, 20))
    assert project.rows() == []
    closed = project.tick((3000, 100))
    assert project.rows() == [(0, 1500, 30)]
    assert closed.counts["sessions_closed_by_watermark"] == 1


def test_a_session_whose_source_falls_silent_closes_by_its_timer(project: Project) -> None:
    project.tick((0, 10), (500, 20))
    closed = project.tick(now=NOW + 20 * SECOND)
    assert project.rows() == [(0, 1500, 30)]
    assert (closed.counts["sessions_closed_by_timer"], closed.counts["sessions_closed_by_watermark"]) == (1, 0)


def test_a_timer_whose_session_went_on_is_stale_and_skipped(project: Project) -> None:
    project.tick((0, 1))
    project.tick((900, 2))
    project.tick((1800, 4))
    assert project.rows() == []
    closed = project.tick((9000, 8))
    assert project.rows() == [(0, 2800, 7)]
    assert closed.counts["stale_timers"] >= 1


def test_what_stays_open_after_a_close_is_one_session_and_is_shown(project: Project) -> None:
    project.tick((0, 1), (5000, 2), (5900, 4))
    commit = project.tick((6800, 8))
    assert project.rows() == [(0, 1000, 1)]
    (shown,) = open_windows(PLAN, project.reader(), commit)
    assert (shown.window.start, shown.window.end) == (5000 * MILLISECOND, 7800 * MILLISECOND)
    assert (shown.rows, shown.partials) == (3, 2)
    project.tick((20000, 16))
    assert project.rows()[1] == (5000, 7800, 14)


def test_no_session_is_stuck_and_none_comes_twice_over_many_epochs(project: Project) -> None:
    for start in range(0, 40_000, 4000):
        project.tick((start, 1), (start + 700, 1))
    project.tick((100_000, 1), now=200 * SECOND)
    assert project.rows() == [(start, start + 1700, 2) for start in range(0, 40_000, 4000)]
    assert project.reader().sizes()["partials"]["rows"] == 1
