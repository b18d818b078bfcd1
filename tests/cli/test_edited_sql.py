"""The SQL is edited after the state was built: what each command does then. Stores written by hand, no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from laminar_dagster.changes import subscribe
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.errors import LaminarError
from state_store import StoreReader, StoreWriter
from state_store import format as f
from tests.cli.told_epochs import ToldEpoch, a_project, change, laminar, partial, result, tell, timer
from tests.state_store.small_epochs import a_plan

SOURCE = """
CREATE SOURCE sales (region STRING, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
"""
VIEW = """
CREATE MATERIALIZED VIEW %s AS SELECT window_start, region, COUNT(*) AS n
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region
ALLOW LATENESS INTERVAL '5' MINUTE EMIT ON WINDOW CLOSE;
"""
EDITED = VIEW.replace("'5' MINUTE EMIT", "'0' MINUTE EMIT")
SHARDS = {"sales": ("12:03:00", "12:05:00")}
EPOCHS = 17
ROW = result(1, "12:05:00", "12:00:00", "eu", 3)
TABLES = {
    f.PARTIALS: [partial("12:00:00", "12:01:00", "eu", 3), partial("12:02:00", "12:03:00", "eu", 1)],
    f.TIMERS: [timer("12:00:00", "12:01:00", 1), timer("12:02:00", "12:03:00", 1)],
    f.OUTPUT: [ROW],
    f.CHANGELOG: [change("+I", "12:01:00", 1, 1, {n: ROW[n] for n in ("window_start", "region", "n")})],
}


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two views with as many epochs that merges are due; then the lateness of one is taken away."""
    root = a_project(tmp_path_factory.mktemp("project"), SOURCE + VIEW % "edited" + VIEW % "other")
    for view in ("edited", "other"):
        tell(root / "data" / view, [ToldEpoch("12:05:00", "12:03:00", SHARDS, {"rows_in": 4}, tables=TABLES)] * EPOCHS)
    (root / "sql" / "views.sql").write_text(SOURCE + EDITED % "edited" + VIEW % "other")
    return root


READ_BY_THE_QUERY = [
    ("state", "edited"),
    ("explain", "edited", "--window", "2026-01-01T12:02:30Z"),
    ("lineage", "edited"),
    ("verify", "edited"),
    ("backfill", "edited", "--from", "2026-01-01", "--to", "2026-01-02"),
    ("backfill", "edited", "--from", "2026-01-01", "--to", "2026-01-02", "--dry-run"),
    ("fold-late", "edited"),
]


@pytest.mark.parametrize("command", READ_BY_THE_QUERY, ids=" ".join)
def test_what_reads_or_writes_state_by_the_query_is_refused_before_spark_is_started(
    edited: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINAR_SPARK", "sc://nowhere.invalid:1")
    with pytest.raises(LaminarError) as refused:
        laminar(edited, *command)
    assert refused.value.code == "LMR0405"
    assert f"Epoch {EPOCHS} is committed" in str(refused.value.committed)


def test_maintain_leaves_the_timers_of_open_windows_and_maintains_the_other_view(edited: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(edited, root)
    before = timers(root, "edited")
    found = laminar(root, "maintain", "--json")
    assert found.exit_code == 1
    told, other = (json.loads(line) for line in found.stdout.splitlines())
    assert told == {"view": "edited", "error": "LMR0405"}
    assert other["merged"] > 0
    assert timers(root, "edited") == before
    (root / "sql" / "views.sql").write_text(SOURCE + VIEW % "edited" + VIEW % "other")
    assert laminar(root, "maintain").exit_code == 0
    assert timers(root, "edited") == before


def timers(root: Path, view: str) -> list[int]:
    """Those that the next epoch would find."""
    table = StoreReader(root / "data" / view).table(f.TIMERS)
    rows = pq.ParquetDataset(table.absolute(table.files())).read(["window_end"]).to_pylist()
    return sorted(row["window_end"] for row in rows)


def test_an_epoch_that_was_cut_short_is_not_maintained_by_another_query_either(tmp_path: Path) -> None:
    root = a_project(tmp_path, SOURCE + VIEW % "edited")
    tell(root / "data" / "edited", [])
    with StoreWriter(root / "data" / "edited") as store:
        store.tail()
        store.begin(a_plan(store, 1, "another"))
    assert "LMR0405" in laminar(root, "maintain").stderr


def test_metrics_tell_of_the_other_view_and_say_why_not_of_this_one(edited: Path) -> None:
    found = laminar(edited, "metrics", "--format", "json")
    assert found.exit_code == 1
    assert {json.loads(line)["view"] for line in found.stdout.splitlines()} == {"other"}
    assert 'error: edited: view "edited" is not the query' in found.stderr


def test_rows_changes_and_history_do_not_depend_on_the_query_and_are_shown(edited: Path) -> None:
    rows = laminar(edited, "show", "edited", "--format", "json", "--limit", "100").stdout.splitlines()
    assert len(rows) == EPOCHS
    assert len(laminar(edited, "changes", "edited", "--format", "json").stdout.splitlines()) == EPOCHS
    assert len(list(subscribe(edited / "data" / "edited"))) == 1
    assert json.loads(laminar(edited, "state", "edited", "--history", "--json").stdout)["epochs"][0]["epoch"] == EPOCHS


def test_verify_in_python_is_refused_too(edited: Path) -> None:
    plan = Project.find(edited).plan("edited")
    with pytest.raises(LaminarError, match="LMR0405"):
        verify(plan, None, project=edited, data=edited / "data", range_=Range())  # type: ignore[arg-type]
