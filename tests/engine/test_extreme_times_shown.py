"""Every way to look at a view whose values Python's datetime and DuckDB cannot hold: none stops, all say the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from deltalake import DeltaTable
from rich.console import Console

from laminar_dagster.changes import records, subscribe
from laminar_dagster.cli import main
from laminar_dagster.cli.run import run_and_report
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.integration import laminar_assets
from laminar_dagster.semantics.time import REACH, from_iso, to_iso
from state_store.moments import as_integers
from tests.integration.shop import GivenSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = from_iso("2026-01-01T12:00:00Z")
FOR_EVER = from_iso("9999-12-31T23:59:59.999999Z")
ENDS = (-(1 << 63), -(1 << 63) + 1, -REACH, from_iso("-0044-03-15T12:00:00Z"), from_iso("0000-06-01T00:00:00Z"),
        FOR_EVER, FOR_EVER + 1, from_iso("+12000-01-04T00:00:00.5Z"), (1 << 63) - 1)  # fmt: skip
SQL = """
CREATE SOURCE ev (k STRING, us BIGINT, later BIGINT, at AS timestamp_micros(us), ends AS timestamp_micros(later),
  WATERMARK FOR at) WITH (connector = 'files', format = 'json', path = 'in', max_future_skew = 'none');
CREATE MATERIALIZED VIEW prices AS
SELECT window_start, window_end, k, MAX(ends) AS valid_to, DATE(MAX(at)) AS day, ARRAY_AGG(at) AS times
FROM TUMBLE(ev, at, INTERVAL '1' DAY) GROUP BY window_start, window_end, k EMIT {emit};
"""
SINKS = """
CREATE SINK lines FROM prices WITH (connector = 'files', path = 'out/lines', format = 'json', mode = '{files}');
CREATE SINK columns FROM prices WITH (connector = 'files', path = 'out/columns', format = 'parquet', mode = '{files}');
CREATE SINK rows FROM prices WITH (connector = 'delta', path = 'out/rows', mode = '{mode}');
"""
DEBEZIUM = "CREATE SINK events FROM prices WITH (connector = 'files', path = 'out/events', format = 'debezium');"


def a_project(root: Path, emit: str, mode: str, more: str = "") -> Project:
    """In-reach extremes are event times, all of them are values; each lies in a window of its own."""
    for folder in ("sql", "in"):
        (root / folder).mkdir()
    (root / "laminar.toml").touch()
    (root / "sql" / "prices.sql").write_text(
        SQL.format(emit=emit) + SINKS.format(mode=mode, files="append" if mode == "append" else "changelog") + more
    )
    rows = [{"k": str(n), "us": e if -REACH <= e < REACH else NOW, "later": e} for n, e in enumerate(ENDS)]
    (root / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"k": "out", "us": ENDS[0]}]))
    return Project.find(root)


def run(spark: Any, project: Project) -> None:
    options = RunOptions(now=lambda: NOW)
    (plan,) = project.plans()
    assert run_and_report(plan, spark, project, options, Console(stderr=True), as_json=False)


@pytest.fixture
def laminar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def told(project: Project, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["laminar", *arguments, "--project", str(project.root)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return said.out

    return told


def delivered(table: Path) -> list[int]:
    """File by file: deltalake's own reader cannot read the statistics that it has written of such dates."""
    files = [table / path for path in DeltaTable(table).get_add_actions(flatten=True)["path"].to_pylist()]
    return sorted(v for file in files for v in as_integers(pq.read_table(file)).column("valid_to").to_pylist())


@pytest.mark.spark
def test_a_table_that_changes_can_be_looked_at_and_delivered(spark: SparkSession, tmp_path: Path, laminar) -> None:
    project = a_project(tmp_path, "CHANGES", "upsert", DEBEZIUM)
    run(spark, project)
    texts = {to_iso(end) for end in ENDS}
    shown = [json.loads(line) for line in laminar(project, "show", "prices", "--format", "json").splitlines()]
    assert {row["valid_to"] for row in shown} == texts
    assert "-0044-03-15" in {row["day"] for row in shown}
    assert all(text in laminar(project, "show", "prices", "--format", "csv") for text in texts)
    assert "+12000-01-04" in laminar(project, "show", "prices").replace("\n", "")
    for form in ("json", "debezium"):
        assert all(f'"{text}"' in laminar(project, "changes", "prices", "--format", form) for text in texts)
    laminar(project, "changes", "prices")
    read = [record for batch in subscribe(project.data / "prices") for record in records(batch.rows)]
    assert {str(record.data["valid_to"]) for record in read} > {to_iso(end) for end in ENDS if abs(end) > FOR_EVER}
    assert len({record.timestamp for record in read}) == len({e for e in ENDS if -REACH <= e < REACH}) + 1
    laminar(project, "state", "prices")
    laminar(project, "sinks")
    for moment in ("-0044-03-15T12:00:00Z", "9999-12-31", "+12000-01-04"):
        assert "prices" in laminar(project, "explain", "prices", "--window", moment)
    (entry,) = map(json.loads, laminar(project, "show", "prices", "--side-output", "--format", "json").splitlines())
    assert (entry["reason"], entry["event_time"]) == ("time_out_of_range", to_iso(ENDS[0]))
    for part in ("lines", "events"):
        written = "".join(path.read_text() for path in (tmp_path / "out" / part).iterdir())
        assert all(f'"{text}"' in written for text in texts)
    assert delivered(tmp_path / "out" / "rows") == sorted(ENDS)


@pytest.mark.spark
def test_a_table_that_only_grows_can_be_looked_at_and_verified(spark: SparkSession, tmp_path: Path, laminar) -> None:
    project = a_project(tmp_path, "FINAL", "append")
    run(spark, project)
    (tmp_path / "in" / "2.json").write_text(json.dumps({"k": "last", "us": REACH - 1, "later": None}))
    run(spark, project)
    wanted = sorted(ENDS)
    shown = [json.loads(line) for line in laminar(project, "show", "prices", "--format", "json").splitlines()]
    assert sorted(from_iso(row["valid_to"]) for row in shown) == wanted
    (plan,) = project.plans()
    verified = verify(plan, spark, project=tmp_path, data=project.data, range_=Range())
    assert verified is not None
    assert (verified.is_right, verified.rows) == (True, len(ENDS))
    files = (tmp_path / "out" / "columns").glob("*.parquet")
    assert (
        sorted(v for file in files for v in as_integers(pq.read_table(file)).column("valid_to").to_pylist()) == wanted
    )
    assert delivered(tmp_path / "out" / "rows") == wanted


@pytest.mark.spark
def test_dagster_shows_partitions_of_any_year(spark: SparkSession, tmp_path: Path) -> None:
    project = a_project(tmp_path, "CHANGES", "upsert")
    GivenSpark.session = spark
    assets = laminar_assets(project, resource=GivenSpark())
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(assets, instance=instance, selection=dg.AssetSelection.assets(["prices", "state"]))
        assert done.success
        key = dg.AssetKey("prices")
        named = {event.partition_key for event in instance.fetch_materializations(key, limit=50).records}
        assert {"-0044-03-15", "9999-12-31", "+10000-01-01", "+12000-01-04"} <= named
        definition = next(d for d in assets if key in d.keys).partitions_def
        status = get_and_update_asset_status_cache_value(instance, key, definition)
        assert status is not None
