"""Compaction: many partials become few, the results stay what they were, and a kill leaves the state as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine import compaction
from laminar_dagster.engine.crash import CrashError
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import MINUTE, SECOND, from_iso
from state_store import MaintenancePolicy, StoreReader

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, d DECIMAL(10,2), x DOUBLE, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a, SUM(d) AS d, AVG(d) AS ad, MIN(x) AS lo, MAX(k) AS hk
FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""
PLAN = plan_script(SQL)[0]


def a_row(second: int, v: int = 1) -> dict[str, Any]:
    return {"k": "a", "v": v, "d": Decimal("0.10"), "x": float(second), "ts": NOON + second * SECOND}


@pytest.fixture
def source(tmp_path: Path) -> MemoryConnector:
    return MemoryConnector(PLAN.query.inputs[0].source, tmp_path)


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Iterator[ViewRun]:
    options = RunOptions(max_files=1)
    with open_view(PLAN, spark, project=tmp_path, data=tmp_path / "data", options=options) as view:
        yield view


def commit_and_step(source: MemoryConnector, run: ViewRun, *commits: list[dict[str, Any]]) -> None:
    for rows in commits:
        source.append(rows, source.backlog(0))
        assert run.step() is not None


def the_result(tmp_path: Path) -> list[dict[str, Any]]:
    rows = StoreReader(tmp_path / "data" / "out").read("output").to_pylist()
    return [{name: row[name] for name in ("k", "n", "s", "a", "d", "ad", "lo", "hk")} for row in rows]


def test_a_compacted_window_closes_with_the_same_result(tmp_path: Path, source: MemoryConnector, run: ViewRun) -> None:
    commit_and_step(source, run, [a_row(0, 2**62)], [a_row(1, 2**62)])
    assert compaction.compact_if_due(run.runtime, threshold=1) == 2
    assert len(run.runtime.store.table("partials").files()) == 1
    commit_and_step(source, run, [{**a_row(2), "v": -(2**62)}], [a_row(60)])
    assert the_result(tmp_path) == [
        {
            "k": "a",
            "n": 3,
            "s": 2**62,
            "a": 2**62 / 3,
            "d": Decimal("0.30"),
            "ad": Decimal("0.100000"),
            "lo": 0.0,
            "hk": "a",
        }
    ]


def test_compaction_forgets_the_windows_that_are_closed(source: MemoryConnector, run: ViewRun) -> None:
    commit_and_step(source, run, [a_row(0), a_row(59), a_row(61)], [a_row(62)])
    assert compaction.compact_if_due(run.runtime, threshold=1) == 2
    files = run.runtime.store.table("partials").files()
    assert [file.low["pane_start"] for file in files] == [NOON + MINUTE]


def test_a_kill_before_the_commit_of_a_compaction_leaves_the_state_as_it_was(
    tmp_path: Path, source: MemoryConnector, run: ViewRun
) -> None:
    commit_and_step(source, run, [a_row(0)], [a_row(1)])
    before = run.runtime.store.table("partials").files()

    def crash(_: str) -> None:
        raise CrashError

    run.runtime.store.after_write = crash
    with pytest.raises(CrashError):
        compaction.compact_if_due(run.runtime, threshold=1)
    run.runtime.store.after_write = lambda _: None
    assert run.runtime.store.table("partials").files() == before
    commit_and_step(source, run, [a_row(60)])
    assert the_result(tmp_path)[0]["n"] == 2


def test_the_number_of_state_files_stays_bounded_over_many_epochs(source: MemoryConnector, run: ViewRun) -> None:
    run.options = replace(run.options, maintenance=MaintenancePolicy(files_per_bucket=4))
    for second in range(12):
        commit_and_step(source, run, [a_row(second)])
        assert len(run.runtime.store.table("partials").files()) <= 5
