"""`laminar changes` as a user meets it, with no JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from laminar_dagster.cli import main
from laminar_dagster.engine.changelog_folding import fold_changelog
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.fingerprint import fingerprint
from state_store import CommitRow, changelog
from state_store import format as f
from tests.changes.changelogs import Changelog, finish, row, update


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A view whose first epoch is folded, and two epochs of changes."""
    root = tmp_path_factory.mktemp("shop", numbered=False)
    (root / "laminar.toml").touch()
    (root / "sql").mkdir()
    (root / "sql" / "views.sql").write_text("CREATE SOURCE s (at TIMESTAMP) WITH (connector = 'memory');")
    changelog = Changelog(root / "data" / "per_minute")
    changelog.commit(("+I", row("a", 1)), ("+I", row("[b]", 1)))
    with changelog.writer() as store:
        store.tail()
        fold_changelog(store, 1)
    changelog.commit(*update("a", 1, 2))
    changelog.commit(("-D", row("[b]", 1)))
    return root


@pytest.fixture
def laminar(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str, root: Path = project) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["laminar", *arguments, "--project", str(root)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_it_prints_the_snapshot_and_the_changes_and_where_to_go_on(laminar) -> None:
    code, out, err = laminar("changes", "per_minute")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert [line for line in lines if line[:1].isdigit()] == [
        "1 snapshot a 1",
        "1 snapshot [b] 1",
        "2 -U a 1",
        "2 +U a 2",
        "3 -D [b] 1",
    ]
    assert err == "per_minute: 5 change(s) after 0; to go on: --since 3\n"


def test_only_what_comes_after_an_epoch_as_json(laminar) -> None:
    _, out, _ = laminar("changes", "per_minute", "--since", "2", "--format", "json")
    (change,) = map(json.loads, out.splitlines())
    assert (change["_epoch"], change["_op"], change["_weight"], change["k"]) == (3, "-D", -1, "[b]")
    assert change["_event_time"] == "2026-01-01T12:00:00Z"


def test_debezium_envelopes_name_the_project_and_the_view(laminar) -> None:
    _, out, _ = laminar("changes", "per_minute", "--format", "debezium")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["op"] for event in events] == ["r", "r", "u", "d"]
    assert events[2]["source"] | {"sequence": 0} == {
        "name": "laminar",
        "db": "shop",
        "table": "per_minute",
        "sequence": 0,
    }


@pytest.mark.parametrize(("limit", "goes_on"), [(1, "snapshot:1:0"), (2, "1"), (3, "2"), (4, "2"), (9, "3")])
def test_a_limit_cuts_no_update_in_two_and_one_can_go_on_from_it(laminar, limit: int, goes_on: str) -> None:
    _, first, err = laminar("changes", "per_minute", "--limit", str(limit), "--format", "json")
    assert err.endswith(f"--since {goes_on}\n")
    _, rest, _ = laminar("changes", "per_minute", "--since", goes_on, "--format", "json")
    _, whole, _ = laminar("changes", "per_minute", "--format", "json")
    assert (first + rest).split() == whole.split()


def test_where_there_is_nothing_new_it_says_so(laminar) -> None:
    assert laminar("changes", "per_minute", "--since", "3") == (
        0,
        "",
        "per_minute: no changes after 3; to go on: --since 3\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["per_minute", "--since", "soon"], "LMR0710"),
        (["per_minute", "--since", "7"], "LMR0404"),
        (["per_minute", "--format", "xml"], "LMR0706"),
        (["per_hour"], "LMR0701"),
    ],
)
def test_what_cannot_be_answered_is_an_error_with_a_code(laminar, arguments: list[str], code: str) -> None:
    ended, _, err = laminar("changes", *arguments)
    assert ended == 1
    assert code in err


def test_a_view_without_a_changelog_is_named(laminar, tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").touch()
    with Changelog(tmp_path / "data" / "closed").writer() as store:
        store.tail()
        store.finish(CommitRow(1, "tick", store.run_id, 0, "f", None, {}, {}, {f.OUTPUT: 1}, {}))
    ended, _, err = laminar("changes", "closed", root=tmp_path)
    assert ended == 1
    assert 'view "closed" has no changelog [LMR0412]' in err


def test_following_ends_cleanly_with_control_c_and_says_where_to_go_on(project: Path) -> None:
    command = [sys.executable, "-m", "laminar_dagster.cli", "changes", "per_minute", "--follow", "--format", "json"]
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": ""}
    with subprocess.Popen(
        [*command, "--project", str(project)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        while '"_epoch":3' not in follower.stdout.readline():
            pass
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=60)
    assert follower.returncode == 0, err
    assert "to go on: --since 3" in err


CORRECTED = """
CREATE SOURCE s (k STRING, n BIGINT) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW totals AS SELECT k, SUM(n) AS n FROM s GROUP BY k;
"""
KEEP_LITTLE = 'retain_epochs = 1\nretain_state = "0 seconds"\nretain_results = "0 seconds"\n'


def test_maintain_folds_history_at_once_and_an_epoch_before_it_says_how_to_resume(
    laminar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "EPOCHS_PER_PARTITION", 10)
    (tmp_path / "laminar.toml").write_text(KEEP_LITTLE)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "views.sql").write_text(CORRECTED)
    query = fingerprint(plan_script(CORRECTED)[0])
    totals = Changelog(tmp_path / "data" / "totals", query=query)
    totals.commit(("+I", row("a", 1)))
    with totals.writer() as store:
        for n in range(1, 11):
            finish(store, totals.land(store, *update("a", n, n + 1)), query)
    assert laminar("maintain", root=tmp_path)[0] == 0
    totals.commit(("+I", row("b", 1)))
    code, _, err = laminar("changes", "totals", "--since", "1", root=tmp_path)
    assert code == 1
    assert "LMR0410" in err
    assert "since 0" in err
    _, out, err = laminar("changes", "totals", root=tmp_path)
    assert next(line.split() for line in out.splitlines() if line[:1].isdigit()) == ["10", "snapshot", "a", "10"]
    assert err.endswith("to go on: --since 12\n")
