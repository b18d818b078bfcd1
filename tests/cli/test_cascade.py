"""A project with a view over a view: one command runs both, upstream first, and Dagster links them."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.engine.project import Project
from laminar_dagster.integration import laminar_assets

SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, region, SUM(total) AS total, MAX(total) AS best
FROM TUMBLE(per_minute, window_start, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, region EMIT ON UPDATE;
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, region, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region EMIT CHANGES;
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "sql" / "views.sql").write_text(SQL)
    return tmp_path


def test_a_view_over_a_view_is_linked_to_it_and_not_to_a_source(project: Path) -> None:
    graph = dg.Definitions(assets=laminar_assets(Project.find(project))).resolve_asset_graph()
    parents = {
        key.to_user_string(): [parent.to_user_string() for parent in graph.get(key).parent_keys]
        for key in graph.get_all_asset_keys()
    }
    tables = ("", "/changelog", "/side_output")
    assert parents == {
        "sales": [],
        "per_minute/state": ["sales"],
        **{f"per_minute{part}": ["sales"] for part in tables},
        "per_hour/state": ["per_minute/state"],
        **{f"per_hour{part}": ["per_minute"] for part in tables},
    }


@pytest.mark.spark
def test_one_command_runs_upstream_first_and_shows_what_changed(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINAR_SPARK", spark.sparkContext.master)
    runner = CliRunner()
    for number, amount in enumerate((3, 5)):
        line = f'{{"region": "n", "amount": {amount}, "at": "2026-01-05T09:00:1{number}Z"}}\n'
        (project / "landing" / f"{number}.jsonl").write_text(line)
        ran = runner.invoke(app, ["run", "--project", str(project)])
        assert ran.exit_code == 0, ran.output
    changes = runner.invoke(app, ["changes", "per_hour", "--project", str(project), "--format", "json"]).output
    rows = [json.loads(line) for line in changes.splitlines() if line.startswith("{")]
    assert [(row["_op"], row["total"]) for row in rows] == [("+I", 3), ("-U", 3), ("+U", 8)]
    shown = runner.invoke(app, ["show", "per_hour", "--project", str(project), "--format", "csv"]).output
    assert "2026-01-05T09:00:00Z,n,8,8" in shown
