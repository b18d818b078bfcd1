from __future__ import annotations

from pathlib import Path

import pytest

from laminar_dagster.semantics import emit
from laminar_dagster.semantics.emit import EMIT_POLICIES, SINKS, EmitPolicy


def names(*policies: EmitPolicy) -> set[str]:
    return {policy.name for policy in policies}


def test_only_window_close_and_final_append() -> None:
    append_only = {p.name for p in EMIT_POLICIES if p.is_append_only_compatible}
    assert append_only == names(emit.ON_WINDOW_CLOSE, emit.FINAL)


def test_every_other_strategy_has_retractions() -> None:
    assert all(policy.generates_retractions is not policy.append_only for policy in EMIT_POLICIES)


def test_only_update_and_every_emit_intermediate_results() -> None:
    assert {p.name for p in EMIT_POLICIES if p.emits_intermediate} == names(emit.ON_UPDATE, emit.EVERY)


def test_only_changes_requires_a_changelog() -> None:
    assert {p.name for p in EMIT_POLICIES if p.requires_changelog} == names(emit.CHANGES)


def test_what_waits_for_the_watermark_needs_a_window() -> None:
    needing = {p.name for p in EMIT_POLICIES if p.needs_window}
    assert needing == names(emit.ON_WATERMARK, emit.ON_WINDOW_CLOSE, emit.FINAL)


def test_final_counts_lateness_as_zero() -> None:
    assert emit.FINAL.lateness(30) == 0
    assert all(p.lateness(30) == 30 for p in EMIT_POLICIES if p is not emit.FINAL)


def test_an_append_sink_takes_append_only_strategies_and_defaults_to_window_close() -> None:
    assert names(*SINKS["append"].accepts) == names(emit.ON_WINDOW_CLOSE, emit.FINAL)
    assert SINKS["append"].default is emit.ON_WINDOW_CLOSE


def test_an_upsert_sink_takes_any_strategy() -> None:
    assert SINKS["upsert"].accepts == EMIT_POLICIES
    assert SINKS["upsert"].default is None


def test_a_changelog_sink_takes_changes_and_what_only_appends() -> None:
    accepted = names(*SINKS["changelog"].accepts)
    assert accepted == names(emit.CHANGES, emit.ON_WINDOW_CLOSE, emit.FINAL)
    assert SINKS["changelog"].default is emit.CHANGES


def test_the_names_of_strategies_are_unique() -> None:
    assert len({p.name for p in EMIT_POLICIES}) == len({p.sql for p in EMIT_POLICIES}) == len(EMIT_POLICIES)


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "emit.md"
ASKED = ("emits_intermediate", "requires_changelog", "is_append_only_compatible", "generates_retractions")


@pytest.mark.parametrize("policy", EMIT_POLICIES, ids=lambda policy: policy.name)
def test_the_page_says_what_can_be_asked_of_a_strategy(policy: EmitPolicy) -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    header = next(row for row in rows if row[0] == "`name`")
    assert tuple(cell.strip("`") for cell in header[1:]) == ASKED
    told = next(row for row in rows if row[0] == f"`{policy.name}`")
    assert told[1:] == ["yes" if getattr(policy, name) else "no" for name in ASKED]
