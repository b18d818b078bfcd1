"""Merging: many small files become few; no row is lost, changes its partition, or is rewritten in each merge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_store import MaintenancePolicy, StoreBusyError, StoreReader, StoreWriter
from state_store import format as f
from state_store.merging import Bound, merge_if_due, mergeable
from state_store.parquet import write_file
from state_store.sizes import level, levels
from tests.state_store.small_epochs import EAGER, a_commit, a_plan, content, expected, land, maintain, run

MERGING = replace(EAGER, vacuum_every=1_000_000)


@given(rows=st.lists(st.integers(0, 10_000), min_size=1), fan=st.integers(2, 20))
def test_levels_of_many_are_those_of_each(rows: list[int], fan: int) -> None:
    assert levels(pa.chunked_array([rows], pa.int64()), fan).to_pylist() == [level(n, fan) for n in rows]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with twenty epochs behind it: files of one, four and sixteen epochs."""
    root = tmp_path_factory.mktemp("merged")
    run(root, range(1, 21), MERGING)
    return root


def test_the_number_of_files_stays_bounded_and_every_row_stays_where_it_was(merged: Path) -> None:
    assert content(merged) == expected(20)
    sizes = StoreReader(merged).sizes()
    assert sizes["timers"]["files"] <= 8
    assert sizes["source_files"]["files"] <= 3 * 3 + 1
    assert sizes["output"]["files"] <= 2 * 3 * 3 + 1
    assert sizes["epochs"]["files"] < 32


def test_a_row_is_rewritten_once_per_level_and_not_in_each_merge(merged: Path) -> None:
    log = sorted((merged / f.SOURCE_FILES / "_delta_log").glob("*.json"))
    adds = [json.loads(line)["add"] for path in log for line in path.read_text().splitlines() if '"add"' in line]
    rewritten = sum(json.loads(add["stats"])["numRecords"] for add in adds if not add["dataChange"])
    assert rewritten <= 20 * level(20, 4)


def test_those_who_follow_the_output_are_told_that_the_rows_only_moved(tmp_path: Path) -> None:
    run(tmp_path, range(1, 5), MERGING)
    with StoreWriter(tmp_path) as store:
        store.tail()
        assert merge_if_due(store, f.OUTPUT, MERGING) == 4
        version = store.table(f.OUTPUT).version
    text = (tmp_path / f.OUTPUT / "_delta_log" / f"{version:020d}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    changes = [a.get("add", a.get("remove", {})).get("dataChange") for a in actions if "add" in a or "remove" in a]
    assert changes == [False] * 5
    assert deltalake.DeltaTable(str(tmp_path / f.OUTPUT)).to_pyarrow_table().num_rows == 8


def test_several_merges_between_two_epochs_all_land(tmp_path: Path) -> None:
    run(tmp_path, range(1, 17))
    with StoreWriter(tmp_path) as store:
        store.tail()
        merged = [merge_if_due(store, f.OUTPUT, MERGING) for _ in range(3)]
        files = store.table(f.OUTPUT).file_count
    assert merged == [16, 16, 0]
    assert files == 2
    run(tmp_path, range(1, 18))
    assert content(tmp_path) == expected(17)


def test_a_merge_takes_so_many_bytes_at_the_most_and_leaves_large_files_alone(tmp_path: Path) -> None:
    run(tmp_path, range(1, 9))
    with StoreWriter(tmp_path) as store:
        size = store.table(f.SOURCE_FILES).files()[0].size
        few = replace(MERGING, merge_bytes=3 * size)
        store.tail()
        assert merge_if_due(store, f.SOURCE_FILES, few) == 3
        actions = store.table(f.SOURCE_FILES).actions()
        assert actions is not None
        assert mergeable(actions, replace(MERGING, full_bytes=size)) == []


def test_timers_that_have_fired_are_not_carried_along(tmp_path: Path) -> None:
    run(tmp_path, range(1, 3), replace(MERGING, merge_files=2))
    run(tmp_path, range(1, 6))
    with StoreWriter(tmp_path) as store:
        store.tail()
        maintain(store, replace(MERGING, merge_files=3))
        rows = pq.read_table(store.table(f.TIMERS).absolute(store.table(f.TIMERS).files()))
    assert sorted(rows.column("window_end").to_pylist()) == [2, 3, 4, 5]


def test_a_run_that_another_one_has_overtaken_cannot_merge(tmp_path: Path) -> None:
    run(tmp_path, range(1, 9))
    with StoreWriter(tmp_path, lock=False) as slow:
        slow.tail()
        assert slow.table(f.OUTPUT).exists
        with StoreWriter(tmp_path, lock=False) as quick:
            quick.tail()
            quick.begin(a_plan(quick, 9))
        with pytest.raises(StoreBusyError):
            merge_if_due(slow, f.OUTPUT, MERGING)
    assert content(tmp_path) == expected(8)


def test_a_merge_that_has_not_seen_the_last_epoch_does_not_land(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, range(1, 9))
    with StoreWriter(tmp_path, lock=False) as slow:
        slow.tail()
        assert slow.table(f.OUTPUT).exists
        monkeypatch.setattr(slow, "_require_turn", lambda: None)
        monkeypatch.setattr(slow, "after_write", lambda _: run_one_more(tmp_path))
        with pytest.raises(StoreBusyError):
            merge_if_due(slow, f.OUTPUT, MERGING)
    assert content(tmp_path) == expected(9)


def run_one_more(root: Path) -> None:
    with StoreWriter(root, lock=False) as store:
        store.tail()
        plan = a_plan(store, 9)
        store.begin(plan)
        land(store, plan)
        store.finish(a_commit(store, plan))


def test_files_of_different_schemas_are_not_mixed(tmp_path: Path) -> None:
    run(tmp_path, range(1, 5))
    with StoreWriter(tmp_path) as store:
        store.tail()
        root = store.table(f.SOURCE_FILES).root
        narrow = pa.table({"source": ["s"], "id": ["x"], "size": pa.array([1], pa.int32())})
        odd = [write_file(root, f"e000000000{n}-odd.parquet", narrow) for n in (5, 6)]
        store.table(f.SOURCE_FILES).commit(add=odd, application="t", number=1)
        assert merge_if_due(store, f.SOURCE_FILES, MERGING) == 4
        assert merge_if_due(store, f.SOURCE_FILES, MERGING) == 0


def test_nothing_is_merged_below_the_threshold(tmp_path: Path) -> None:
    run(tmp_path, range(1, 16))
    with StoreWriter(tmp_path) as store:
        store.tail()
        maintain(store, MaintenancePolicy())
        assert store.table(f.SOURCE_FILES).file_count == 15


def test_files_on_two_sides_of_a_bound_stay_apart(tmp_path: Path) -> None:
    run(tmp_path, range(1, 9))
    with StoreWriter(tmp_path) as store:
        actions = store.table(f.SOURCE_FILES).actions()
    assert actions is not None
    files = mergeable(actions, MERGING, Bound("epoch", 5))
    assert [file.high["epoch"] for file in files] == [1, 2, 3, 4, 5]
    assert mergeable(actions, replace(MERGING, merge_files=6), Bound("epoch", 5)) == []
    assert len(mergeable(actions, MERGING, Bound("no such column", 5))) == 8
