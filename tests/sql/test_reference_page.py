"""docs/reference/sql.md names everything that the tables of the front end know, and its example is a plan."""

from __future__ import annotations

from pathlib import Path

from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.aggregates import AGGREGATES, SYNONYMS
from laminar_dagster.semantics.functions import callable_names
from laminar_dagster.sql.calls import FUNCTION_SYNONYMS
from laminar_dagster.sql.intervals import UNITS
from laminar_dagster.sql.options import COMMON_SOURCE_OPTIONS, CONNECTORS, SINK_CONNECTORS, VIEW_OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text()


def test_the_page_names_every_function_and_synonym() -> None:
    assert [name for name in (*callable_names(), *FUNCTION_SYNONYMS) if f"`{name}`" not in PAGE] == []


def test_the_page_names_every_aggregate_and_synonym() -> None:
    assert [name for name in (*AGGREGATES, *SYNONYMS) if f"`{name}`" not in PAGE] == []


def test_the_page_names_every_option_and_connector() -> None:
    own = [option.name for options in CONNECTORS.values() for option in options]
    known = [*(option.name for option in (*COMMON_SOURCE_OPTIONS, *VIEW_OPTIONS)), *own, *CONNECTORS]
    assert [name for name in known if f"`{name}`" not in PAGE and f"`{name} = " not in PAGE] == []


def test_the_page_names_every_option_and_connector_of_sinks() -> None:
    section = PAGE.split("## Sinks", 1)[1]
    known = [*SINK_CONNECTORS, *(option.name for options in SINK_CONNECTORS.values() for option in options)]
    assert [name for name in known if f"`{name}`" not in section] == []


def test_the_page_names_every_unit_of_time() -> None:
    assert [unit for unit in UNITS if unit not in PAGE] == []


def test_the_example_of_the_page_is_planned() -> None:
    example = PAGE.split("```sql\n", 1)[1].split("```", 1)[0]
    assert plan_script(example)[0].query.view == "sales_per_minute"
