"""The command line as a user meets it: a project run once, then looked at with no JVM."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.metrics import METRICS
from tests.cli.told_epochs import laminar as in_process

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE sales (region STRING, amount DECIMAL(10,2), at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH (connector = 'files', path = 'landing', format = 'json');

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, region, COUNT(*) AS n, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT ON WINDOW CLOSE;
"""
FIRST = [
    '{"region": "eu", "amount": 1.10, "at": "2026-01-01T12:00:01Z"}',
    '{"region": "us", "amount": 2.20, "at": "2026-01-01T12:00:30Z"}',
    '{"region": "us", "amount": "much", "at": "2026-01-01T12:00:31Z"}',
    '{"region": "eu"',
    '{"region": "eu", "amount": 3.30, "at": "2026-01-01T12:01:40Z"}',
]
SECOND = [
    '{"region": "eu", "amount": 9.90, "at": "2026-01-01T12:00:05Z"}',
    '{"region": "eu", "amount": 4.40, "at": "2026-01-01T12:02:30Z"}',
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, connect_url: str) -> Path:
    """A project with two epochs behind it."""
    root = tmp_path_factory.mktemp("project")
    (root / "sql").mkdir()
    (root / "sql" / "views.sql").write_text(SQL)
    (root / "landing").mkdir()
    for name, lines in (("1.json", FIRST), ("2.json", SECOND)):
        (root / "landing" / name).write_text("\n".join(lines))
        found = laminar(root, "run", "--json", LAMINAR_SPARK=connect_url)
        assert found.returncode == 0, found.stderr
    return root


def laminar(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laminar_dagster.cli", *arguments, "--project", str(root)]
    return subprocess.run(command, env={**os.environ, **environment}, text=True, capture_output=True, check=False)


def look(root: Path, *arguments: str) -> Any:
    """A reading command, on a machine that has no Java."""
    found = laminar(root, *arguments, PATH="/nowhere", JAVA_HOME="")
    assert found.returncode == 0, found.stderr
    return found.stdout


def here(root: Path, *arguments: str) -> str:
    """The same within this process, which is quicker."""
    return str(in_process(root, *arguments).stdout)


def test_run_says_what_it_did_and_a_second_run_finds_nothing_new(project: Path, connect_url: str) -> None:
    found = laminar(project, "run", LAMINAR_SPARK=connect_url)
    assert (found.returncode, found.stdout) == (0, "per_minute: nothing new\n")


def test_show_prints_the_closed_windows(project: Path) -> None:
    rows = [json.loads(line) for line in look(project, "show", "per_minute", "--format", "json").splitlines()]
    assert [(r["window_start"], r["region"], r["n"], r["total"]) for r in rows] == [
        ("2026-01-01T12:00:00Z", "eu", 1, "1.10"),
        ("2026-01-01T12:00:00Z", "us", 1, "2.20"),
        ("2026-01-01T12:01:00Z", "eu", 1, "3.30"),
    ]


def test_show_takes_a_condition_and_an_epoch(project: Path) -> None:
    filtered = look(project, "show", "per_minute", "--where", "region = 'us'", "--format", "csv")
    assert len(filtered.splitlines()) == 2
    assert "3.30" not in look(project, "show", "per_minute", "--epoch", "1")


def test_show_prints_what_was_set_aside_with_the_original_text_and_the_file(project: Path) -> None:
    lines = look(project, "show", "per_minute", "--side-output", "--format", "json").splitlines()
    entries = {entry["reason"]: entry for entry in map(json.loads, lines)}
    assert set(entries) == {"malformed_record", "type_mismatch", "allowed_lateness_exceeded"}
    assert entries["malformed_record"]["original_event"] == '{"region": "eu"'
    assert entries["type_mismatch"]["source_file"].endswith("landing/1.json")
    assert entries["allowed_lateness_exceeded"]["kind"] == "late"
    late = entries["allowed_lateness_exceeded"]
    assert (late["group_key"], late["original_event"]["region"]) == ({"region": "eu"}, "eu")
    assert late["window"] == {"start": "2026-01-01T12:00:00Z", "end": "2026-01-01T12:01:00Z"}


def test_state_shows_open_windows_watermark_and_timers_at_any_epoch(project: Path) -> None:
    now = json.loads(look(project, "state", "per_minute", "--json"))
    then = json.loads(look(project, "state", "per_minute", "--epoch", "1", "--json"))
    assert (now["epoch"], now["watermark"]) == (2, "2026-01-01T12:02:25Z")
    assert [window["window_start"] for window in now["open_windows"]] == ["2026-01-01T12:02:00Z"]
    assert then["watermark"] == "2026-01-01T12:01:35Z"
    assert then["open_windows"][0]["closes_at_watermark"] == "2026-01-01T12:02:00Z"
    assert now["shards"][0]["shard"] == "sales"


def test_state_history_accounts_for_every_row(project: Path) -> None:
    epochs = json.loads(look(project, "state", "per_minute", "--history", "--json"))["epochs"]
    for epoch in epochs:
        counts = epoch["counts"]
        assert counts["rows_in"] == sum(counts[fate] for fate in ("aggregated", "filtered", "late", "error"))
    assert sum(epoch["counts"]["rows_in"] for epoch in epochs) == len(FIRST) + len(SECOND)


def test_state_and_show_are_readable_by_people(project: Path) -> None:
    assert "per_minute: epoch 2, watermark 2026-01-01T12:02:25Z" in look(project, "state", "per_minute")
    assert "3 of 3 row(s)" in look(project, "show", "per_minute")


def test_explain_prints_the_plan_as_a_tree(project: Path) -> None:
    text = look(project, "explain", "per_minute")
    for word in ("sales", "watermark", "TUMBLE", "region", "SUM", "ON WINDOW CLOSE", "append", "bucket"):
        assert word.lower() in text.lower()


def test_explain_tells_of_a_window_what_the_engine_left_behind(project: Path) -> None:
    time = ("--window", "2026-01-01T12:00:30Z", "--json")
    (closed,) = json.loads(look(project, "explain", "per_minute", *time))["windows"]
    (open_,) = json.loads(here(project, "explain", "per_minute", *time, "--epoch", "1"))["windows"]
    assert (closed["open"], closed["closed"]["epoch"]) == (False, 1)
    assert open_["emissions"] == closed["emissions"]
    (emission,) = closed["emissions"]
    assert (emission["epoch"], emission["operations"], emission["reason"]) == (1, {"+I": 2}, "the window closed")
    assert closed["set_aside"] == [{"kind": "late", "reason": "allowed_lateness_exceeded", "rows": 1}]
    (last,) = json.loads(here(project, "explain", "per_minute", "--window", "2026-01-01T12:02:00Z", "--json"))[
        "windows"
    ]
    assert (last["open"], last["rows"], last["groups"], last["opened_in_epoch"]) == (True, 1, 1, 2)
    assert (last["missing_seconds"], last["shards"][0]["needs_event_time"]) == (35, "2026-01-01T12:03:05Z")


OTHER_VIEWS = """
CREATE MATERIALIZED VIEW sessions AS
SELECT window_start, window_end, region, COUNT(*) AS n FROM SESSION(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW corrected AS
SELECT region, COUNT(*) AS n FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region ALLOW LATENESS INTERVAL '5' MINUTE EMIT ON UPDATE;
"""


def test_explain_tells_of_sessions_and_of_corrections(tmp_path: Path, connect_url: str) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "views.sql").write_text(SQL.split("CREATE MATERIALIZED")[0] + OTHER_VIEWS)
    (tmp_path / "landing").mkdir()
    for name, lines in (("1.json", FIRST), ("2.json", SECOND)):
        (tmp_path / "landing" / name).write_text("\n".join(lines))
        assert laminar(tmp_path, "run", LAMINAR_SPARK=connect_url).returncode == 0

    def windows(view: str, time: str, *more: str) -> list[dict[str, Any]]:
        text = here(tmp_path, "explain", view, "--window", f"2026-01-01T{time}Z", "--json", *more)
        found: list[dict[str, Any]] = json.loads(text)["windows"]
        return found

    (going,) = windows("sessions", "12:02:00")
    assert (going["open"], going["keys"], going["rows"]) == (True, {"region": "eu"}, 2)
    assert (going["window_start"], going["window_end"]) == ("2026-01-01T12:01:40Z", "2026-01-01T12:03:30Z")
    ended = windows("sessions", "12:00:40")
    assert [(s["keys"]["region"], s["open"], s["emissions"][0]["epoch"]) for s in ended] == [
        ("eu", False, 1),
        ("us", False, 1),
    ]
    (revised,) = windows("corrected", "12:00:00", "--key", "region=eu")
    assert (revised["open"], revised["rows"], revised["closes_at_watermark"]) == (True, 2, "2026-01-01T12:06:00Z")
    assert [(row["_op"], row["n"]) for row in revised["emitted_rows"]] == [("+I", 1), ("-U", 1), ("+U", 2)]
    assert [emission["reason"] for emission in revised["emissions"]] == [
        "the watermark passed the window's end",
        "a correction, by rows that came after it",
    ]


def test_metrics_have_all_that_the_epoch_log_counts(project: Path) -> None:
    lines = [json.loads(line) for line in here(project, "metrics", "--format", "json").splitlines()]
    found = {line["metric"]: line["value"] for line in lines}
    assert found["laminar_input_rows_total"] == len(FIRST) + len(SECOND)
    assert (found["laminar_late_rows_total"], found["laminar_error_rows_total"]) == (1, 2)
    assert {line["step"] for line in lines if "step" in line} == {"read", "fold", "close"}
    epochs = json.loads(here(project, "state", "per_minute", "--history", "--json"))["epochs"]
    counted = {f"counts.{name}" for epoch in epochs for name in epoch["counts"]}
    shown = {name for metric in METRICS for name in re.findall("`([^`]+)`", metric.origin)}
    assert counted - shown == set()


def test_verify_finds_a_view_right_until_its_source_says_something_else(project: Path, connect_url: str) -> None:
    found = laminar(project, "verify", "per_minute", LAMINAR_SPARK=connect_url)
    assert (found.returncode, found.stdout) == (
        0,
        "per_minute: 2 window(s), 3 row(s) recomputed up to 2026-01-01T12:02:25Z; all as in the view\n",
    ), found.stderr
    source = project / "landing" / "1.json"
    times = (source.stat().st_atime, source.stat().st_mtime)
    source.write_text("\n".join(FIRST).replace("1.10", "1.20"))
    os.utime(source, times)
    try:
        found = laminar(project, "verify", "per_minute", "--json", LAMINAR_SPARK=connect_url)
    finally:
        source.write_text("\n".join(FIRST))
        os.utime(source, times)
    told = json.loads(found.stdout)
    assert (found.returncode, told["missing"], told["unexpected"]) == (1, 1, 1)
    assert (told["missing_rows"][0]["total"], told["unexpected_rows"][0]["total"]) == ("1.20", "1.10")
    assert [entry.name for entry in (project / "data").iterdir()] == ["per_minute"]


def test_an_unknown_view_is_an_error_with_the_name_that_was_meant(project: Path) -> None:
    found = laminar(project, "show", "per_minut")
    assert found.returncode == 1
    assert 'there is no view "per_minut" in this project [LMR0701]' in found.stderr
    assert 'Did you mean "per_minute"?' in found.stderr


def test_an_epoch_that_is_not_there_is_an_error(project: Path) -> None:
    assert "there is no committed epoch 7 [LMR0404]" in laminar(project, "state", "per_minute", "--epoch", "7").stderr


def test_a_changed_query_over_old_state_is_refused_and_says_what_to_do(project: Path, connect_url: str) -> None:
    views = project / "sql" / "views.sql"
    views.write_text(SQL.replace("COUNT(*) AS n", "COUNT(region) AS n"))
    try:
        found = laminar(project, "run", LAMINAR_SPARK=connect_url)
    finally:
        views.write_text(SQL)
    assert found.returncode == 1
    assert "LMR0405" in found.stderr


def test_doctor_finds_everything_in_order(project: Path) -> None:
    found = laminar(project, "doctor")
    assert found.returncode == 0, found.stdout
    assert "WRONG" not in found.stdout


def test_doctor_says_what_is_wrong_where_there_is_no_java(project: Path) -> None:
    found = laminar(project, "doctor", PATH="/nowhere", JAVA_HOME="")
    assert found.returncode == 1
    assert "LMR0501" in found.stdout


def test_a_condition_is_one_condition_and_reaches_nothing_but_the_rows(project: Path) -> None:
    target = project / "stolen.csv"
    for where in (
        f"true); COPY (SELECT 1) TO '{target}'; SELECT (1",
        f"(SELECT count(*) FROM read_csv('{project}/sql/*'))>0",
    ):
        found = laminar(project, "show", "per_minute", "--where", where)
        assert found.returncode == 1
        assert "LMR0707" in found.stderr
    assert not target.exists()


def test_a_broken_file_of_another_view_does_not_hide_this_one(project: Path) -> None:
    broken = project / "sql" / "zz.sql"
    broken.write_text("CREATE NONSENSE;")
    try:
        assert "3 of 3 row(s)" in look(project, "show", "per_minute")
    finally:
        broken.unlink()


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "LMR0708" in laminar(tmp_path / "nowhere", "explain", "x").stderr


def test_a_view_that_cannot_run_does_not_keep_the_others_from_running(tmp_path: Path, connect_url: str) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text(FIRST[0])
    broken = SQL.replace("sales", "lost").replace("per_minute", "a_view").replace("'landing'", "'nowhere'")
    (tmp_path / "sql" / "views.sql").write_text(broken + SQL)
    found = laminar(tmp_path, "run", LAMINAR_SPARK=connect_url)
    assert found.returncode == 1
    assert "error: a_view:" in found.stderr
    assert "per_minute: 1 epoch(s), 1 rows in" in found.stdout
