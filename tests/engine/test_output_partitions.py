"""The output's partitions: the driver and Spark spell them alike, whoever writes the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine import writing
from laminar_dagster.engine.closing import partition_of
from laminar_dagster.engine.run import run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.partitions import Partitioning
from laminar_dagster.semantics.time import HOUR, from_iso
from state_store import StoreReader

SQL = """
CREATE SOURCE ev (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(ev, ts, INTERVAL '1' HOUR)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE WITH (partition = '{unit}');
"""
SUNDAY = from_iso("2026-03-01T23:00:00Z")
EXPECTED = {
    "hour": ["2026-03-01-23:00", "2026-03-02-00:00"],
    "day": ["2026-03-01", "2026-03-02"],
    "week": ["2026-02-23", "2026-03-02"],
    "month": ["2026-03-01", "2026-03-01"],
}


@pytest.mark.parametrize("unit", EXPECTED)
def test_a_window_is_in_the_partition_of_its_start(unit: str) -> None:
    assert [partition_of(SUNDAY + hours * HOUR, Partitioning(unit)) for hours in (0, 1)] == EXPECTED[unit]


@pytest.mark.spark
@pytest.mark.parametrize("brought", [0, writing.BROUGHT_ROWS])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("unit", ["hour", "week"])
def test_it_is_so_for_one_partition_and_for_several_written_by_spark_or_here(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, together: bool, brought: int
) -> None:
    monkeypatch.setattr(writing, "BROUGHT_ROWS", brought)
    plan = plan_script(SQL.format(unit=unit))[0]
    source = MemoryConnector(plan.query.inputs[0].source, tmp_path)
    for position, hours in enumerate((0, 1, 2)):
        source.append([{"v": 1, "ts": SUNDAY + hours * HOUR}], position)
        if not together:
            run_view(plan, spark, project=tmp_path, data=tmp_path / "data")
    run_view(plan, spark, project=tmp_path, data=tmp_path / "data")
    rows = StoreReader(tmp_path / "data" / "out").read("output").to_pylist()
    assert [r["_partition"] for r in sorted(rows, key=lambda r: r["window_start"])] == EXPECTED[unit]
