"""The page of guarantees: each promise names tests that run."""

from __future__ import annotations

import re

import pytest

from tests.docs.shown_tests import ROOT, collected, require

PAGE = (ROOT / "docs" / "explanation" / "guarantees.md").read_text(encoding="utf-8")
ROWS = [row for row in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE) if row[0] != "promise"]
SHOWN = {promise: re.findall(r"`(tests/[^`]+)`", tests) for promise, _, tests in ROWS}


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return collected(test.partition("::")[0] for tests in SHOWN.values() for test in tests)


@pytest.mark.parametrize("promise", SHOWN)
def test_a_promise_is_shown_by_tests_that_run(promise: str, found: dict[str, set[str]]) -> None:
    assert SHOWN[promise]
    for shown in SHOWN[promise]:
        require(shown, found)
