"""A limit is for the screen: data is whole, what was cut is said, and a reader may leave early. No JVM."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.cli.app import main
from state_store import format as f
from tests.cli.told_epochs import ToldEpoch, a_project, change, laminar, late, partial, result, tell, timer

SQL = """
CREATE SOURCE sales (region STRING, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, region, COUNT(*) AS n
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
"""
ROWS, WINDOWS, EPOCHS = 1_500, 30, 23
SHARDS = {"sales": ("12:00:00", "12:05:00")}


def minute(number: int) -> str:
    return f"{12 + number // 60}:{number % 60:02d}:00"


def tables() -> dict[str, Any]:
    rows = [result(1, "12:05:00", minute(n % 60), f"region {n}", n) for n in range(ROWS)]
    plain = [{name: row[name] for name in ("window_start", "region", "n")} for row in rows]
    return {
        f.OUTPUT: rows,
        f.CHANGELOG: [change("+I", "12:01:00", 1, n, row) for n, row in enumerate(plain)],
        f.SIDE_OUTPUT: [late(minute(n % 60), minute(n % 60 + 1), str(n)) for n in range(ROWS)],
        f.PARTIALS: [partial(minute(n), minute(n + 1), "eu", 1) for n in range(WINDOWS)],
        f.TIMERS: [timer(minute(n), minute(n + 1), 1) for n in range(WINDOWS)],
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = a_project(tmp_path_factory.mktemp("project"), SQL)
    backfilled = ToldEpoch("12:06:00", "12:00:00", SHARDS, kind="backfill")
    tell(root / "data" / "per_minute", [ToldEpoch("12:05:00", "12:00:00", SHARDS, tables=tables())])
    tell(root / "data" / "per_minute", [backfilled] * (EPOCHS - 1))
    return root


@pytest.mark.parametrize("what", [(), ("--side-output",)], ids=["results", "side output"])
def test_data_has_every_row(project: Path, what: tuple[str, ...]) -> None:
    as_csv = laminar(project, "show", "per_minute", "--format", "csv", *what)
    as_json = laminar(project, "show", "per_minute", "--format", "json", *what)
    assert len(list(csv.reader(io.StringIO(as_csv.stdout)))) == ROWS + 1
    assert len(as_json.stdout.splitlines()) == ROWS
    assert (as_csv.stderr, as_json.stderr) == ("", "")


@pytest.mark.parametrize("form", ["csv", "json", "table"])
def test_a_limit_that_cuts_says_so_and_not_among_the_data(project: Path, form: str) -> None:
    found = laminar(project, "show", "per_minute", "--format", form, "--limit", "7")
    assert found.stderr == f"per_minute: cut after 7 of {ROWS} row(s); --limit shows more\n"
    assert len(re.findall(r"region \d", found.stdout)) == 7
    whole = laminar(project, "show", "per_minute", "--format", form, "--where", "n < 7", "--limit", "7")
    assert whole.stderr == ""


def test_a_table_has_some_rows_and_says_of_how_many(project: Path) -> None:
    found = laminar(project, "show", "per_minute")
    assert f"20 of {ROWS} row(s)" in found.stdout
    assert len(re.findall(r"region \d", found.stdout)) == 20
    assert f"cut after 20 of {ROWS}" in found.stderr


def test_state_as_data_is_whole_and_a_table_says_what_it_leaves_out(project: Path) -> None:
    for what, listed, count in (((), "open_windows", WINDOWS), (("--history",), "epochs", EPOCHS)):
        whole = laminar(project, "state", "per_minute", "--json", *what)
        assert (len(json.loads(whole.stdout)[listed]), whole.stderr) == (count, "")
        some = laminar(project, "state", "per_minute", "--json", "--limit", "3", *what)
        assert len(json.loads(some.stdout)[listed]) == 3
        table = laminar(project, "state", "per_minute", *what)
        things = listed.replace("_", " ")
        assert some.stderr == f"per_minute: cut after 3 of {count} {things}; --limit shows more\n"
        assert table.stderr == f"per_minute: cut after 20 of {count} {things}; --limit shows more\n"
    assert f"{WINDOWS} open window(s)" in laminar(project, "state", "per_minute").stdout


def test_changes_say_that_a_limit_cut_them(project: Path) -> None:
    whole = laminar(project, "changes", "per_minute", "--format", "json")
    assert (len(whole.stdout.splitlines()), "cut" in whole.stderr) == (ROWS, False)
    assert (
        "5 change(s) after 0, cut by --limit; to go on"
        in laminar(project, "changes", "per_minute", "--limit", "5").stderr
    )


LOOKS = [
    ("show", "per_minute", "--format", "json"),
    ("show", "per_minute", "--format", "csv"),
    ("show", "per_minute", "--limit", str(ROWS)),
    ("changes", "per_minute"),
    ("changes", "per_minute", "--format", "json"),
    ("state", "per_minute"),
    ("state", "per_minute", "--history"),
    ("metrics",),
    ("sinks",),
    ("explain", "per_minute"),
]


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_a_reader_that_has_left_is_no_error(
    project: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(sys, "argv", ["laminar", *command, "--project", str(project)])
    with open(writer, "w", encoding="utf-8") as nobody_reads, monkeypatch.context() as patched:  # noqa: PTH123
        patched.setattr(sys, "stdout", nobody_reads)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0


def test_head_in_a_shell_takes_some_lines_and_nothing_complains(project: Path) -> None:
    show = f"{sys.executable} -m laminar_dagster.cli show per_minute --format csv --project {project}"
    words = ["bash", "-o", "pipefail", "-c", f"{show} | head -2"]
    ran = subprocess.run(words, text=True, capture_output=True, check=False)
    assert (ran.returncode, len(ran.stdout.splitlines()), ran.stderr) == (0, 2, "")


def test_the_account_of_a_window_says_that_it_lists_the_first_rows_only(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    emitted = [result(1, "12:05:00", "12:00:00", "eu", n) for n in range(25)]
    tell(root / "data" / "per_minute", [ToldEpoch("12:05:00", "12:03:00", SHARDS, tables={f.OUTPUT: emitted})])
    when = ("--window", "2026-01-01T12:00:30Z", "--key", "region=eu")
    (window,) = json.loads(laminar(root, "explain", "per_minute", *when, "--json").stdout)["windows"]
    assert len(window["emitted_rows"]) == 20
    assert window["notes"] == ["more than 20 rows were emitted: these are the first"]
