"""The conformance cases through the real front end, Spark and Delta: as written, in one tick, killed, over Connect."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.conformance.cases import Case, CommitStep, TickStep, load
from laminar_dagster.conformance.harness import run_case
from laminar_dagster.conformance.scorecard import Status
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.errors import NotWiredError
from laminar_dagster.plan.build import plan_script

pytestmark = pytest.mark.spark

CASES = {path.stem: load(path) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}

KILLED = (
    "a_sum_that_overflows_is_an_error_not_a_number",
    "late_rows_stay_late_after_a_restart",
    "tumble_many_windows_close_in_one_advance",
    "two_sources_min_watermark_gates_close",
    "idle_timeout_closes_the_last_window_on_an_empty_tick",
    "a_division_by_zero_is_set_aside",
    "gap_fill_linear_puts_results_on_a_line",
    "changes_retracts_the_sessions_that_merge",
)
OVER_CONNECT = (
    "a_division_by_zero_is_set_aside",
    "a_future_row_does_not_move_the_watermark",
    "a_slow_source_keeps_windows_open_for_the_fast_one",
    "date_in_group_by_is_a_window",
    "filter_limits_one_aggregate",
    "gap_fill_of_days_across_daylight_saving",
    "having_is_applied_to_the_closed_window",
    "idle_timeout_closes_the_last_window_on_an_empty_tick",
    "late_rows_stay_late_after_a_restart",
    "tumble_null_aggregate_input",
    "tumble_offset",
)


def is_wired(case: Case) -> bool:
    if case.is_refusal:
        return False
    try:
        plan_script(case.sql)
    except NotWiredError:
        return False
    return True


def is_one_tick(case: Case) -> bool:
    """Whether the case as written takes all its commits in one tick."""
    moves = [step for step in case.steps if isinstance(step, CommitStep | TickStep)]
    return [isinstance(step, TickStep) for step in moves].index(True) == len(moves) - 1


def meetings(name: str) -> set[tuple[str, str]]:
    return set(combinations_with_replacement(sorted(CASES[name].features), 2))


def covering(names: list[str]) -> list[str]:
    """Some of the cases: every two features that meet in one of all meet in one of these."""
    chosen, left = [], {pair for name in names for pair in meetings(name)}
    while left:
        chosen.append(max(names, key=lambda name: len(meetings(name) & left)))
        left -= meetings(chosen[-1])
    return chosen


WIRED = [name for name, case in CASES.items() if is_wired(case)]
SPLIT_INVARIANT = [name for name in WIRED if CASES[name].split_invariant and not is_one_tick(CASES[name])]


@pytest.mark.parametrize("name", WIRED)
def test_the_case_holds_on_spark(spark: Any, name: str) -> None:
    found = run_case(CASES[name], lambda: SparkRunner(lambda: spark), one_tick=False)
    assert found.status is Status.PASSED, found.detail


@pytest.mark.parametrize("name", covering(SPLIT_INVARIANT))
def test_the_case_holds_when_all_commits_are_taken_in_one_tick(spark: Any, name: str) -> None:
    found = run_case(CASES[name], lambda: SparkRunner(lambda: spark), as_written=False)
    assert found.status is Status.PASSED, found.detail


@pytest.mark.parametrize("name", KILLED)
def test_the_case_holds_with_a_kill_after_every_write(spark: Any, name: str) -> None:
    found = run_case(CASES[name], lambda: SparkRunner(lambda: spark, crash=True), one_tick=False)
    assert found.status is Status.PASSED, found.detail


@pytest.mark.parametrize("name", OVER_CONNECT)
def test_the_case_holds_over_spark_connect(connect_spark: Any, name: str) -> None:
    found = run_case(CASES[name], lambda: SparkRunner(lambda: connect_spark), one_tick=False)
    assert found.status is Status.PASSED, found.detail


def test_most_tumbling_cases_are_wired() -> None:
    """A guard against a refusal that swallows cases: the number only grows."""
    assert len(WIRED) >= 49
