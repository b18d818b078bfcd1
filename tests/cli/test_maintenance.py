"""What the command line shows of maintenance, and lets one set: a store filled by hand, no JVM."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.fingerprint import fingerprint
from state_store import StoreError, StoreWriter
from tests.state_store.small_epochs import EAGER, run

SQL = """
CREATE SOURCE sales (n BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
QUERY = fingerprint(plan_script(SQL)[0])
KEEP_FEW = 'retain_epochs = 3\nretain_state = "0 seconds"\nretain_results = "0 seconds"\n'


def a_project(root: Path, settings: str = "") -> Path:
    (root / "sql").mkdir()
    (root / "sql" / "views.sql").write_text(SQL)
    (root / "landing").mkdir()
    (root / "laminar.toml").write_text(settings)
    return root


def laminar(root: Path, *arguments: str) -> Any:
    found = CliRunner().invoke(app, [*arguments, "--project", str(root)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose view has twelve epochs behind it, of which five are kept."""
    root = a_project(tmp_path_factory.mktemp("worn"))
    run(root / "data" / "per_minute", range(1, 13), EAGER, query=QUERY)
    return root


def test_state_shows_what_is_on_disk_what_can_be_read_and_what_was_done(worn: Path) -> None:
    told = json.loads(laminar(worn, "state", "per_minute", "--json").stdout)
    assert told["maintenance"]["oldest_epoch"] == 8
    assert told["maintenance"]["vacuum"]["files"] > 0
    assert told["maintenance"]["compaction"]["files"] == 4
    assert told["tables"]["timers"]["disk_files"] > told["tables"]["timers"]["files"]
    text = laminar(worn, "state", "per_minute").stdout
    for words in ("as of epoch 8 and later", "last merge: 4 files of", "last vacuum: ", "on disk"):
        assert words in text


def test_a_forgotten_epoch_is_an_error_and_its_counts_are_still_told(worn: Path) -> None:
    for command in ("state", "show"):
        with pytest.raises(StoreError, match=r"epoch 3 can no longer be read.*LMR0407"):
            laminar(worn, command, "per_minute", "--epoch", "3")
    history = json.loads(laminar(worn, "state", "per_minute", "--history", "--json").stdout)["epochs"]
    assert [entry["epoch"] for entry in history] == list(range(12, 0, -1))


def test_maintain_does_now_what_the_settings_ask_for(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    run(root / "data" / "per_minute", range(1, 18), query=QUERY)
    before = json.loads(laminar(root, "maintain", "--json").stdout)
    assert (before["view"], before["oldest_epoch"]) == ("per_minute", 1)
    assert before["merged"] > 40
    run(root / "data" / "per_minute", range(1, 21), query=QUERY)
    (root / "laminar.toml").write_text(KEEP_FEW)
    assert "can be read as of epoch 18 and later" in laminar(root, "maintain", "per_minute").stdout
    after = json.loads(laminar(root, "maintain", "--json").stdout)
    assert (after["merged"], after["deleted"]) == (0, 0)


def test_maintain_says_what_it_cannot_do(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    assert laminar(root, "maintain").stdout == "per_minute: no epoch yet\n"
    run(root / "data" / "per_minute", range(1, 3), query=QUERY)
    with StoreWriter(root / "data" / "per_minute"):
        found = laminar(root, "maintain", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout) == {"view": "per_minute", "error": "LMR0402"}


def test_settings_say_how_long_epochs_are_kept(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text('retain_epochs = 7\nretain_state = "90 minutes"\nretain_results = "2 weeks"')
    policy = Project.find(tmp_path).maintenance
    assert (policy.retain_epochs, policy.retain_state) == (7, timedelta(minutes=90))
    assert policy.retain_results == timedelta(weeks=2)


@pytest.mark.parametrize(
    "setting",
    ["retain_epochs = 0", 'retain_epochs = "7"', "retain_epochs = true", "retain_state = 5",
     'retain_state = "soon"', 'retain_results = "1 month"', 'retain_results = "-1 days"'],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, setting: str) -> None:
    (tmp_path / "laminar.toml").write_text(setting)
    with pytest.raises(LaminarError, match=r'setting "retain_.*must be.*LMR0705'):
        Project.find(tmp_path)
