"""What is said of open windows: how many rows they have, and when the last of these came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.open_windows import open_windows
from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import SECOND
from state_store import MaintenancePolicy

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '100' SECOND)
WITH (connector = 'memory'{more});
CREATE MATERIALIZED VIEW seen AS
SELECT window_start, window_end, k, SUM(v) AS total FROM {window} GROUP BY window_start, window_end, k
EMIT ON WINDOW CLOSE;
"""
WINDOWS = {
    "tumble": "TUMBLE(ev, ts, INTERVAL '10' SECOND)",
    "hop": "HOP(ev, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(ev, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "session": "SESSION(ev, ts, INTERVAL '4' SECOND)",
}
# Each entry is one epoch, at 1000, 1001, … seconds of processing time: key, event time, and -1 for a row taken back.
EPOCHS = [[("a", 1, 1), ("a", 3, 1), ("b", 12, 1)], [("a", 4, 1), ("a", 17, 1)], [("b", 13, 1), ("a", 3, -1)]]
Seen = list[tuple[int, int, int, int]]
FIXED: dict[str, Seen] = {
    "tumble": [(0, 10, 2, 1002), (10, 20, 3, 1002)],
    "hop": [(-5, 5, 2, 1002), (0, 10, 2, 1002), (5, 15, 2, 1002), (10, 20, 3, 1002), (15, 25, 1, 1001)],
    "cumulate": [(0, 5, 2, 1002), (0, 10, 2, 1002), (10, 15, 2, 1002), (10, 20, 3, 1002)],
}
# What holds the session of `a` together at 3 seconds is taken back, but 1 and 4 touch without it.
SESSIONS: Seen = [(1, 8, 2, 1001), (12, 17, 2, 1002), (17, 21, 1, 1001)]


class View:
    def __init__(self, spark: Any, root: Path, window: str, more: str = "") -> None:
        self.plan = plan_script(SQL.format(window=window, more=more))[0]
        self.source = MemoryConnector(self.plan.query.inputs[0].source, root)
        self.spark, self.root, self.now = spark, root, 1000 * SECOND

    def tick(self, rows: list[tuple[str, int, int]], files_per_bucket: int = 48) -> Seen:
        entries = [{"k": k, "v": 1, "ts": at * SECOND, "_weight": weight} for k, at, weight in rows]
        self.source.append(entries, self.source.backlog(0))
        now, policy = self.now, MaintenancePolicy(files_per_bucket=files_per_bucket)
        self.now += SECOND
        options = RunOptions(now=lambda: now, maintenance=policy)
        with open_view(self.plan, self.spark, project=self.root, data=self.root / "data", options=options) as run:
            run.drain()
            assert run.last is not None
            found = open_windows(self.plan, run.runtime.store.reader(), run.last)
        return [(w.window.start // SECOND, w.window.end // SECOND, w.rows, w.updated_at // SECOND) for w in found]


@pytest.mark.parametrize("files_per_bucket", [48, 1], ids=["as written", "merged"])
@pytest.mark.parametrize("kind", [*FIXED, "session"])
def test_rows_and_the_last_update_of_open_windows(spark: Any, tmp_path: Path, kind: str, files_per_bucket: int) -> None:
    view = View(spark, tmp_path, WINDOWS[kind], ", changes = 'cdf'")
    shown = [view.tick(rows, files_per_bucket) for rows in EPOCHS]
    assert shown[-1] == (SESSIONS if kind == "session" else FIXED[kind])
    assert sum(rows for _, _, rows, _ in shown[0]) == (6 if kind in ("hop", "cumulate") else 3)


def test_a_session_that_goes_on_keeps_its_rows_when_others_close(spark: Any, tmp_path: Path) -> None:
    view = View(spark, tmp_path, WINDOWS["session"])
    view.tick([("a", 1, 1), ("b", 1, 1)])
    view.tick([("a", 200, 1), ("b", 101, 1), ("b", 98, 1)])
    assert view.tick([("a", 202, 1)]) == [(98, 105, 2, 1001), (200, 206, 2, 1002)]
