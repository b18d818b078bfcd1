"""Subscribing to a changelog: every committed row once, in order, from wherever one stopped."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.changes import ChangeBatch, Position, apply, subscribe
from laminar_dagster.engine import changelog_rows as engine_rows
from laminar_dagster.engine.changelog_folding import fold_changelog
from laminar_dagster.errors import LaminarError
from state_store import CommitRow, StoreReader
from state_store import format as f
from state_store.changelog import changelog_schema
from state_store.parquet import write_file
from tests.changes.changelogs import DATA, Changelog, changelog_rows, finish, inside, places, row, table_of, update
from tests.laws.examples import examples

FIRST = [("+I", row("a", 1)), ("+I", row("b", 1)), ("+I", row(None, None))]
UPDATES = [*update("a", 1, 2), *update("b", 1, 5), ("-D", row(None, None))]
LAST = [("+I", row("c", 1)), *update("a", 2, 3)]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five epochs: the second is scattered over files, the third changed nothing."""
    changelog = Changelog(tmp_path_factory.mktemp("history"))
    changelog.commit(*FIRST)
    changelog.commit(*UPDATES, files=3)
    changelog.commit()
    changelog.commit(*LAST, files=2)
    changelog.commit(("+I", row("d", 1)))
    return changelog.root


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Epochs 1 and 2 are a snapshot; 3 and 4 came after it."""
    changelog = Changelog(tmp_path_factory.mktemp("folded"))
    changelog.commit(*FIRST)
    changelog.commit(*UPDATES, files=2)
    with changelog.writer() as store:
        store.tail()
        assert fold_changelog(store, 2) is not None
    changelog.commit(*LAST)
    changelog.commit(("+I", row("d", 1)))
    return changelog.root


def epoch_places(epoch: int, rows: int) -> list[tuple[int, int]]:
    return [(epoch, seq) for seq in range(rows)]


ALL = [*epoch_places(1, 3), *epoch_places(2, 5), *epoch_places(4, 3), *epoch_places(5, 1)]


def test_all_changes_come_in_order_with_the_tables_columns_and_types(history: Path) -> None:
    batches = list(subscribe(history))
    assert places(batches) == ALL
    assert batches[0].rows.schema.equals(inside(changelog_schema(DATA)))
    assert [op for batch in batches for op in batch.rows.column("_op").to_pylist()][3:8] == [
        "-U",
        "+U",
        "-U",
        "+U",
        "-D",
    ]


def test_only_what_comes_after_an_epoch_is_given(history: Path) -> None:
    assert places(subscribe(history, since=2)) == ALL[8:]
    assert places(subscribe(history, since=3)) == ALL[8:]
    assert places(subscribe(history, since=5)) == []


def test_a_batch_never_ends_between_the_two_rows_of_an_update(history: Path) -> None:
    for batch in subscribe(history, batch_rows=2):
        assert batch.rows.num_rows <= 2
        assert batch.rows.column("_op")[-1].as_py() != "-U"


def test_a_position_says_whether_the_epoch_is_done(history: Path) -> None:
    found = [str(batch.position) for batch in subscribe(history, batch_rows=3)]
    assert found == ["1", "2:1", "2", "4", "5"]


@pytest.mark.parametrize("text", ["0", "12", "12:345", "snapshot:12:345"])
def test_a_position_is_read_back_from_its_text(text: str) -> None:
    assert str(Position.parse(text)) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "1:", ":1", "snapshot:1", "1:2:3"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(LaminarError, match="LMR0710"):
        Position.parse(text)


def interrupted(store: Path, sizes: list[tuple[int, int]]) -> list[ChangeBatch]:
    """Batches of one subscription after another, each stopped after some, the last one not."""
    position, taken = Position(), []
    for batch_rows, batches in sizes:
        subscription = subscribe(store, since=str(position), batch_rows=batch_rows)
        for _, batch in zip(range(batches), subscription, strict=False):
            taken.append(batch)
            position = batch.position
    return [*taken, *subscribe(store, since=position)]


STOPS = st.lists(st.tuples(st.integers(2, 6), st.integers(1, 3)), max_size=4)


@examples(10)
@given(STOPS)
def test_however_often_one_stops_each_row_comes_once_and_in_order(history: Path, stops: list) -> None:
    assert places(interrupted(history, stops)) == ALL


@examples(10)
@given(STOPS)
def test_so_it_is_through_a_snapshot_and_the_sum_is_the_table(folded: Path, stops: list) -> None:
    batches = interrupted(folded, stops)
    assert places(batches) == [*epoch_places(2, 2), *epoch_places(3, 3), *epoch_places(4, 1)]
    assert [batch.snapshot for batch in batches] == sorted((batch.snapshot for batch in batches), reverse=True)
    assert apply(None, table_of(batches)).sort_by("k").to_pylist() == [
        row("a", 3),
        row("b", 5),
        row("c", 1),
        row("d", 1),
    ]


def test_a_directory_may_have_any_name(history: Path, tmp_path: Path) -> None:
    assert places(subscribe(shutil.copytree(history, tmp_path / "it's [a-z]*?"))) == ALL


# --- what is folded ------------------------------------------------------------------------------------------


def test_changes_that_are_folded_cannot_be_asked_for_and_the_error_says_how_to_go_on(folded: Path) -> None:
    for since in ("1", "1:0", "2:3"):
        with pytest.raises(LaminarError, match="history up to epoch 2 is folded") as found:
            list(subscribe(folded, since=since))
        assert found.value.code == "LMR0410"
        assert "since 2" in str(found.value.hint)
        assert "since 0" in str(found.value.hint)


def test_who_has_seen_all_that_is_folded_goes_on_without_a_gap(folded: Path) -> None:
    assert places(subscribe(folded, since=2)) == [*epoch_places(3, 3), *epoch_places(4, 1)]


def test_a_snapshot_that_was_replaced_cannot_be_read_on(folded: Path) -> None:
    with pytest.raises(LaminarError, match="LMR0411"):
        list(subscribe(folded, since="snapshot:1:0"))


# --- what is committed ---------------------------------------------------------------------------------------


def test_an_epoch_that_is_not_committed_is_not_seen(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    changelog.commit(*FIRST)
    with changelog.writer() as store:
        epoch = changelog.land(store, *UPDATES)
        assert places(subscribe(changelog.root)) == epoch_places(1, 3)
        finish(store, epoch)
    assert places(subscribe(changelog.root, since=1)) == epoch_places(2, 5)


def test_where_nothing_is_committed_nothing_comes(tmp_path: Path) -> None:
    assert list(subscribe(tmp_path / "nowhere")) == []
    assert not (tmp_path / "nowhere").exists()


def test_an_epoch_that_never_was_is_an_error(history: Path, tmp_path: Path) -> None:
    for store in (history, tmp_path / "nowhere"):
        with pytest.raises(LaminarError, match="there is no committed epoch 6"):
            list(subscribe(store, since=6))


def test_a_view_with_results_and_no_changelog_is_told_apart_from_one_without_changes(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    changelog.commit()
    assert list(subscribe(changelog.root)) == []
    with changelog.writer() as store:
        store.tail()
        store.finish(CommitRow(2, "tick", store.run_id, 0, "f", None, {}, {}, {f.OUTPUT: 1}, {}))
    with pytest.raises(LaminarError, match='view "view" has no changelog'):
        list(subscribe(changelog.root))


def test_a_batch_has_room_for_an_update(history: Path) -> None:
    with pytest.raises(ValueError, match="both rows of an update"):
        subscribe(history, batch_rows=1)


# --- following -----------------------------------------------------------------------------------------------


def test_a_follower_sees_each_commit_of_another_thread(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    done = threading.Event()

    def write() -> None:
        for changes in (FIRST, UPDATES, [], LAST):
            changelog.commit(*changes)
        done.wait(10)

    writer = threading.Thread(target=write)
    writer.start()
    taken = []
    for batch in subscribe(changelog.root, follow=True, poll=0.01, stop=done, timeout=20):
        taken.append(batch)
        if batch.position.epoch == 4:
            done.set()
    writer.join()
    assert places(taken) == [*epoch_places(1, 3), *epoch_places(2, 5), *epoch_places(4, 3)]


def test_a_follower_stops_when_its_time_is_up(history: Path) -> None:
    assert places(subscribe(history, follow=True, poll=0.01, timeout=0.05)) == ALL


def test_files_that_are_merged_and_deleted_while_one_reads_are_found_in_their_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_rows, "FILES_AT_ONCE", 1)
    changelog = Changelog(tmp_path / "view")
    changelog.commit(*FIRST)
    changelog.commit(*UPDATES, files=2)
    slow = subscribe(changelog.root, batch_rows=2)
    taken = [next(slow)]
    with changelog.writer() as store:
        store.tail()
        table = store.table(f.CHANGELOG)
        parts = [file for file in table.files() if file.low["_epoch"] == 2]
        rows = pa.concat_tables([pq.ParquetFile(table.root / file.path).read() for file in parts])
        merged = write_file(table.root, f"{store.merge_name(f.CHANGELOG)}/_epochs=0/p.parquet", rows)
        store.replace(f.CHANGELOG, add=[merged], remove=parts, same_rows=True)
        finish(store, 3)
    for file in parts:
        (table.root / file.path).unlink()
    assert places([*taken, *slow]) == ALL[:8]


# --- what it costs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand epochs, four to a file."""
    changelog = Changelog(tmp_path_factory.mktemp("long"))
    with changelog.writer() as store:
        store.tail()
        files = [changelog.file(first + 3, four_epochs(first), "p.parquet", store) for first in range(1, 1001, 4)]
        changelog.add(store, 1000, files)
        finish(store, 1000)
    return changelog.root


def four_epochs(first: int) -> pa.Table:
    rows = [change for epoch in range(first, first + 4) for change in changelog_rows(epoch, [("+I", row("a", epoch))])]
    return pa.Table.from_pylist(rows, inside(changelog_schema(DATA)))


def test_reading_the_last_changes_opens_no_file_of_the_others(long_history: Path) -> None:
    for file in StoreReader(long_history).files(f.CHANGELOG):
        if file.high["_epoch"] <= 992:
            (long_history / f.CHANGELOG / file.path).unlink()
    assert places(subscribe(long_history, since=992)) == [(epoch, 0) for epoch in range(993, 1001)]
    assert places(subscribe(long_history, since="999:0")) == [(1000, 0)]
