"""On a cluster: executors in processes of their own give the rows that one process gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""


def laminar(project: Path, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "laminar_dagster.cli", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spark
def test_two_executors_write_what_one_process_commits(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "view.sql").write_text(SQL, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    for file in range(2):
        rows = [{"k": f"k{n % 3}", "v": n, "ts": f"2026-01-01T12:0{file}:{n:02d}Z"} for n in range(30)]
        (tmp_path / "landing" / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    laminar(tmp_path, "run", LAMINAR_SPARK="local-cluster[2,1,512]")
    shown = [json.loads(line) for line in laminar(tmp_path, "show", "per_minute", "--format", "json").splitlines()]
    assert {row["k"]: (row["n"], row["s"]) for row in shown} == {"k0": (10, 135), "k1": (10, 145), "k2": (10, 155)}
