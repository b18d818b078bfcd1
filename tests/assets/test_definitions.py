"""The demo's views are Dagster assets that load without Spark and materialize with it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.generator import generate
from laminar_dagster.engine.project import Project
from laminar_dagster.integration import laminar_assets
from state_store import StoreReader
from tests.integration.shop import GivenSpark

ROOT = Path(__file__).parents[2]
VIEWS = {path.stem for path in (ROOT / "assets" / "sql").glob("*.sql")} - {"sources"}
PARTS = ("", "/state", "/changelog", "/side_output")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of the example project, with data of its own."""
    shutil.copytree(ROOT / "assets" / "sql", tmp_path / "assets" / "sql")
    return Project.find(tmp_path)


def specs_of(project: Project) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for asset in laminar_assets(project) for spec in asset.specs}


def test_the_workspace_loads_the_parts_of_every_view_and_its_sources() -> None:
    from assets.definitions import defs

    graph = defs.resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert keys >= {f"{view}{part}" for view in VIEWS for part in PARTS} | {"sales", "clicks", "payments"}


def test_a_view_depends_on_its_sources_and_shows_its_sql_and_plan(project: Project) -> None:
    spec = specs_of(project)["sales_per_minute"]
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey("sales")]
    assert spec.kinds == {"spark", "deltalake"}
    assert spec.description is not None
    assert "EMIT ON WINDOW CLOSE" in spec.description
    assert "state: a log of partials" in spec.description


def test_what_a_view_says_of_itself_is_shown(project: Project) -> None:
    labels = (
        "owners = 'team:shop, ana@example.com', tags = 'tier=gold, urgent', group = 'shop', description = 'By minute.'"
    )
    views = project.sql / "labelled.sql"
    views.write_text(
        "CREATE MATERIALIZED VIEW labelled AS SELECT window_start, COUNT(*) AS n "
        "FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start, window_end "
        f"EMIT FINAL WITH ({labels});"
    )
    spec = specs_of(project)["labelled"]
    assert list(spec.owners) == ["team:shop", "ana@example.com"]
    assert {name: value for name, value in spec.tags.items() if not name.startswith("dagster/")} == {
        "tier": "gold",
        "urgent": "",
    }
    assert spec.group_name == "shop"
    assert (spec.description or "").startswith("By minute.")


def test_a_mistake_in_the_sql_is_shown_with_the_whole_text_and_the_other_views_load(project: Project) -> None:
    broken = project.sql / "sales_per_minute.sql"
    broken.write_text(broken.read_text().replace("SUM(quantity) AS items", "SUM(quantty) AS items"))
    specs = {spec.key.to_user_string(): spec for asset in laminar_assets(project) for spec in asset.specs}
    assert 'Did you mean "quantity"' in str(specs["sales_per_minute/state"].description)
    assert len(specs) > 10


@pytest.mark.spark
def test_to_materialize_the_state_is_to_run_the_view_until_it_has_caught_up(
    project: Project, spark: SparkSession
) -> None:
    generate(project.root / "data" / "landing", now=datetime.now(UTC) - timedelta(minutes=1))
    first = _ticked(project, spark)
    rows = StoreReader(project.store("sales_per_minute")).read("output").num_rows
    assert first["epochs"].value == 1
    assert first["rows_out"].value == rows > 0
    assert first["rows_in"].value > first["late"].value > 0
    assert first["error"].value > 0
    assert first["open_windows"].value > 0
    again = _ticked(project, spark)
    assert again["epochs"].value == 0


def _ticked(project: Project, spark: SparkSession) -> dict[str, dg.MetadataValue[Any]]:
    GivenSpark.session = spark
    state = dg.AssetKey(["sales_per_minute", "state"])
    assets = laminar_assets(project, resource=GivenSpark())
    result = dg.materialize(assets, selection=dg.AssetSelection.assets(state))
    events = result.asset_materializations_for_node("sales_per_minute")
    return next(dict(event.metadata) for event in events if event.asset_key == state)
