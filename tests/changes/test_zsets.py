"""Z-sets over Arrow mean what Z-sets over plain rows mean."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.changes import ChangelogRecord, apply, consolidate, diff
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics import zset
from laminar_dagster.semantics.zset import CdcOperation, Change, identity
from tests.laws.examples import examples

FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, None])
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "f": FLOATS,
        "l": st.one_of(st.none(), st.lists(FLOATS, max_size=2)),
    }
)
SCHEMA = pa.schema([("k", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.float64()))])
WEIGHTED = st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=10)
TABLES = st.dictionaries(st.one_of(st.none(), st.integers(0, 5)), ROWS, max_size=6)
few = examples(15)


def weighted_table(weighted: list[tuple[dict[str, Any], int]]) -> pa.Table:
    rows = [{**row, "_weight": weight} for row, weight in weighted]
    return pa.Table.from_pylist(rows, SCHEMA.append(pa.field("_weight", pa.int64())))


def keyed_table(rows: dict[int | None, dict[str, Any]]) -> pa.Table:
    listed = [{"id": key, **row} for key, row in rows.items()]
    return pa.Table.from_pylist(listed, pa.schema([("id", pa.int64()), *SCHEMA]))


def unweighted(row: dict[str, Any]) -> Any:
    return identity({name: value for name, value in row.items() if not name.startswith("_")})


@few
@given(WEIGHTED)
def test_consolidating_columns_is_consolidating_rows(weighted: list) -> None:
    found = [(unweighted(row), row["_weight"]) for row in consolidate(weighted_table(weighted)).to_pylist()]
    assert found == [(identity(row), weight) for row, weight in zset.consolidate(weighted)]


def test_a_weight_of_zero_changes_nothing() -> None:
    row = {"k": "a", "f": 1.5, "l": None}
    table, nothing = pa.Table.from_pylist([row], SCHEMA), weighted_table([(row, 0)])
    assert consolidate(nothing).num_rows == 0
    assert apply(table, nothing).to_pylist() == [row]
    assert apply(None, nothing).num_rows == 0
    record = ChangelogRecord(row, 0, None, CdcOperation.INSERT)
    assert (record.is_insert, record.is_delete) == (False, False)


@few
@given(TABLES, TABLES)
def test_the_difference_of_columns_is_the_difference_of_rows(old: dict, new: dict) -> None:
    found = diff(keyed_table(old), keyed_table(new), ["id"])
    expected = zset.diff(*({key: {"id": key, **row} for key, row in rows.items()} for rows in (old, new)))
    assert [(row["_op"], unweighted(row)) for row in found.to_pylist()] == [
        (change.op.value, identity(change.row)) for change in expected
    ]
    assert found.column("_seq").to_pylist() == list(range(len(expected)))
    assert found.column("_weight").to_pylist() == [change.weight for change in expected]


@few
@given(TABLES, TABLES)
def test_a_difference_turns_the_old_table_into_the_new_one(old: dict, new: dict) -> None:
    changes = diff(keyed_table(old), keyed_table(new), ["id"])
    reached = apply(keyed_table(old), changes)
    assert sorted(map(repr, map(unweighted, reached.to_pylist()))) == sorted(
        repr(identity({"id": key, **row})) for key, row in new.items()
    )


@few
@given(st.lists(ROWS, max_size=6), WEIGHTED)
def test_applying_columns_is_applying_rows(rows: list, weighted: list) -> None:
    changes = [(row, weight // abs(weight)) for row, weight in weighted if weight]
    operations = {1: CdcOperation.INSERT, -1: CdcOperation.DELETE}
    table = pa.Table.from_pylist(rows, SCHEMA)
    try:
        expected = zset.applied([Change(operations[weight], row) for row, weight in changes], rows)
    except ValueError:
        with pytest.raises(LaminarError, match="LMR0812"):
            apply(table, weighted_table(changes))
        return
    found = apply(table, weighted_table(changes)).to_pylist()
    assert list(map(unweighted, found)) == list(map(identity, expected))


@few
@given(st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=6))
def test_without_a_key_rows_come_and_go_one_by_one(old: list, new: list) -> None:
    before, after = (pa.Table.from_pylist(rows, SCHEMA) for rows in (old, new))
    changes = diff(before, after, [])
    expected = zset.multiset_changes([*((row, -1) for row in old), *((row, 1) for row in new)])
    assert sorted((row["_op"], repr(unweighted(row))) for row in changes.to_pylist()) == sorted(
        (change.op.value, repr(identity(change.row))) for change in expected
    )
    assert sorted(map(repr, map(unweighted, apply(before, changes).to_pylist()))) == sorted(
        repr(identity(row)) for row in new
    )


def test_a_key_that_is_there_twice_is_refused() -> None:
    table = pa.table({"id": [None, None], "n": [1, 2]})
    with pytest.raises(LaminarError, match="several rows with the key") as found:
        diff(table, table, ["id"])
    assert found.value.code == "LMR0811"


@pytest.mark.parametrize(
    "call",
    [
        lambda: diff(pa.table({"id": [1]}), pa.table({"other": [1]}), ["id"]),
        lambda: diff(pa.table({"id": [1]}), pa.table({"id": [1]}), ["key"]),
        lambda: diff(pa.table({"id": [1]}), pa.table({"id": ["many"]}), ["id"]),
        lambda: apply(pa.table({"id": [1]}), pa.table({"id": [1]})),
    ],
)
def test_tables_that_do_not_fit_are_refused(call: Any) -> None:
    with pytest.raises(LaminarError, match="LMR0811"):
        call()


def test_a_deletion_of_what_is_not_there_names_the_row() -> None:
    changes = pa.table({"n": [7, 8], "_weight": [-1, -1]})
    with pytest.raises(LaminarError, match=r"\{'n': 7\} and 1 other"):
        apply(None, changes)


def test_types_stay_exact() -> None:
    schema = pa.schema([("d", pa.decimal128(38, 4)), ("t", pa.timestamp("us", tz="UTC")), ("b", pa.binary())])
    table = pa.Table.from_pylist([{"d": None, "t": None, "b": b"\x00\xff"}], schema)
    assert apply(table, diff(table, table, ["b"])).schema == schema
    assert consolidate(table).drop_columns("_weight").equals(table)
