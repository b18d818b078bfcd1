"""A project with sinks, through the commands: what is delivered, what a kill leaves, what is listed and explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.engine.crash import CrashError
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.integration import laminar_assets
from state_store import StoreReader
from tests.engine.sinks.histories import delta_rows, parquet_rows, texts
from tests.integration.shop import GivenSpark

SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, region, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region;
CREATE MATERIALIZED VIEW totals AS
SELECT region, SUM(amount) AS total FROM sales GROUP BY region EMIT CHANGES;

CREATE SINK archive FROM per_minute WITH (connector = 'files', path = 'out/archive', format = 'parquet');
CREATE SINK lines FROM per_minute WITH (connector = 'files', path = 'out/lines', format = 'json');
CREATE SINK appended FROM per_minute WITH (connector = 'delta', path = 'out/appended', mode = 'append');
CREATE SINK current FROM totals WITH (connector = 'delta', path = 'out/current', mode = 'upsert');
CREATE SINK history FROM totals WITH (connector = 'delta', path = 'out/history', mode = 'changelog');
"""
LATER = "CREATE SINK events FROM totals WITH (connector = 'files', path = 'out/events', format = 'debezium');"
FILES = [
    [("eu", 1, "12:00:01"), ("us", 2, "12:00:59")],
    [("eu", 3, "12:01:30"), ("us", 4, "12:02:00")],
    [("eu", 5, "12:03:00")],
]


def a_project(root: Path, sql: str = SQL) -> Path:
    (root / "sql").mkdir(parents=True)
    (root / "landing").mkdir()
    (root / "sql" / "views.sql").write_text(sql)
    return root


def arrive(root: Path, number: int) -> None:
    lines = [json.dumps({"region": r, "amount": a, "at": f"2026-01-05T{t}Z"}) for r, a, t in FILES[number]]
    (root / "landing" / f"{number}.jsonl").write_text("\n".join(lines))


def laminar(root: Path, *arguments: str) -> Result:
    ran = CliRunner().invoke(app, [*arguments, "--project", str(root)])
    assert ran.exit_code == 0, ran.output
    return ran


def listed(root: Path) -> dict[str, tuple[int, int]]:
    entries = [json.loads(line) for line in laminar(root, "sinks", "--json").output.splitlines()]
    return {entry["sink"]: (entry["epoch"], entry["behind"]) for entry in entries}


def out(root: Path) -> dict[str, Any]:
    """What is in the targets, without the processing times."""
    return {
        "archive": parquet_rows(root / "out" / "archive"),
        "lines": texts(root / "out" / "lines"),
        "appended": delta_rows(root / "out" / "appended"),
        "current": delta_rows(root / "out" / "current"),
        "history": [{**r, "_emitted_at": None} for r in delta_rows(root / "out" / "history")],
    }


@pytest.fixture
def master(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAMINAR_SPARK", spark.sparkContext.master)
    return spark.sparkContext.master


@pytest.mark.spark
def test_runs_deliver_to_all_sinks_and_a_sink_that_is_added_later_catches_up(tmp_path: Path, master: str) -> None:
    root = a_project(tmp_path)
    arrive(root, 0)
    assert "delivered 1 epoch(s), 2 row(s) to sink current" in laminar(root, "run").output
    arrive(root, 1)
    arrive(root, 2)
    done = [json.loads(line) for line in laminar(root, "run", "--max-files", "1", "--json").output.splitlines()]
    assert {entry["view"]: entry["delivered"] for entry in done} == {
        "per_minute": {name: {"epochs": 2, "rows": 4} for name in ("archive", "lines", "appended")},
        "totals": {name: {"epochs": 2, "rows": 6} for name in ("current", "history")},
    }
    found = out(root)
    assert sum(map(len, found["archive"].values())) == len(found["appended"]) == 4
    assert next(json.loads(line) for text in found["lines"].values() for line in text.splitlines()) == {
        "window_start": "2026-01-05T12:00:00Z", "region": "eu", "total": 1,
    }  # fmt: skip
    table = StoreReader(root / "data" / "totals").read("output").select(["region", "total"]).to_pylist()
    assert found["current"] == sorted(table, key=repr) == [{"region": "eu", "total": 9}, {"region": "us", "total": 6}]
    assert listed(root) == dict.fromkeys(("archive", "lines", "appended", "current", "history"), (3, 0))

    assert "delivered" not in laminar(root, "run").output
    assert out(root) == found

    (root / "sql" / "later.sql").write_text(LATER)
    assert listed(root)["events"] == (0, 3)
    assert "totals: delivered 3 epoch(s), 8 row(s) to sink events" in laminar(root, "run", "totals").output
    events = [json.loads(line)["op"] for text in texts(root / "out" / "events").values() for line in text.splitlines()]
    assert events == ["c", "c", "u", "u", "u"]


@pytest.mark.spark
def test_a_run_killed_between_delivery_and_position_delivers_nothing_twice(
    tmp_path: Path, spark: SparkSession, master: str
) -> None:
    calm, disturbed = (a_project(tmp_path / name / "shop") for name in ("calm", "disturbed"))
    for root in (calm, disturbed):
        for number in range(3):
            arrive(root, number)
    laminar(calm, "run")
    project = Project.find(disturbed)
    for view, write in (("per_minute", "sink appended version"), ("totals", "sink current version")):
        with pytest.raises(CrashError):
            run_view(
                project.plan(view),
                spark,
                project=project.root,
                data=project.data,
                options=RunOptions(after_write=raising_at(write)),
            )
    laminar(disturbed, "run")
    assert out(disturbed) == out(calm)


def raising_at(write: str) -> Any:
    def after_write(what: str) -> None:
        if what == write:
            raise CrashError(what)

    return after_write


@pytest.mark.spark
def test_a_tick_in_dagster_delivers_and_a_failing_sink_fails_it_after_the_epoch_is_committed(
    tmp_path: Path, spark: SparkSession
) -> None:
    root = a_project(tmp_path)
    arrive(root, 0)
    project = Project.find(root)
    GivenSpark.session = spark
    assets = laminar_assets(project, resource=GivenSpark())
    key = dg.AssetKey(["totals", "state"])
    state = dg.AssetSelection.assets(key)
    result = dg.materialize(assets, selection=state)
    told = result.asset_materializations_for_node("totals")
    (event,) = [event for event in told if event.asset_key == key]
    assert event.metadata["delivered_current"].value == 2

    (root / "out" / "current" / "_delta_log").rename(root / "out" / "current" / "gone")
    (root / "out" / "current" / "_delta_log").write_text("")
    arrive(root, 1)
    failed = dg.materialize(assets, selection=state, raise_on_error=False)
    assert not failed.success
    (failure,) = failed.get_step_failure_events()
    description = str(failure.step_failure_data.user_failure_data.description)
    assert "Epoch 2 of the view is committed and stands; the sink has the view up to epoch 1." in description
    assert StoreReader(root / "data" / "totals").commit(2) is not None
    assert listed(root) == {
        "archive": (0, 0),
        "lines": (0, 0),
        "appended": (0, 0),
        "current": (1, 1),
        "history": (2, 0),
    }


def test_sinks_are_listed_before_the_first_run_and_explained_with_their_view(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    shown = laminar(root, "sinks", "totals").output
    assert "out/current" in shown
    assert "archive" not in shown
    assert listed(root)["archive"] == (0, 0)
    explained = laminar(root, "explain", "per_minute").output
    assert "emit ON WINDOW CLOSE" in explained
    assert "chosen for sink archive, since the view says no EMIT" in explained
    assert "sink appended (delta, path = 'out/appended')" in explained


def test_a_project_without_sinks_says_so(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL.split("CREATE SINK")[0])
    assert laminar(root, "sinks").output == "no sinks; CREATE SINK name FROM view WITH (…) declares one\n"
