"""What Dagster is told of a run, out of the epoch log alone."""

from __future__ import annotations

from pathlib import Path

from laminar_dagster.integration.summary import epoch_line, totals
from state_store import StoreReader
from tests.cli.told_epochs import ToldEpoch, a_project, tell

SQL = """
CREATE SOURCE sales (region STRING, at TIMESTAMP, WATERMARK FOR at) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, region, COUNT(*) AS n
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
"""


def test_rows_evicted_repeated_and_dropped_are_told_where_there_are_any(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    counts = {"rows_in": 9, "evicted": 3, "duplicate": 4, "side_output_dropped": 2}
    tell(root / "data" / "per_minute", [ToldEpoch("12:05:00", None, {}, some) for some in ({"rows_in": 1}, counts)])
    reader = StoreReader(root / "data" / "per_minute")
    last, first = reader.log.commits()
    assert "evicted" not in epoch_line(first)
    assert "3 evicted, 4 duplicate, 2 side output dropped; watermark" in epoch_line(last)
    assert totals([first, last]) == {
        "rows_in": 10, "filtered": 0, "late": 0, "error": 0, "windows_closed": 0, "rows_out": 0,
        "evicted": 3, "duplicate": 4, "side_output_dropped": 2,
    }  # fmt: skip
