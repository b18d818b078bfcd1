"""On a cluster: executors in processes of their own give the rows that one process gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.machine import MOUNTS

SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "view.sql").write_text(SQL, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    for file in range(2):
        rows = [{"k": f"k{n % 3}", "v": n, "ts": f"2026-01-01T12:0{file}:{n:02d}Z"} for n in range(30)]
        (tmp_path / "landing" / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path


def laminar(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laminar_dagster.cli", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.spark
def test_two_executors_write_what_one_process_commits(project: Path) -> None:
    done = laminar(project, "run", LAMINAR_SPARK="local-cluster[2,1,1024]")
    assert done.returncode == 0, done.stderr
    lines = laminar(project, "show", "per_minute", "--format", "json").stdout.splitlines()
    shown = [json.loads(line) for line in lines]
    assert {row["k"]: (row["n"], row["s"]) for row in shown} == {"k0": (10, 135), "k1": (10, 145), "k2": (10, 155)}


@pytest.mark.spark
def test_a_cluster_that_cannot_be_had_is_told_with_sparks_own_reason(project: Path) -> None:
    done = laminar(project, "run", LAMINAR_SPARK="local-cluster[1,1,512]")
    assert done.returncode == 1
    assert "[LMR0505]" in done.stderr
    assert "512 MiB/worker but requested 1024 MiB/executor" in done.stderr


ROWS = 310_000


@pytest.mark.spark
def test_rows_that_executors_write_elsewhere_are_missed_before_anything_is_committed(
    tmp_path: Path, connect_url: str
) -> None:
    """The command line runs in a mount namespace of its own, where `data` is another disk than the server's."""
    MOUNTS.require()
    for folder in ("sql", "landing", "data", "another"):
        (tmp_path / folder).mkdir()
    sql = SQL.replace("'json'", "'parquet'").replace("'1' MINUTE", "'1' DAY")
    (tmp_path / "sql" / "view.sql").write_text(sql, encoding="utf-8")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "k": pa.array(range(ROWS), pa.int64()).cast(pa.string()),
        "v": pa.array([1] * ROWS, pa.int64()),
        "ts": pa.array([start] * ROWS, pa.timestamp("us", tz="UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "landing" / "0.parquet")
    command = f"mount --bind another data && exec {sys.executable} -m laminar_dagster.cli run"
    environment = {**os.environ, "LAMINAR_SPARK": connect_url}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert (done.returncode, "[LMR0515]" in done.stderr) == (1, True), done.stderr
    assert f"Spark wrote {ROWS} rows, and this process finds 0 of them" in done.stderr
    assert laminar(tmp_path, "run", LAMINAR_SPARK=connect_url).returncode == 0
