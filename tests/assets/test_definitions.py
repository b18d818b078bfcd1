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
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.assets import laminar_assets
from state_store import StoreReader, StoreWriter

ROOT = Path(__file__).parents[2]
VIEWS = {"sales_per_minute", "sales_by_region_10min", "payments_per_minute"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of the example project, with data of its own."""
    shutil.copytree(ROOT / "assets" / "sql", tmp_path / "assets" / "sql")
    return Project.find(tmp_path)


def asset_of(project: Project, view: str, spark: SparkSession | None = None) -> dg.AssetsDefinition:
    def session(_: Project) -> SparkSession:
        assert spark is not None
        return spark

    assets = [a for a in laminar_assets(project, session) if isinstance(a, dg.AssetsDefinition)]
    return next(asset for asset in assets if asset.key == dg.AssetKey(view))


def test_the_workspace_loads_one_asset_per_view_and_one_per_source() -> None:
    from assets.definitions import defs

    graph = defs.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.materializable_asset_keys} == VIEWS
    assert {key.to_user_string() for key in graph.external_asset_keys} == {"sales", "payments"}


def test_a_view_depends_on_its_sources_and_shows_its_sql_and_plan(project: Project) -> None:
    spec = next(iter(asset_of(project, "sales_per_minute").specs))
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
    spec = next(iter(asset_of(project, "labelled").specs))
    assert list(spec.owners) == ["team:shop", "ana@example.com"]
    assert {name: value for name, value in spec.tags.items() if not name.startswith("dagster/")} == {
        "tier": "gold",
        "urgent": "",
    }
    assert spec.group_name == "shop"
    assert (spec.description or "").startswith("By minute.")


def test_a_mistake_in_the_sql_stops_loading_with_the_whole_text(project: Project) -> None:
    broken = project.sql / "sales_per_minute.sql"
    broken.write_text(broken.read_text().replace("SUM(quantity) AS items", "SUM(quantty) AS items"))
    with pytest.raises(LaminarError, match='Did you mean "quantity"'):
        laminar_assets(project)


def test_an_error_of_the_project_ends_the_run_with_the_whole_text_and_no_retry(project: Project) -> None:
    class NoSession:
        pass

    asset = next(
        asset
        for asset in laminar_assets(project, lambda _: NoSession())  # type: ignore[arg-type,return-value]
        if isinstance(asset, dg.AssetsDefinition)
    )
    with StoreWriter(project.store(asset.key.to_user_string())), pytest.raises(dg.Failure) as caught:
        dg.materialize([asset])
    assert "[LMR0402]" in (caught.value.description or "")
    assert "hint: Wait for the other run" in (caught.value.description or "")
    assert caught.value.allow_retries is False


@pytest.mark.spark
def test_to_materialize_a_view_is_to_run_it_until_it_has_caught_up(project: Project, spark: SparkSession) -> None:
    generate(project.root / "data" / "landing", now=datetime.now(UTC) - timedelta(minutes=1))
    asset = asset_of(project, "sales_per_minute", spark)
    first = _metadata(dg.materialize([asset]))
    rows = StoreReader(project.store("sales_per_minute")).read("output").num_rows
    assert first["epochs"].value == 1
    assert first["rows_out"].value == first["dagster/row_count"].value == rows > 0
    assert first["rows_in"].value > first["late"].value > 0
    assert first["error"].value > 0
    assert first["open_windows"].value > 0
    assert str(first["watermark"].value).endswith("Z")
    again = _metadata(dg.materialize([asset]))
    assert again["epochs"].value == 0
    assert again["dagster/row_count"].value == rows


def _metadata(result: dg.ExecuteInProcessResult) -> dict[str, dg.MetadataValue[Any]]:
    assert result.success
    (event,) = result.asset_materializations_for_node("sales_per_minute")
    return dict(event.metadata)
