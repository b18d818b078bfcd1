"""Every conformance case is read by the front end: refusals say what they must, the rest is a query."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.plan.build import declared_columns_only, plan_script
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import parse_script

CASES = [
    json.loads(path.read_text()) for path in sorted((Path(__file__).parents[1] / "conformance/cases").glob("*.json"))
]
REFUSALS = [case for case in CASES if "expect_error" in case]
PIPELINES = [case for case in CASES if "expect_error" not in case]
CORE = [case for case in PIPELINES if case["tier"] == 1]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["name"])
def test_a_refusal_case_is_refused_with_the_words_it_asks_for(case: dict[str, Any]) -> None:
    with pytest.raises(LaminarError) as caught:
        plan_script(case["sql"])
    assert not isinstance(caught.value, NotWiredError)
    text = caught.value.render().lower()
    assert [word for word in case["expect_error"]["contains"] if word.lower() not in text] == []


@pytest.mark.parametrize("case", CORE, ids=lambda case: case["name"])
def test_a_case_of_the_core_resolves_to_a_query(case: dict[str, Any]) -> None:
    queries = resolve(parse_script(case["sql"]), declared_columns_only)
    assert case["view"] in {query.view for query in queries}


@pytest.mark.parametrize("case", PIPELINES, ids=lambda case: case["name"])
def test_a_pipeline_case_is_planned_or_refused_as_not_wired_yet(case: dict[str, Any]) -> None:
    with contextlib.suppress(NotWiredError):
        assert plan_script(case["sql"])[-1].query.view == case["view"]


def test_everything_with_tumbling_windows_that_close_once_is_planned() -> None:
    waiting = ("EMIT ON WINDOW CLOSE", "EMIT FINAL")
    later = (
        "HOP(",
        "CUMULATE(",
        "SESSION(",
        "DISTINCT",
        "STDDEV",
        "cdf",
        "max_groups",
        "TIME ZONE",
        "ROW_NUMBER",
    )
    simple = [
        case
        for case in CORE
        if any(clause in case["sql"] for clause in waiting)
        and not any(word in case["sql"] for word in later)
        and "a_projection" not in case["name"]
    ]
    assert len(simple) > 40
    for case in simple:
        assert plan_script(case["sql"])
