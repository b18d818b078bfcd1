from __future__ import annotations

import math

import pyarrow as pa

from laminar_dagster.changes import CdcOperation, ChangelogRecord, LateDataRetraction, consolidate, diff, records
from state_store.changelog import changelog_schema
from tests.changes.changelogs import DATA, NOON, changelog_rows, inside, update


def test_an_insert_adds_and_a_delete_takes_away() -> None:
    insert, delete = ChangelogRecord.insert("hello", 1000), ChangelogRecord.delete("goodbye", 2000)
    assert (insert.weight, insert.operation) == (1, CdcOperation.INSERT)
    assert (insert.is_insert, insert.is_delete) == (True, False)
    assert (delete.weight, delete.operation) == (-1, CdcOperation.DELETE)
    assert (delete.is_insert, delete.is_delete) == (False, True)


def test_a_retraction_is_a_pair_old_first() -> None:
    before, after = ChangelogRecord.retraction("old", "new", 3000)
    assert (before.data, before.weight, before.operation) == ("old", -1, CdcOperation.UPDATE_BEFORE)
    assert (after.data, after.weight, after.operation) == ("new", 1, CdcOperation.UPDATE_AFTER)


def test_rows_of_a_changelog_become_records() -> None:
    rows = pa.Table.from_pylist(changelog_rows(1, update("a", 1, 2)), inside(changelog_schema(DATA)))
    before, after = records(rows)
    assert (before.data, before.operation) == ({"k": "a", "n": 1}, CdcOperation.UPDATE_BEFORE)
    assert (after.data, after.timestamp) == ({"k": "a", "n": 2}, int(NOON.timestamp()) * 1_000_000)


def test_a_late_result_retracts_the_one_before() -> None:
    generator: LateDataRetraction[bytes] = LateDataRetraction()
    assert generator.check_retraction("w", b"count=5") is None
    assert generator.check_retraction("w", b"count=7") == (b"count=5", b"count=7")
    assert generator.check_retraction("w", b"count=7") is None
    assert (generator.emitted, generator.retractions, generator.version("w")) == (2, 1, 2)


def test_windows_do_not_know_of_each_other_and_a_closed_one_is_forgotten() -> None:
    generator: LateDataRetraction[int] = LateDataRetraction()
    assert generator.check_retraction((0, 60), 1) is None
    assert generator.check_retraction((60, 120), 2) is None
    generator.cleanup_window((0, 60))
    generator.cleanup_window("never seen")
    assert (len(generator), generator.version((0, 60))) == (1, 0)
    assert generator.check_retraction((0, 60), 9) is None


def test_results_with_equal_values_are_the_same_result() -> None:
    generator: LateDataRetraction[object] = LateDataRetraction()
    generator.check_retraction("row", {"a": math.nan, "b": 0.0})
    assert generator.check_retraction("row", {"b": -0.0, "a": float("nan")}) is None
    generator.check_retraction("value", math.nan)
    assert generator.check_retraction("value", float("nan")) is None


def test_switched_off_it_remembers_nothing() -> None:
    generator: LateDataRetraction[int] = LateDataRetraction(enabled=False)
    assert generator.check_retraction("w", 1) is None
    assert generator.check_retraction("w", 2) is None
    assert (len(generator), generator.emitted) == (0, 0)


def test_a_consolidated_changelog_becomes_records_by_its_weights() -> None:
    rows = pa.table({"k": ["a", "b", "b", "c"], "_op": ["-D", "+I", "+I", "+I"], "_weight": [-1, 1, 1, 0]})
    found = [(r.data, r.weight, r.timestamp, r.operation) for r in records(consolidate(rows))]
    assert found == [
        ({"k": "a"}, -1, None, CdcOperation.DELETE),
        ({"k": "b"}, 2, None, CdcOperation.INSERT),
    ]


def test_a_difference_becomes_records_without_a_time() -> None:
    old, new = pa.table({"k": ["a", "b"], "n": [1, 1]}), pa.table({"k": ["a", "c"], "n": [2, 1]})
    found = [(record.operation.value, record.data["k"], record.timestamp) for record in records(diff(old, new, ["k"]))]
    assert found == [("-D", "b", None), ("-U", "a", None), ("+U", "a", None), ("+I", "c", None)]


def test_an_operation_says_whether_a_row_comes_or_goes() -> None:
    assert [op.value for op in CdcOperation if op.is_insert] == ["+I", "+U"]
    assert [op.value for op in CdcOperation if op.is_delete] == ["-U", "-D"]


def test_a_result_that_did_not_change_keeps_the_time_at_which_it_was_emitted() -> None:
    generator: LateDataRetraction[int] = LateDataRetraction()
    assert generator.emit_time("w") is None
    for result, time in ((5, 1000), (7, 2000), (7, 3000)):
        generator.check_retraction("w", result, time)
    assert generator.emit_time("w") == 2000
