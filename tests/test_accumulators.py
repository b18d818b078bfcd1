"""The accumulators as a Python API: the seed's unit tests, and what goes wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.accumulators import WindowAccumulators
from laminar_dagster.errors import LaminarError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOURCE = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
"""


def view(window: str, more: str = "") -> str:
    return f"""{SOURCE} CREATE MATERIALIZED VIEW out AS
    SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total FROM {window}
    GROUP BY window_start, window_end, k {more} EMIT ON WINDOW CLOSE;"""


MINUTES = view("TUMBLE(ev, ts, INTERVAL '1' MINUTE)")


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def row(seconds: float, v: int, k: str = "a") -> dict[str, Any]:
    return {"k": k, "v": v, "ts": at(seconds)}


def closed(table: pa.Table) -> list[tuple[float, float, str, int, int]]:
    rows = [
        (
            (r["window_start"] - NOON).total_seconds(),
            (r["window_end"] - NOON).total_seconds(),
            r["k"],
            r["n"],
            r["total"],
        )
        for r in table.to_pylist()
    ]
    return sorted(rows)


@pytest.mark.spark
def test_windows_are_updated_and_closed_by_the_caller(spark: Any, tmp_path: Path) -> None:
    with WindowAccumulators(MINUTES, tmp_path, spark) as windows:
        assert windows.update([]) == 0
        assert windows.update([row(1, 1), row(2, 2, "b"), row(130, 5)]) == 3
        assert windows.update(pa.Table.from_pylist([row(59, 10)])) == 1
        assert windows.open_window_count() == 2
        assert closed(windows.close(at(59))) == []
        assert closed(windows.close(at(60))) == [(0, 60, "a", 2, 11), (0, 60, "b", 1, 2)]
        assert windows.open_window_count() == 1
        assert windows.close(at(60)).schema.names == ["window_start", "window_end", "k", "n", "total"]
        assert windows.update([row(3, 99)]) == 0
    assert not list((tmp_path / "_memory" / "ev").glob("*.parquet"))


@pytest.mark.spark
def test_a_second_process_goes_on_where_the_first_one_left(spark: Any, tmp_path: Path) -> None:
    hops = view("HOP(ev, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)")
    with WindowAccumulators(hops, tmp_path, spark) as windows:
        windows.update([row(5, 1)])
        assert windows.open_window_count() == 3
    with WindowAccumulators(hops, tmp_path, spark) as windows:
        windows.update([row(25, 2)])
        assert windows.open_window_count() == 4
        assert closed(windows.close(at(60))) == [(-40, 20, "a", 1, 1), (-20, 40, "a", 2, 3), (0, 60, "a", 2, 3)]


@pytest.mark.spark
def test_sessions_are_counted_once_they_are_merged(spark: Any, tmp_path: Path) -> None:
    sessions = view("SESSION(ev, ts, INTERVAL '1' SECOND)")
    with WindowAccumulators(sessions, tmp_path, spark) as windows:
        windows.update([row(0, 10), row(1.5, 20), row(1.5, 1, "b")])
        assert windows.open_window_count() == 3
        windows.update([row(0.8, 5)])
        assert windows.open_window_count() == 2
        assert closed(windows.close(at(3))) == [(0, 2.5, "a", 3, 35), (1.5, 2.5, "b", 1, 1)]
        assert windows.open_window_count() == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ([{**row(0, 1), "v": "many"}], 'column "v" does not fit BIGINT'),
        ([{**row(0, 1), "w": 1}], 'source "ev" has no column "w"'),
        (pa.table({"k": ["a"]}), 'source "ev" needs column "ts"'),
        ([row(0, 1), {"k": "a", "ts": at(0)}], 'source "ev" needs column "v"'),
        (pa.table({"k": ["a"], "v": [1.5], "ts": pa.array([at(0)])}), 'column "v" does not fit BIGINT'),
    ],
)
def test_a_type_mismatch_takes_nothing_of_the_batch(spark: Any, tmp_path: Path, batch: Any, said: str) -> None:
    with WindowAccumulators(MINUTES, tmp_path, spark) as windows:
        with pytest.raises(LaminarError, match=said) as caught:
            windows.update(batch)
        assert caught.value.code == "LMR0801"
        assert windows.open_window_count() == 0


@pytest.mark.spark
def test_rows_may_come_from_a_generator_and_a_fraction_is_not_cut_off(spark: Any, tmp_path: Path) -> None:
    with WindowAccumulators(MINUTES, tmp_path, spark) as windows:
        assert windows.update(row(n, 1) for n in range(3)) == 3
        with pytest.raises(LaminarError, match='column "v" does not fit BIGINT'):
            windows.update([{**row(5, 1), "v": 1.9}])
        with pytest.raises(LaminarError, match="has no zone"):
            windows.update([{**row(5, 1), "ts": at(5).replace(tzinfo=None)}])
        for watermark in ("2026-01-01", at(60).replace(tzinfo=None), at(60).date(), True, 2**63 - 1, None):
            with pytest.raises(LaminarError, match="is not a watermark") as caught:
                windows.close(watermark)  # type: ignore[arg-type]
            assert caught.value.code == "LMR0804"
        assert closed(windows.close(at(60))) == [(0, 60, "a", 3, 3)]


@pytest.mark.parametrize(
    "sql",
    [
        f"{SOURCE} CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n FROM ev GROUP BY k EMIT ON WINDOW CLOSE;",
        f"{MINUTES} {MINUTES.replace('out', 'another').replace(SOURCE, '')}",
        MINUTES.replace("'memory'", "'delta', path = 'x'"),
    ],
)
def test_a_query_without_one_window_over_handed_in_rows_is_refused(tmp_path: Path, sql: str) -> None:
    with pytest.raises(LaminarError) as caught:
        WindowAccumulators(sql, tmp_path)
    assert caught.value.code in ("LMR0210", "LMR0803")


def test_accumulators_are_used_inside_of_with(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="not open"):
        WindowAccumulators(MINUTES, tmp_path).open_window_count()


def test_a_view_that_shows_results_early_is_refused_for_what_it_is(tmp_path: Path) -> None:
    early = MINUTES.replace("EMIT ON WINDOW CLOSE", "EMIT ON WATERMARK")
    with pytest.raises(LaminarError, match="shows results before its windows close") as caught:
        WindowAccumulators(early, tmp_path)
    assert (caught.value.code, caught.value.detail) == ("LMR0803", "EMIT ON WATERMARK")
