"""A view as a source: its epochs are in the order of their numbers, and one that is old begins with its table."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.correcting import backfill
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.explain import explain
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import SECOND, to_iso
from state_store import CommitRow, MaintenancePolicy, StoreReader
from state_store import format as f
from tests.laws.logs import NOON

pytestmark = pytest.mark.spark

SOURCE = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND)
WITH (connector = 'memory');
"""
PASSED = "CREATE MATERIALIZED VIEW upper AS SELECT k, v, ts FROM ev;"
CLOSED = """
CREATE MATERIALIZED VIEW upper AS SELECT window_end AS ts, k, SUM(v) AS v
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""
CHANGING = """
CREATE MATERIALIZED VIEW upper AS SELECT window_end AS ts, k, SUM(v) AS v
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k EMIT CHANGES;
"""
SESSIONS = """
CREATE MATERIALIZED VIEW lower AS SELECT window_start, COUNT(*) AS n, SUM(v) AS s
FROM SESSION(upper, ts, INTERVAL '5' SECOND) GROUP BY window_start, window_end EMIT CHANGES;
"""
TOTALS = "CREATE MATERIALIZED VIEW lower AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM upper GROUP BY k EMIT CHANGES;"


class Chain:
    """`lower` reads `upper`, which reads `ev`."""

    def __init__(self, spark: Any, root: Path, sql: str, policy: MaintenancePolicy | None = None) -> None:
        self.spark, self.root = spark, root
        self.plans: dict[str, Plan] = {plan.query.view: plan for plan in plan_script(SOURCE + sql)}
        self.policy = policy or MaintenancePolicy()
        self._order = 0

    def append(self, *rows: tuple[str, int, int]) -> None:
        """One commit of rows: a key, a value, seconds after noon."""
        self._order += 1
        ev = MemoryConnector(self.plans["upper"].query.inputs[0].source, self.root)
        ev.append([{"k": k, "v": v, "ts": NOON + at * SECOND} for k, v, at in rows], self._order)

    def tick(self, view: str, now: int, **options: Any) -> list[CommitRow]:
        chosen = RunOptions(now=lambda: NOON + now * SECOND, maintenance=self.policy, **options)
        return run_view(self.plans[view], self.spark, project=self.root, data=self.root / "data", options=chosen)

    def table(self, view: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = StoreReader(self.root / "data" / view).read(f.OUTPUT).to_pylist()
        return sorted(tuple(row[name] for name in columns) for row in rows)


@pytest.mark.parametrize("lower", [SESSIONS, TOTALS], ids=["sessions", "groups"])
def test_epochs_are_taken_in_their_order_when_the_clock_was_set_back(spark: Any, tmp_path: Path, lower: str) -> None:
    chain = Chain(spark, tmp_path, PASSED + lower)
    chain.append(("a", 1, 1), ("a", 2, 20))
    chain.tick("upper", 100)
    chain.append(("a", 4, 21), ("a", 8, 40))
    chain.tick("upper", 98)
    chain.tick("lower", 101)
    counts = chain.table("lower", "n", "s")
    assert (sum(n for n, _ in counts), sum(s for _, s in counts)) == (4, 15)


def test_processing_time_never_falls_from_one_epoch_to_the_next(spark: Any, tmp_path: Path) -> None:
    chain = Chain(spark, tmp_path, PASSED)
    for now in (100, 98, 101):
        chain.append(("a", 1, now - 100))
        chain.tick("upper", now)
    times = [commit.processing_time for commit in StoreReader(tmp_path / "data" / "upper").log.commits()]
    assert [(time - NOON) // SECOND for time in times[::-1]] == [100, 100, 101]


NONE = timedelta(0)
# As after a week of ticks: files are merged, and what only earlier epochs need is gone.
OLD = MaintenancePolicy(merge_files=2, vacuum_every=1, retain_epochs=1, retain_state=NONE, retain_results=NONE)


@pytest.mark.parametrize("upper", [CLOSED, CHANGING], ids=["appends", "changes"])
@pytest.mark.parametrize("lower", [SESSIONS, TOTALS], ids=["sessions", "groups"])
def test_a_new_view_over_an_old_one_begins_with_its_table(spark: Any, tmp_path: Path, upper: str, lower: str) -> None:
    chain = Chain(spark, tmp_path, upper + lower, OLD)
    for step in range(12):
        chain.append(("a", 1, step * 10), ("b", 2, step * 10 + 1), ("c", 1, step * 10 + 2))
        chain.tick("upper", 200 + step)
    (first,) = chain.tick("lower", 300)
    upstream = chain.table("upper", "k", "v")
    assert first.counts["rows_in"] == len(upstream)
    assert sum(n for (n,) in chain.table("lower", "n")) == len(upstream)
    chain.append(("a", 7, 125), ("a", 1, 140))
    chain.tick("upper", 301)
    chain.tick("lower", 302)
    after = chain.table("upper", "k", "v")
    assert len(after) > len(upstream)
    assert sum(s for (s,) in chain.table("lower", "s")) == sum(v for _, v in after)


def test_a_new_view_over_a_corrected_one_whose_earlier_tables_are_gone_begins_with_its_table(
    spark: Any, tmp_path: Path
) -> None:
    chain = Chain(spark, tmp_path, CLOSED + TOTALS, OLD)
    for step in range(4):
        chain.append(("a", 1, step * 10))
        chain.tick("upper", 200 + step)
    options = RunOptions(now=lambda: NOON + 300 * SECOND, maintenance=OLD)
    window = (NOON, NOON + 20 * SECOND)
    backfill(chain.plans["upper"], spark, project=tmp_path, data=tmp_path / "data", ranges=[window], options=options)
    for step in range(4, 9):
        chain.append(("a", 1, step * 10))
        chain.tick("upper", 301 + step)
    chain.tick("lower", 400)
    assert chain.table("lower", "n", "s") == [(8, 8)]


def test_what_waits_for_a_watermark_over_a_view_that_has_none_is_refused() -> None:
    bare = SOURCE.replace(", WATERMARK FOR ts AS ts - INTERVAL '0' SECOND", "")
    over = (
        "CREATE MATERIALIZED VIEW lower AS SELECT window_start, SUM(v) AS s FROM TUMBLE(upper, ts, INTERVAL '1' HOUR)"
    )
    grouped = " GROUP BY window_start, window_end EMIT "
    with pytest.raises(LaminarError, match='sources of view "upper"'):
        plan_script(f"{bare}{CHANGING}{over}{grouped}ON WINDOW CLOSE;")
    (_, plan) = plan_script(f"{bare}{CHANGING}{over}{grouped}CHANGES;")
    assert "not bounded: no watermark" in explain(plan)


def test_two_sources_may_read_the_same_files(spark: Any, tmp_path: Path) -> None:
    """One of the rows is late, so that each is judged by its file, and FIRST asks for the order of files."""
    columns = "(v BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (connector = 'files', format = 'json', path = 'in')"
    (plan,) = plan_script(f"""
        CREATE SOURCE one {columns}; CREATE SOURCE two {columns};
        CREATE MATERIALIZED VIEW both AS SELECT window_start, COUNT(*) AS n, SUM(v) AS s, FIRST(v) AS f FROM TUMBLE(
            (SELECT v, at FROM one WHERE v < 5 UNION ALL SELECT v * 10 AS v, at FROM two), at, INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end EMIT CHANGES;""")
    (tmp_path / "in").mkdir()
    for name, rows in {"1": [(1, 10), (2, 200)], "2": [(3, 20), (4, 201)]}.items():
        lines = [json.dumps({"v": v, "at": to_iso(NOON + at * SECOND)}) for v, at in rows]
        (tmp_path / "in" / f"{name}.json").write_text("\n".join(lines))
        os.utime(tmp_path / "in" / f"{name}.json", (int(name), int(name)))
    shown = []
    for data, options in (("whole", {}), ("cut", {"max_files": 1})):
        run_view(
            plan,
            spark,
            project=tmp_path,
            data=tmp_path / data,
            options=RunOptions(now=lambda: NOON + SECOND * 300, **options),
        )
        reader = StoreReader(tmp_path / data / "both")
        rows = reader.read(f.OUTPUT).to_pylist()
        shown.append((sorted((row["n"], row["s"], row["f"]) for row in rows), reader.read(f.SIDE_OUTPUT).num_rows))
    assert shown[0] == shown[1]
    assert shown[0][1] == 2
