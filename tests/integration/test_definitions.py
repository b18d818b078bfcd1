"""What Dagster sees before anything runs: keys, partitions, lineage, resources; and the component."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration import (
    Automation,
    LaminarAsset,
    LaminarComponent,
    LaminarResource,
    LaminarTranslator,
    laminar_assets,
    laminar_definitions,
)
from laminar_dagster.semantics.time import from_iso
from tests.integration.shop import PER_HOUR, SOURCE, Shop
from tests.integration.test_tick import PER_DAY, PER_REGION

ROOT = Path(__file__).parents[2]
PARTS = {"per_hour", "per_hour/state", "per_hour/changelog", "per_hour/side_output"}


def specs_of(assets: list[dg.AssetsDefinition]) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for asset in assets for spec in asset.specs}


def deps(spec: dg.AssetSpec) -> set[str]:
    return {dep.asset_key.to_user_string() for dep in spec.deps}


def test_a_view_is_four_assets_of_which_only_the_state_has_no_partitions() -> None:
    specs = specs_of(laminar_assets(sql=SOURCE + PER_HOUR))
    assert set(specs) == {*PARTS, "sales"}
    assert {key for key in PARTS if specs[key].partitions_def is None} == {"per_hour/state"}
    assert all(deps(specs[key]) == {"sales"} for key in PARTS)
    assert all(specs[key].skippable and specs[key].kinds == {"spark", "deltalake"} for key in PARTS)
    assert len({specs[key].code_version for key in PARTS}) == 1
    (asset,) = [a for a in laminar_assets(sql=SOURCE + PER_HOUR) if dg.AssetKey("per_hour") in a.keys]
    assert asset.can_subset
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()
    assert asset.op.pool == "per_hour"


def test_views_over_views_are_linked_state_to_state_and_output_to_output() -> None:
    specs = specs_of(laminar_assets(sql=SOURCE + PER_HOUR + PER_DAY))
    assert deps(specs["per_day/state"]) == {"per_hour/state"}
    assert deps(specs["per_day"]) == deps(specs["per_day/changelog"]) == {"per_hour"}


def test_a_view_without_windows_is_not_partitioned() -> None:
    specs = specs_of(laminar_assets(sql=SOURCE + PER_REGION))
    assert all(spec.partitions_def is None for spec in specs.values())


UNITS = {
    "partition = 'hour'": ("2026-03-02-00:00", "2026-03-02T00:00:00Z", timedelta(hours=1)),
    "partition = 'day'": ("2026-03-02", "2026-03-02T00:00:00Z", timedelta(days=1)),
    "partition = 'week'": ("2026-03-02", "2026-03-02T00:00:00Z", timedelta(days=7)),
    "partition = 'month'": ("2026-03-01", "2026-03-01T00:00:00Z", timedelta(days=31)),
    "partition_time_zone = 'Europe/Berlin'": ("2026-03-02", "2026-03-01T23:00:00Z", timedelta(days=1)),
}


@pytest.mark.parametrize("option", UNITS)
def test_a_partition_of_dagster_is_one_of_the_output(option: str) -> None:
    name, start, length = UNITS[option]
    view = PER_HOUR.replace("WITH (", f"WITH ({option}, ")
    (plan,) = Project(ROOT, ROOT, ROOT, text=SOURCE + view).plans()
    partitions = specs_of(laminar_assets(sql=SOURCE + view))["per_hour"].partitions_def
    assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)
    window = partitions.time_window_for_partition_key(name)
    assert (window.start.timestamp() * 1_000_000, window.end - window.start) == (from_iso(start), length)
    assert plan.query.partition.name_of(from_iso(start)) == name
    assert plan.query.partition.name_of(from_iso(start) - 1) != name
    begins = from_iso("2026-01-01T00:00:00Z") if "Berlin" not in option else from_iso("2025-12-31T23:00:00Z")
    assert partitions.get_first_partition_key() == plan.query.partition.name_of(begins)


def test_partitions_begin_where_the_view_says_and_reach_up_to_the_current_one() -> None:
    partitions = specs_of(laminar_assets(sql=SOURCE + PER_HOUR))["per_hour"].partitions_def
    assert partitions is not None
    keys = partitions.get_partition_keys()
    assert keys[0] == "2026-01-01"
    now = dg.DailyPartitionsDefinition("2026-01-01", end_offset=1).get_last_partition_key()
    assert keys[-1] == now


def test_columns_their_lineage_and_the_file_are_in_the_metadata(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PER_HOUR, PER_DAY)
    spec = specs_of(shop.assets)["per_day"]
    schema, lineage = spec.metadata["dagster/column_schema"], spec.metadata["dagster/column_lineage"]
    assert [column.name for column in schema.columns] == ["window_start", "window_end", "total"]
    assert lineage.deps_by_column["total"] == [dg.TableColumnDep(dg.AssetKey("per_hour"), "total")]
    (reference,) = spec.metadata["dagster/code_references"].code_references
    line = (tmp_path / "sql" / "views.sql").read_text().splitlines()[reference.line_number - 1]
    assert (reference.file_path, line) == (
        str(tmp_path / "sql" / "views.sql"), "CREATE MATERIALIZED VIEW per_day AS",
    )  # fmt: skip
    assert spec.metadata["dagster/table_name"] == "per_day.output"


def test_a_translator_changes_keys_and_dependencies_follow() -> None:
    class Prefixed(LaminarTranslator):
        def get_asset_spec(self, asset: LaminarAsset) -> dg.AssetSpec:
            spec = super().get_asset_spec(asset)
            return spec.replace_attributes(key=spec.key.with_prefix("shop"), group_name="all")

    specs = specs_of(laminar_assets(sql=SOURCE + PER_HOUR + PER_DAY, translator=Prefixed()))
    assert deps(specs["shop/per_day"]) == {"shop/per_hour"}
    assert deps(specs["shop/per_hour/state"]) == {"shop/sales"}
    assert {spec.group_name for spec in specs.values()} == {"all"}
    lineage = specs["shop/per_day"].metadata["dagster/column_lineage"]
    assert lineage.deps_by_column["total"][0].asset_key == dg.AssetKey(["shop", "per_hour"])


def test_a_source_that_is_an_asset_of_its_own_is_left_to_that() -> None:
    @dg.asset(name="sales")
    def made() -> None: ...

    assets = laminar_assets(sql=SOURCE + PER_HOUR, made_elsewhere=["sales"])
    graph = dg.Definitions(assets=[made, *assets]).resolve_asset_graph()
    assert dg.AssetKey("sales") in graph.materializable_asset_keys


def test_a_folder_of_sql_files_is_a_project(tmp_path: Path) -> None:
    (tmp_path / "sources.sql").write_text(SOURCE)
    (tmp_path / "view.sql").write_text(PER_HOUR)
    assert set(specs_of(laminar_assets(tmp_path))) == {*PARTS, "sales"}


def test_settings_of_the_resource_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Connect server is not there: what the run says shows what it was told."""
    monkeypatch.setenv("SHOP_SPARK", "sc://127.0.0.1:1")
    shop = Shop(tmp_path)
    resource = LaminarResource(remote=dg.EnvVar("SHOP_SPARK"), data_dir="elsewhere")
    state = dg.AssetSelection.assets(dg.AssetKey(["per_hour", "state"]))
    with pytest.raises(dg.Failure, match=r"no Spark Connect server answers at sc://127.0.0.1:1 \[LMR0506\]"):
        dg.materialize(laminar_assets(shop.project, resource=resource), selection=state)
    assert resource.located(shop.project).data == tmp_path / "elsewhere"


def test_a_resource_may_have_a_key_of_its_own(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    both = LaminarResource(remote="sc://127.0.0.1:1", master="local[*]")
    definitions = dg.Definitions(laminar_assets(shop.project, resource="streams"), resources={"streams": both})
    job = definitions.resolve_implicit_global_asset_job_def()
    with pytest.raises(dg.Failure, match=r"\[LMR0514\]"):
        job.execute_in_process(asset_selection=[dg.AssetKey(["per_hour", "state"])])


def test_two_projects_in_one_code_location_have_data_of_their_own() -> None:
    other = (SOURCE + PER_HOUR).replace("sales", "clicks").replace("per_hour", "clicks_per_hour")
    first, second = (
        laminar_definitions(sql=sql, resource=LaminarResource(data_dir=name), automation=Automation(name=name))
        for name, sql in (("a", SOURCE + PER_HOUR), ("b", other))
    )
    dg.Definitions.validate_loadable(dg.Definitions.merge(first, second))
    alike = (laminar_assets(sql=sql, resource=LaminarResource(data_dir="a")) for sql in (SOURCE + PER_HOUR, other))
    dg.Definitions.validate_loadable(dg.Definitions(assets=[asset for assets in alike for asset in assets]))


def test_a_mistake_in_the_sql_is_shown_with_the_whole_text() -> None:
    (asset,) = laminar_assets(sql=SOURCE + PER_HOUR.replace("SUM(amount)", "SUM(amuont)"))
    (spec,) = asset.specs
    assert 'Did you mean "amount"' in str(spec.description)


def test_text_that_cannot_be_read_stops_loading() -> None:
    with pytest.raises(LaminarError, match="LMR0005"):
        laminar_assets(sql=SOURCE + "CREATE MATERIALIZED VIEW half AS SELECT FROM WHERE;")


def test_observing_a_source_tells_its_size_and_no_data_version(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.json").write_text('{"region": "north", "amount": 1, "at": "2026-01-05T09:00:00Z"}\n')
    (landing / "_unfinished.json").write_text("{")
    files = SOURCE.replace("'memory'", f"'files', format = 'json', path = '{landing}'")
    result = dg.materialize(laminar_assets(sql=files + PER_HOUR), selection=dg.AssetSelection.assets("sales"))
    (event,) = result.get_asset_observation_events()
    observation: Any = event.asset_observation_data.asset_observation
    assert {name: value.value for name, value in observation.metadata.items()} == {"files": 1, "bytes": 63}
    assert "dagster/data_version" not in observation.tags


LOAD = """
import sys
from laminar_dagster.integration import laminar_definitions
laminar_definitions(sys.argv[1]).resolve_asset_graph()
print(*{name.partition(".")[0] for name in sys.modules})
"""
ONLY_TO_RUN = {"pyspark", "py4j", "delta", "duckdb", "pandas", "grpc", "typer", "rich"}


def test_definitions_load_without_spark_and_without_what_only_runs_need(tmp_path: Path) -> None:
    """How many seconds that takes is in docs/reference/dagster.md: it depends on the machine."""
    Shop(tmp_path, PER_HOUR, PER_DAY)
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert not ONLY_TO_RUN & set(loaded.stdout.split())


def test_the_component_builds_the_same_definitions(tmp_path: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(LaminarComponent)
        with sandbox.load_component_and_build_defs(path) as (component, definitions):
            keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
            job = definitions.resolve_job_def("fold_late_rows_of_sales_per_minute")
    assert isinstance(component, LaminarComponent)
    assert keys == {
        "sales",
        "laminar_maintenance",
        "sales_per_minute",
        *(f"sales_per_minute/{p}" for p in ("state", "changelog", "side_output")),
    }
    assert job.name == "fold_late_rows_of_sales_per_minute"


def test_a_field_that_the_component_does_not_have_is_refused() -> None:
    with create_defs_folder_sandbox() as sandbox:
        contents = {
            "type": "laminar_dagster.integration.LaminarComponent",
            "attributes": {"sql": SOURCE + PER_HOUR, "data_directory": "data"},
        }
        path = sandbox.scaffold_component(LaminarComponent, defs_yaml_contents=contents)
        with pytest.raises(Exception, match="LaminarComponent") as refused, sandbox.load_component_and_build_defs(path):
            pass
    assert "attributes.data_directory" in str(refused.value.__cause__)


def test_the_definitions_can_be_loaded(tmp_path: Path) -> None:
    dg.Definitions.validate_loadable(laminar_definitions(Shop(tmp_path, PER_HOUR, PER_DAY, PER_REGION).project))


@pytest.mark.parametrize("length", ["7' DAY", "1' MONTH"])
def test_a_view_over_a_view_may_have_partitions_of_another_time_zone(length: str) -> None:
    grouped = "GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;"
    views = f"""
        CREATE MATERIALIZED VIEW days AS SELECT window_start, window_end, COUNT(*) AS n
        FROM TUMBLE(sales, at, INTERVAL '1' DAY, TIME ZONE 'Europe/Zurich') {grouped}
        CREATE MATERIALIZED VIEW longer AS SELECT window_start, SUM(n) AS n
        FROM TUMBLE(days, window_end, INTERVAL '{length}) {grouped}"""
    definitions = laminar_definitions(sql=SOURCE + views)
    dg.Definitions.validate_loadable(definitions)
    found = specs_of([asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)])
    (mapping,) = {dep.partition_mapping for dep in found["longer"].deps}
    assert mapping == dg.AllPartitionMapping()
