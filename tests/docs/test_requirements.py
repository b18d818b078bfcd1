"""The page of requirements: each row names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z0-9-]+\.\d+) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
DOCUMENTS = ("F011B", "F063", "F-SSQL-001", "F017E", "ADR-0001")
# Where the text of a parameter is the name of a file.
FILES = {
    "tests/conformance/test_spark.py": ("tests/conformance/cases/{}.json",),
    "tests/sql/test_golden.py": ("tests/sql/accepted/{}.sql", "tests/sql/refused/{}.sql"),
}


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("number", "shown"), [(number, shown) for number, _, _, shown in ROWS])
def test_a_requirement_is_shown_by_a_test(number: str, shown: str) -> None:
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[(\w+)\])?`", shown)
    assert found is not None, f"{number}: {shown}"
    path, name, parameter = found.groups()
    assert name in functions_in(path), f"{number}: there is no {name} in {path}"
    if parameter is not None:
        assert any((ROOT / each.format(parameter)).exists() for each in FILES[path]), f"{number}: {parameter}"


def test_the_rows_of_each_document_are_numbered_without_a_gap() -> None:
    numbers = {
        name: [int(row[0].rpartition(".")[2]) for row in ROWS if row[0].startswith(f"{name}.")] for name in DOCUMENTS
    }
    assert all(found == list(range(1, len(found) + 1)) and found for found in numbers.values())
    assert sum(map(len, numbers.values())) == len(ROWS) == PAGE.count("\n| ") - len(DOCUMENTS)
