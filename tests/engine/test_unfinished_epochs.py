"""An epoch that was planned and not finished: whose query may finish it, and how it is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import HOUR, MINUTE, from_iso
from state_store import CommitRow, StoreReader

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE ev (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, SUM(v) AS s FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
NOON = from_iso("2026-01-01T12:00:00Z")


class Project:
    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.source = MemoryConnector(plan_script(SQL)[0].query.inputs[0].source, root)

    def run(self, sql: str = SQL, **options: Any) -> list[CommitRow]:
        plan = plan_script(sql)[0]
        chosen = RunOptions(**options)
        return run_view(plan, self.spark, project=self.root, data=self.root / "data", options=chosen)

    def killed_in_its_first_epoch(self, writes: int) -> None:
        self.source.append([{"v": 1, "ts": NOON}], 0)
        with pytest.raises(CrashError):
            self.run(after_write=raising_after(writes))


@pytest.fixture
def project(spark: Any, tmp_path: Path) -> Project:
    return Project(spark, tmp_path)


@pytest.mark.parametrize("writes", [1, 3])
def test_another_query_may_not_finish_the_first_epoch_of_a_view(project: Project, writes: int) -> None:
    project.killed_in_its_first_epoch(writes)
    with pytest.raises(LaminarError, match="LMR0405"):
        project.run(SQL.replace("SUM(v)", "SUM(v) * 2"))
    assert [commit.epoch for commit in project.run()] == [1]


def test_a_changed_query_may_plan_anew_if_nothing_has_landed(project: Project) -> None:
    project.killed_in_its_first_epoch(1)
    changed = SQL.replace("SUM(v)", "MAX(v)")
    assert [commit.epoch for commit in project.run(changed, replan=True)] == [1]


def test_a_plan_whose_file_is_lost_is_given_up_for_good(project: Project) -> None:
    project.killed_in_its_first_epoch(1)
    for path in project.source.root.glob("*.parquet"):
        path.unlink()
    with pytest.raises(LaminarError, match="LMR0601"):
        project.run()
    assert project.run(replan=True) == []
    assert project.run() == []
    assert StoreReader(project.root / "data" / "out").tail().unfinished is None


def test_settings_may_change_between_epochs_and_not_within_one(project: Project) -> None:
    project.killed_in_its_first_epoch(1)
    idle = SQL.replace("'memory'", "'memory', idle_timeout = '1 minute'")
    with pytest.raises(LaminarError, match="LMR0408"):
        project.run(idle)
    assert [commit.epoch for commit in project.run()] == [1]
    now = RunOptions().now() + HOUR
    assert [(c.epoch, c.watermark) for c in project.run(idle, now=lambda: now)] == [(2, now - MINUTE)]
    assert project.run(SQL, now=lambda: now) == []
