"""The benchmarks run, and the rows of both sides agree. Times are not looked at: a test machine has none to trust."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import changes, eowc, epoch_cost, soak, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Runs a benchmark on tiny sizes, in the Spark that is up; gives its report."""

    def tiny(main: Callable[[Sequence[str]], int], *arguments: str) -> dict[str, Any]:
        report = tmp_path / "report.json"
        master = str(spark.sparkContext.master)
        assert main(["--quick", "--spark", master, "--json", str(report), *arguments]) == 0
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    return tiny


def test_both_sides_put_out_the_same_rows_for_every_workload(run: Run) -> None:
    report = run(epoch_cost.main)
    assert set(report["ratios"]) == {"small", "medium", "large_state"}
    assert all(rows > 0 for rows in report["rows_out"].values())
    assert set(report["ours"]) == set(report["structured_streaming"]) == set(report["ratios"])
    assert report["growth"]


def test_hopping_windows_and_sessions_give_the_same_rows_as_structured_streaming(run: Run) -> None:
    report = run(windows.main, "--part", "streaming", "--workload", "hop_1s", "--workload", "session_short")
    assert all(rows > 0 for rows in report["streaming"]["rows_out"].values())


def test_hopping_windows_write_as_many_state_rows_as_tumbling_ones_and_close_right(run: Run) -> None:
    report = run(windows.main, "--part", "fold", "--part", "close")
    assert report["fold"]["state_rows"] > 0
    assert all(closes["rows_out"] > 0 for closes in report["close"].values())


def test_raw_rows_and_accumulators_give_the_same_results(run: Run) -> None:
    report = run(eowc.main, "--part", "raw")
    for sides in report["raw"].values():
        assert sides["ours"]["state_rows"][0] < sides["raw"]["state_rows"][0]


def test_state_rows_do_not_follow_the_number_of_events(run: Run) -> None:
    report = run(eowc.main, "--part", "close", "--part", "state")
    (few_name, few), (many_name, many) = report["close"].items()
    assert few_name != many_name
    # What a close reads: a row for each of 5 groups and 3 epochs, however many events there were.
    assert few["state_rows"] == many["state_rows"] == [5 * 3]
    assert all(state["after"]["rows"] == state["groups"] for state in report["state"].values())
    assert len({state["groups"] for state in report["state"].values()}) > 1


def test_a_table_kept_up_to_date_is_the_same_as_the_one_that_a_stream_merges_into(run: Run) -> None:
    report = run(changes.main, "--workload", "changes")
    assert all(rows > 0 for rows in report["merge"]["rows_out"].values())
    rows = [looks["rows"] for looks in report["reading"].values()]
    assert rows == sorted(rows)
    assert rows[0] > 0


@pytest.mark.parametrize("kind", ["tumble", "session"])
def test_a_soak_takes_every_commit_and_counts_files(run: Run, kind: str) -> None:
    report = run(soak.main, "--kind", kind, "--epochs", "12")
    assert len(report["times_ms"]) == 12
    assert report["rows_out"] > 0
    assert all(point["live"]["partials"] <= point["on_disk"]["partials"] for point in report["points"])


def test_state_after_compaction_has_one_row_per_group(tmp_path: Path) -> None:
    """The one that is run as a person runs it."""
    report = tmp_path / "report.json"
    command = [sys.executable, "benchmarks/state_size.py", "--quick", "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert found["before"]["rows"] == 200
    assert found["after"]["rows"] == found["groups"] == 50
