"""`make demo`, the first command that anybody runs, shows every view of the shop."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from assets.demo import demo
from laminar_dagster.engine.project import Project

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_the_demo_shows_what_every_view_says_and_what_was_set_aside(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "assets" / "sql", tmp_path / "assets" / "sql")
    monkeypatch.setenv("LAMINAR_SPARK", spark.sparkContext.master)
    monkeypatch.setenv("COLUMNS", "120")
    app = typer.Typer()
    app.command()(demo)
    ran = CliRunner().invoke(app, ["--project", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    for plan in Project.find(tmp_path).plans():
        assert f"\n{plan.query.view}: the last " in ran.output
    for reason in ("malformed_record", "null_event_time", "type_mismatch", "allowed_lateness_exceeded"):
        assert reason in ran.output
    assert "guest-0" in ran.output
