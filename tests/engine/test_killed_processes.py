"""Real processes, really killed: what is on disk afterwards is what an undisturbed run leaves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from state_store import StoreReader
from tests.processes import Laminar

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, region, COUNT(*) AS n, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT ON WINDOW CLOSE;
"""
FILES = {
    "1.json": [("eu", 1, "12:00:01"), ("us", 2, "12:00:59"), ("eu", 3, "12:01:00")],
    "2.json": [("eu", 4, "12:01:30"), ("eu", 100, "12:00:30"), ("us", 5, "12:03:00")],
    "3.json": [("us", 6, "12:03:01"), ("eu", 200, "12:01:01"), ("eu", 7, "12:09:00")],
}


def a_project(root: Path, files: dict[str, list[tuple[str, int, str]]] = FILES) -> Path:
    (root / "sql").mkdir(parents=True)
    (root / "landing").mkdir()
    (root / "sql" / "views.sql").write_text(SQL)
    for position, (name, rows) in enumerate(files.items()):
        lines = [json.dumps({"region": r, "amount": a, "at": f"2026-01-01T{t}Z"}) for r, a, t in rows]
        path = root / "landing" / name
        path.write_text("\n".join([*lines, '{"region": "broken"' if name == "2.json" else ""]))
        os.utime(path, (1_000_000 + position, 1_000_000 + position))
    return root


def laminar(root: Path, url: str, *arguments: str, crash_after: int | None = None) -> Laminar:
    crash = {} if crash_after is None else {"LAMINAR_CRASH_AFTER": str(crash_after)}
    return Laminar(*arguments, "--project", str(root), LAMINAR_SPARK=url, **crash)


def what_is_there(root: Path) -> dict[str, Any]:
    """The view's tables, without what differs from run to run: times and ids."""
    reader = StoreReader(root / "data" / "per_minute")
    commit = reader.commit()
    assert commit is not None
    output = [(r["window_start"], r["region"], r["n"], r["total"], r["_epoch"]) for r in _rows(reader, "output")]
    aside = [(r["kind"], r["reason"], r["original_event"], r["_epoch"]) for r in _rows(reader, "side_output")]
    return {"epoch": commit.epoch, "watermark": commit.watermark, "output": sorted(output, key=repr),
            "side_output": sorted(aside, key=repr), "counts": dict(commit.counts)}  # fmt: skip


def _rows(reader: StoreReader, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reader.read(table).to_pylist()
    return rows


def test_a_process_killed_after_each_of_its_writes_in_turn_leaves_what_an_undisturbed_one_leaves(
    tmp_path: Path, connect_url: str
) -> None:
    calm, disturbed = a_project(tmp_path / "calm"), a_project(tmp_path / "disturbed")
    code, text = laminar(calm, connect_url, "run", "--max-files", "1").finish()
    assert code == 0, text
    kills = 0
    while True:
        code, text = laminar(disturbed, connect_url, "run", "--max-files", "1", crash_after=kills + 1).finish()
        if code != -signal.SIGKILL:
            break
        kills += 1
    assert code == 0, text
    assert kills >= 12
    assert what_is_there(disturbed) == what_is_there(calm)
    assert what_is_there(calm)["epoch"] == 3
    assert len(what_is_there(calm)["side_output"]) == 3


def test_of_two_processes_that_run_one_view_at_once_one_wins_and_the_other_says_so(
    tmp_path: Path, connect_url: str
) -> None:
    many = {f"{i}.json": [("eu", i, f"12:{i:02d}:00")] for i in range(12)}
    calm, contested = a_project(tmp_path / "calm", many), a_project(tmp_path / "contested", many)
    assert laminar(calm, connect_url, "run", "--max-files", "1").finish()[0] == 0
    both = [laminar(contested, connect_url, "run", "--max-files", "1") for _ in range(2)]
    results = sorted(process.finish() for process in both)
    assert [code for code, _ in results] == [0, 1]
    assert "another run is writing this view's state [LMR0402]" in results[1][1]
    assert what_is_there(contested) == what_is_there(calm)
