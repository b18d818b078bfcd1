"""The benchmarks run, and the rows of both sides agree. Times are not looked at: a test machine has none to trust."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: str, report: Path) -> dict[str, Any]:
    command = [sys.executable, f"benchmarks/{script}", *arguments, "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.spark
def test_both_sides_put_out_the_same_rows_for_every_workload(tmp_path: Path) -> None:
    report = run("epoch_cost.py", "--quick", report=tmp_path / "report.json")
    assert set(report["ratios"]) == {"small", "medium", "large_state"}
    assert all(rows > 0 for rows in report["rows_out"].values())
    assert set(report["ours"]) == set(report["structured_streaming"]) == set(report["ratios"])
    assert report["growth"]


@pytest.mark.spark
def test_state_after_compaction_has_one_row_per_group(tmp_path: Path) -> None:
    arguments = ("--rows", "4000", "--groups", "50", "--commits", "4")
    report = run("state_size.py", *arguments, report=tmp_path / "report.json")
    assert report["before"]["rows"] == 200
    assert report["after"]["rows"] == report["groups"] == 50
