"""`make laws` finds what a few examples do not, and says what to paste; `make test` sees the same ones every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import settings

from tests.laws.search import seconds_of

ROOT = Path(__file__).parents[2]
LAWS = """
from hypothesis import given, strategies as st
from tests.laws.examples import examples
import pytest

@pytest.mark.parametrize("kind", ["a", "b"])
@examples(3)
@given(drawn=st.lists(st.integers(0, 10**6)), cut=st.frozensets(st.integers(0, 3)))
def test_no_number_is_large(kind, drawn, cut):
    assert kind == "a" or all(number < 900_000 for number in drawn)
"""


def searched(folder: Path, *arguments: str) -> tuple[int, str]:
    laws = folder / "test_some_laws.py"
    laws.write_text(LAWS)
    search = [sys.executable, "-m", "tests.laws.search", "--workers", "0", *arguments]
    command = [*search, "-p", "tests.conftest", str(laws)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout + found.stderr


def test_a_search_prints_what_breaks_a_law_as_an_example_to_paste(tmp_path: Path) -> None:
    code, text = searched(tmp_path, "--budget", "4s")
    assert code == 1
    *_, last = text.split("2 laws, ")
    assert "1 of the laws broken" in last
    assert "test_no_number_is_large[b]\n@example(\n    drawn=[900000],\n    cut=frozenset(),\n)" in last


def test_a_budget_that_is_no_time_is_refused(tmp_path: Path) -> None:
    code, text = searched(tmp_path, "--budget", "soon")
    assert code == 2
    assert "'soon' is no time; give it as 90s, 30m or 1h" in text


def test_budgets() -> None:
    assert [seconds_of(text) for text in ("90s", "20m", "1.5h")] == [90, 1200, 5400]


def test_the_suite_derives_its_examples_from_the_laws_and_remembers_none() -> None:
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.database is None
