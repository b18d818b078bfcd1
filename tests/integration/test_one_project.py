"""One project is one project, from wherever it is entered: the same root, data and sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.cli.options import project_of
from laminar_dagster.engine.due import Views, why_due
from laminar_dagster.engine.project import Project
from laminar_dagster.integration import Automation, LaminarComponent, laminar_definitions
from laminar_dagster.integration.factory import factory_of
from laminar_dagster.integration.looking import DUE
from laminar_dagster.semantics.time import from_datetime
from tests.integration.shop import GivenSpark

SQL = """
CREATE SOURCE sales (n BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json', max_future_skew = 'none');
CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
LAYOUTS = {"assets/sql": "", "sql": "", "sql with a laminar.toml": "", "views": 'sql = "views"\ndata = "tables"\n'}


class Laid:
    """A project with three commits in its landing directory; decoys lie where a wrong root would look."""

    def __init__(self, root: Path, layout: str) -> None:
        self.root, self.sql = root, root / layout.split(" ")[0]
        for folder in (self.sql, root / "landing" / "deep", self.sql / "landing"):
            folder.mkdir(parents=True)
        (self.sql / "views.sql").write_text(SQL)
        if layout.endswith("toml") or LAYOUTS[layout]:
            (root / "laminar.toml").write_text(LAYOUTS[layout])
        self.data = root / ("tables" if layout == "views" else "data")
        for number in range(3):
            row = {"n": number, "at": f"2026-01-05T09:0{number}:00Z"}
            (root / "landing" / f"{number}.json").write_text(json.dumps(row))
        (self.sql / "landing" / "decoy.json").write_text("{}")

    def require(self, found: Project) -> None:
        assert (found.root, found.data, found.sql) in {
            (self.root, self.data, self.sql),
            (self.root, self.data, self.sql / "views.sql"),
        }
        plans = {plan.query.view: plan for plan in found.plans()}
        due = why_due(Views(plans, found.root, found.data), "per_minute", from_datetime(datetime.now(UTC)))
        assert due == "3 commit(s) of sales"


@pytest.fixture(params=LAYOUTS)
def laid(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Laid:
    made = Laid(tmp_path / "shop", request.param)
    monkeypatch.chdir(made.root)
    return made


POINTED_AT: dict[str, Callable[[Laid], Any]] = {
    "nothing": lambda _: None,
    "a relative directory": lambda _: ".",
    "the SQL's relative folder": lambda laid: str(laid.sql.relative_to(laid.root)),
    "the directory": lambda laid: laid.root,
    "the SQL's folder": lambda laid: laid.sql,
    "a SQL file": lambda laid: laid.sql / "views.sql",
    "a SQL file as text": lambda laid: str((laid.sql / "views.sql").relative_to(laid.root)),
    "a folder of the project": lambda laid: laid.root / "landing" / "deep",
}


@pytest.mark.parametrize("at", POINTED_AT)
def test_dagster_the_command_line_and_python_see_one_project(laid: Laid, at: str) -> None:
    place = POINTED_AT[at](laid)
    laid.require(factory_of(place, {}).project)
    laid.require(project_of(None if place is None else Path(place), None))
    laid.require(Project.find(None if place is None else Path(place)))


@pytest.mark.parametrize("folder", [".", "landing", "landing/deep", "SQL"])
def test_every_folder_of_a_project_is_in_it(laid: Laid, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(laid.sql if folder == "SQL" else laid.root / folder)
    laid.require(factory_of(None, {}).project)
    laid.require(project_of(None, None))


@pytest.mark.parametrize("at", ["the SQL's relative folder", "the directory", "a SQL file"])
def test_the_sensor_of_the_definitions_sees_the_commits_of_the_project(laid: Laid, at: str, tmp_path: Path) -> None:
    made = laminar_definitions(POINTED_AT[at](laid), automation=Automation(sensor_seconds=10))
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        found = made.resolve_sensor_def("laminar_sensor").evaluate_tick(dg.build_sensor_context(instance=instance))
    assert [request.tags[DUE] for request in found.run_requests or ()] == ["per_minute: 3 commit(s) of sales"]


def test_a_component_is_in_the_project_that_it_points_at(laid: Laid) -> None:
    with create_defs_folder_sandbox() as sandbox:
        contents = {"type": "laminar_dagster.integration.LaminarComponent", "attributes": {"project": str(laid.sql)}}
        path = sandbox.scaffold_component(LaminarComponent, defs_yaml_contents=contents)
        with sandbox.load_component_and_build_defs(path) as (component, definitions):
            assert isinstance(component, LaminarComponent)
            assert dg.AssetKey("per_minute") in definitions.resolve_asset_graph().get_all_asset_keys()
            laid.require(factory_of(path / component.project, {}).project)


@pytest.mark.spark
def test_what_dagster_wrote_the_command_line_shows(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = Laid(tmp_path / "shop", "sql")
    monkeypatch.chdir(laid.root)
    monkeypatch.setattr(GivenSpark, "session", spark)
    made = laminar_definitions("sql", resource=GivenSpark())
    assert made.resolve_job_def("laminar_tick").execute_in_process().success
    for folder in (laid.root, laid.sql, laid.root / "landing"):
        monkeypatch.chdir(folder)
        shown = CliRunner().invoke(app, ["show", "per_minute", "--format", "json"])
        assert [json.loads(line)["n"] for line in shown.stdout.splitlines()] == [1, 1]
    assert not (laid.sql / "data").exists()


def test_a_folder_of_sql_files_under_another_name_is_a_project_by_itself(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "views.sql").write_text(SQL)
    found = Project.find(tmp_path / "sales")
    assert (found.root, found.sql, found.data) == (found.sql, tmp_path / "sales", tmp_path / "sales" / "data")
    assert factory_of(tmp_path / "sales", {}).project == found


def test_a_folder_with_nothing_in_it_says_what_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["doctor"]).stdout
    assert f"ok    project         {tmp_path} (no laminar.toml), SQL in {tmp_path / 'sql'}" in told
    assert f"there is no .sql file in {tmp_path / 'sql'} [LMR0702]" in told
    assert "there is no laminar.toml above" in told
