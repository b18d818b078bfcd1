"""The page of requirements: each row names a test that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z0-9-]+\.\d+) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
DOCUMENTS = ("F011B", "F063", "F-SSQL-001", "F017E", "ADR-0001")
# What has one of these marks may be there and never run.
NOT_RUN = ("skip", "skipif", "xfail")


@pytest.fixture(scope="module")
def collected() -> dict[str, set[str]]:
    """Tests that run, of all files that the page names, as pytest collects them: each with its parameters."""
    paths = sorted({test.split("::")[0] for test in map(named, ROWS)})
    marks = " and ".join(f"not {mark}" for mark in NOT_RUN)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", marks, *paths]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        test, _, parameters = line.partition("[")
        if "::" in test:
            found.setdefault(test, set()).add(parameters.removesuffix("]"))
    return found


def named(row: tuple[str, str, str, str]) -> str:
    return row[3].strip("`").partition("[")[0]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_requirement_is_shown_by_a_test_that_runs(
    row: tuple[str, str, str, str], collected: dict[str, set[str]]
) -> None:
    shown = re.fullmatch(r"`tests/[\w/]+\.py::test_\w+(?:\[(.+)\])?`", row[3])
    assert shown is not None, row[3]
    assert named(row) in collected, f"{row[0]}: no test {named(row)} is collected that runs"
    if shown[1] is not None:
        assert shown[1] in collected[named(row)], f"{row[0]}: {named(row)} does not run with {shown[1]}"


def test_the_rows_of_each_document_are_numbered_without_a_gap() -> None:
    numbers = {
        name: [int(row[0].rpartition(".")[2]) for row in ROWS if row[0].startswith(f"{name}.")] for name in DOCUMENTS
    }
    assert all(found == list(range(1, len(found) + 1)) and found for found in numbers.values())
    assert sum(map(len, numbers.values())) == len(ROWS) == PAGE.count("\n| ") - len(DOCUMENTS)
