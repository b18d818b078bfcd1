"""The page of requirements: each row names a test that runs."""

from __future__ import annotations

import re

import pytest

from tests.docs.shown_tests import ROOT, collected, require

PAGE = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z0-9-]+\.\d+) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
DOCUMENTS = ("F011B", "F063", "F-SSQL-001", "F017E", "ADR-0001")


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return collected(row[3].strip("`").partition("::")[0] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_requirement_is_shown_by_a_test_that_runs(row: tuple[str, str, str, str], found: dict[str, set[str]]) -> None:
    shown = re.fullmatch(r"`(tests/[\w/]+\.py::test_\w+(?:\[.+\])?)`", row[3])
    assert shown is not None, row[3]
    require(shown[1], found)


def test_the_rows_of_each_document_are_numbered_without_a_gap() -> None:
    numbers = {
        name: [int(row[0].rpartition(".")[2]) for row in ROWS if row[0].startswith(f"{name}.")] for name in DOCUMENTS
    }
    assert all(found == list(range(1, len(found) + 1)) and found for found in numbers.values())
    assert sum(map(len, numbers.values())) == len(ROWS) == PAGE.count("\n| ") - len(DOCUMENTS)
