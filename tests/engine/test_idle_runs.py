"""Runs in which nothing but the clock goes on. No JVM: there are no rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import HOUR, from_iso

SQL = """
CREATE SOURCE ev (k STRING, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'files', path = '{path}', format = 'parquet', idle_timeout = '1 second');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


def drained(root: Path, clock: Iterator[int]) -> list[int]:
    (plan,) = plan_script(SQL.format(path=root / "landing"))
    options = RunOptions(now=lambda: next(clock), max_epochs=5)
    no_spark = cast("Any", None)
    with open_view(plan, no_spark, project=root, data=root / "data", options=options) as view:
        return [commit.epoch for commit in view.drain()]


def test_a_run_ends_although_the_clock_goes_on_and_the_next_one_moves_time_on(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    clock = (from_iso("2026-01-01T12:00:00Z") + hours * HOUR for hours in count())
    assert drained(tmp_path, clock) == [1]
    assert drained(tmp_path, clock) == [2]
