"""Every case file on the reference: the rules alone must give what the case claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar_dagster.conformance.cases import load
from laminar_dagster.conformance.harness import run_case
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.scorecard import Status

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
NOT_MODELLED = {
    "an_interval_join_matches_within_its_bounds",
}


def test_the_cases_are_there() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_reference_agrees_with_the_case(path: Path) -> None:
    case = load(path)
    assert case.name == path.stem
    result = run_case(case, ReferenceRunner)
    expected = Status.REFUSED if case.name in NOT_MODELLED else Status.PASSED
    assert result.status is expected, result.detail
