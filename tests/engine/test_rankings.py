"""The state of a view that keeps the first rows holds no more of them than can be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine import compaction
from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import SECOND, from_iso
from state_store import StoreReader

pytestmark = pytest.mark.spark

NOON = from_iso("2026-01-01T12:00:00Z")
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, v FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, k ORDER BY v) <= 2
EMIT ON WINDOW CLOSE;
"""


def test_rows_that_others_come_before_are_not_kept(spark: Any, tmp_path: Path) -> None:
    plan = plan_script(SQL)[0]
    source = MemoryConnector(plan.query.inputs[0].source, tmp_path)
    with open_view(plan, spark, project=tmp_path, data=tmp_path / "data", options=RunOptions(max_files=1)) as run:
        for low in (100, 50, 0):
            rows = [{"k": key, "v": low + i, "ts": NOON + i * SECOND} for i in range(20) for key in ("a", "b")]
            source.append(rows, source.backlog(0))
            commit = run.step()
            assert commit is not None
            assert commit.counts["aggregated"] == 40
            assert commit.counts["groups_touched"] == 4
        compaction.compact_if_due(run.runtime, threshold=1)
        state = run.runtime.store.table("partials").files()
        assert [file.rows for file in state] == [4]
        source.append([{"k": "z", "v": 0, "ts": NOON + 60 * SECOND}], source.backlog(0))
        run.step()
    shown = StoreReader(tmp_path / "data" / "out").read("output").to_pylist()
    assert sorted((row["k"], row["v"]) for row in shown) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
