from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.zset import (
    CdcOperation,
    Change,
    applied,
    consolidate,
    diff,
    identity,
    multiset_changes,
    summed,
)

ROWS = st.fixed_dictionaries({"k": st.sampled_from(["a", "b", None]), "n": st.integers(0, 3)})
TABLES = st.dictionaries(st.integers(0, 6), ROWS.map(dict), max_size=6)
WEIGHTED = st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=12)


def with_identity(table: dict[int, dict[str, object]]) -> dict[object, dict[str, object]]:
    return {key: {**row, "id": key} for key, row in table.items()}


def test_operations_have_the_weights_of_the_seed() -> None:
    assert {op.value: op.weight for op in CdcOperation} == {"+I": 1, "-U": -1, "+U": 1, "-D": -1}


def test_a_difference_deletes_updates_in_pairs_and_inserts() -> None:
    changes = diff({1: {"n": 1}, 2: {"n": 2}, 3: {"n": 3}}, {2: {"n": 2}, 3: {"n": 4}, 4: {"n": 5}})
    assert [(c.op.value, c.row["n"]) for c in changes] == [("-D", 1), ("-U", 3), ("+U", 4), ("+I", 5)]


def test_a_result_that_did_not_change_is_not_emitted_again() -> None:
    assert diff({1: {"n": math.nan, "z": 0.0}}, {1: {"z": -0.0, "n": float("nan")}}) == []


def test_rows_with_equal_values_are_one_row_whatever_the_order_of_columns() -> None:
    assert identity({"a": 1, "b": [1, {"c": None}]}) == identity({"b": [1, {"c": None}], "a": 1})
    assert identity({"a": None}) != identity({"b": None})


def test_a_changelog_cannot_delete_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="not in the table"):
        applied([Change(CdcOperation.DELETE, {"n": 1})])


@given(TABLES, TABLES)
def test_the_difference_of_two_tables_turns_one_into_the_other(a: dict, b: dict) -> None:
    old, new = with_identity(a), with_identity(b)
    reached = applied(diff(old, new), old.values())
    assert sorted(map(repr, map(identity, reached))) == sorted(map(repr, map(identity, new.values())))


@given(TABLES, TABLES)
def test_updates_are_adjacent_pairs_old_first(a: dict, b: dict) -> None:
    ops = [change.op.value for change in diff(with_identity(a), with_identity(b))]
    for position, op in enumerate(ops):
        if op == "-U":
            assert ops[position + 1] == "+U"
        if op == "+U":
            assert ops[position - 1] == "-U"


@given(st.lists(TABLES, min_size=1, max_size=5))
def test_over_any_history_every_row_sums_to_zero_or_one(history: list[dict]) -> None:
    tables = [with_identity(table) for table in history]
    changes: list[Change] = []
    for old, new in zip([{}, *tables], tables, strict=False):
        changes += diff(old, new)
        assert all(weight == 1 for _, weight in summed(changes))


@given(WEIGHTED, WEIGHTED)
def test_consolidating_parts_first_changes_nothing(a: list, b: list) -> None:
    whole = {identity(row): weight for row, weight in consolidate([*a, *b])}
    parts = {identity(row): weight for row, weight in consolidate([*consolidate(a), *consolidate(b)])}
    assert whole == parts
    assert 0 not in whole.values()


@given(WEIGHTED)
def test_the_changelog_of_a_multiset_sums_to_it(weighted: list) -> None:
    left = {identity(row): weight for row, weight in consolidate(weighted)}
    right = {identity(row): weight for row, weight in summed(multiset_changes(weighted))}
    assert left == right
