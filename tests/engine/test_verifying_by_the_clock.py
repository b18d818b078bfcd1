"""Results that depend on when rows came are verified at the times of the view's own log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.verifying import Range, Verified, verify
from laminar_dagster.semantics.time import HOUR, MINUTE, SECOND, from_datetime
from tests.engine.sources.views import COLUMNS, NOON, View, json_lines, source, write

pytestmark = pytest.mark.spark

SELECT = """
CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS n, SUM(v) AS total
FROM TUMBLE((SELECT k, v, ts FROM ev UNION ALL SELECT k, v, ts FROM quiet), ts, INTERVAL '10' SECOND)
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE WITH (max_groups_per_window = 2);
"""


def verified(view: View, spark: Any, **bounds: int) -> Verified:
    found = verify(view.plan, spark, project=view.root, data=view.root / "data", range_=Range(**bounds))
    assert found is not None
    return found


def test_idle_sources_limits_duplicates_and_rows_dated_ahead_are_verified_as_they_were_judged(
    tmp_path: Path, spark: Any
) -> None:
    keyed = source(columns=COLUMNS, connector="files", path="in", format="json", unique_key="v", unique_within="1 hour")
    quiet = source("quiet", connector="files", path="quiet", format="json", idle_timeout="10 minutes")
    (tmp_path / "quiet").mkdir()
    view = View(tmp_path, keyed + quiet + SELECT)
    noon = from_datetime(NOON)
    write(tmp_path, "1.json", json_lines(("a", 1, 1), ("b", 2, 2), ("c", 3, 3), ("a", 1, 4), ("a", 4, 3600)), mtime=1)
    view.run(spark, now=lambda: noon + MINUTE)
    assert view.closed() == {}
    write(tmp_path, "2.json", json_lines(("a", 5, 25), ("a", 6, 5)), mtime=2)
    view.run(spark, now=lambda: noon + 30 * MINUTE)
    write(tmp_path, "3.json", json_lines(("a", 7, 8), ("a", 8, 45)), mtime=3)
    view.run(spark, now=lambda: noon + 2 * HOUR + SECOND)
    assert view.reasons() == {
        "max_groups": 1, "duplicate_key": 1, "future_timestamp": 1, "allowed_lateness_exceeded": 1,
    }  # fmt: skip
    found = verified(view, spark)
    assert (found.is_right, found.windows, found.rows, found.gone) == (True, 2, 3, 0)
    (tmp_path / "in" / "1.json").unlink()
    later = verified(view, spark, since=noon + 20 * SECOND)
    assert (later.is_right, later.rows, later.gone) == (True, 1, 1)
