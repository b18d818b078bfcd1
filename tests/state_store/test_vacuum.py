"""Vacuum: what a retained epoch needs stays, all else goes, and being killed in the middle of it does no harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import duckdb
import pytest

from state_store import StoreError, StoreReader, StoreWriter
from state_store import format as f
from state_store.delta_log import forgotten_log_files
from state_store.retention import kept_of
from state_store.vacuum import vacuum
from tests.state_store.small_epochs import (
    CHECKPOINT_EVERY,
    EAGER,
    a_plan,
    content,
    expected,
    land,
    maintain,
    on_disk,
    run,
)

TABLES = (f.TIMERS, f.SOURCE_FILES, f.OUTPUT)


class KilledError(BaseException):
    pass


def kill_after(writes: int) -> Callable[[str], None]:
    left = [writes]

    def hook(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError

    return hook


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with eighteen epochs and four checkpoints of each table behind it; five epochs are kept."""
    root = tmp_path_factory.mktemp("worn")
    run(root, range(1, 19), EAGER)
    return root


def test_every_retained_epoch_reads_as_if_nothing_had_ever_been_deleted(worn: Path) -> None:
    for epoch in range(14, 19):
        assert content(worn, epoch) == expected(epoch)


def test_a_forgotten_epoch_is_an_error_that_names_the_oldest_one_that_can_be_read(worn: Path) -> None:
    reader = StoreReader(worn)
    for epoch in (1, 8, 13):
        with pytest.raises(StoreError, match=r"epoch \d+ can no longer be read.*LMR0407") as found:
            reader.read(f.TIMERS, reader.commit(epoch))
        assert "as of epoch 14 and later" in found.value.render()
    assert [commit.epoch for commit in reader.log.commits()] == list(range(18, 0, -1))


def test_what_is_on_disk_stays_bounded(worn: Path) -> None:
    sizes = StoreReader(worn).sizes()
    for name in TABLES:
        assert sizes[name]["log_files"] <= 4 * CHECKPOINT_EVERY, name
        assert sizes[name]["disk_files"] - sizes[name]["log_files"] <= 30, name
    assert sizes[f.EPOCHS]["log_files"] <= 4 * CHECKPOINT_EVERY
    assert sizes[f.EPOCHS]["disk_files"] - sizes[f.EPOCHS]["log_files"] <= 40


def test_no_empty_folder_is_left(worn: Path) -> None:
    assert [path for path in worn.rglob("*") if path.is_dir() and not any(path.iterdir())] == []


def test_other_readers_still_read_the_tables(worn: Path) -> None:
    table = deltalake.DeltaTable(str(worn / f.OUTPUT))
    assert table.to_pyarrow_table().num_rows == 36
    duckdb.register("rows", table.to_pyarrow_dataset())
    assert duckdb.sql("SELECT count(*), max(_epoch) FROM rows").fetchall() == [(36, 18)]
    oldest = StoreReader(worn).commit(14)
    assert oldest is not None
    earlier = deltalake.DeltaTable(str(worn / f.OUTPUT), version=oldest.tables[f.OUTPUT])
    assert earlier.to_pyarrow_table().num_rows == 28


def test_what_maintenance_did_is_written_down(worn: Path) -> None:
    told = StoreReader(worn).tail().maintenance
    assert told["readable"] == dict.fromkeys(f.TABLES, 14)
    assert told["vacuum"]["epoch"] == 18
    assert told["vacuum"]["files"] > 0
    assert told["compaction"]["files"] == 4


def test_nothing_goes_while_it_is_young(tmp_path: Path) -> None:
    run(tmp_path, range(1, 8), replace(EAGER, retain_state=timedelta(hours=1)))
    assert content(tmp_path, 1) == expected(1)
    assert StoreReader(tmp_path).tail().maintenance.get("readable") is None


def test_the_epoch_that_was_current_when_the_time_began_is_kept(tmp_path: Path) -> None:
    run(tmp_path, range(1, 7))
    with StoreWriter(tmp_path) as store:
        store.tail()
        assert store.last is not None
        fourth = store.log.commits()[2]
        just_after = datetime.fromtimestamp((fourth.written_at + 1) / 1e6, tz=UTC)
        hour = timedelta(hours=1)
        policy = replace(EAGER, retain_epochs=1, retain_state=hour, retain_results=hour)
        kept = kept_of(store.log, store.last, policy, just_after + hour, {})
    assert {what.epoch for what in kept.values()} == {4}


def test_results_are_kept_longer_than_the_state_for_those_who_follow_them(tmp_path: Path) -> None:
    run(tmp_path, range(1, 13), replace(EAGER, retain_results=timedelta(days=7)))
    reader = StoreReader(tmp_path)
    assert reader.oldest(f.TIMERS) in (7, 8)
    assert reader.read(f.OUTPUT, reader.commit(3)).num_rows == 6
    versions = [path.stem for path in (tmp_path / f.OUTPUT / "_delta_log").glob("0*.json")]
    assert len(versions) == deltalake.DeltaTable(str(tmp_path / f.OUTPUT)).version() + 1
    with pytest.raises(StoreError, match="LMR0407"):
        reader.read(f.TIMERS, reader.commit(3))


def test_files_of_a_killed_run_go_once_their_epoch_is_forgotten_and_others_stay(tmp_path: Path) -> None:
    run(tmp_path, range(1, 9))
    left = ["e0000000002-dead/_partition=x/part-0.parquet", "e0000000002-dead/_partition=x/.part-0.parquet.crc",
            "e0000000002-dead/_SUCCESS", "e0000000003-dead.parquet"]  # fmt: skip
    stay = ["e0000000009-dead.parquet", "m0000000001-dead/part-0.parquet", "notes.txt", "e12"]
    for name in (*left, *stay):
        path = tmp_path / f.OUTPUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / f.OUTPUT / "e0000000001-dead" / "_partition=y").mkdir(parents=True)
    (tmp_path / f.PARTIALS).mkdir()
    (tmp_path / f.PARTIALS / "e0000000001-dead.parquet").write_text("a table that has no log yet")
    with StoreWriter(tmp_path) as store:
        store.tail()
        vacuum(store, EAGER)
    found = on_disk(tmp_path, f.OUTPUT)
    assert [name for name in left if name in found] == []
    assert [name for name in stay if name in found] == stay
    assert not (tmp_path / f.OUTPUT / "e0000000001-dead").exists()
    assert on_disk(tmp_path, f.PARTIALS) == []
    assert content(tmp_path) == expected(8)


def test_the_checksums_of_files_that_are_needed_stay(tmp_path: Path) -> None:
    run(tmp_path, range(1, 9))
    (file, *_) = StoreReader(tmp_path).files(f.OUTPUT)
    checksum = (tmp_path / f.OUTPUT / file.path).with_name(".part-0.parquet.crc")
    checksum.write_text("x")
    with StoreWriter(tmp_path) as store:
        store.tail()
        vacuum(store, EAGER)
    assert checksum.exists()


def test_a_merge_that_was_killed_leaves_a_file_that_goes_once_its_number_is_taken(tmp_path: Path) -> None:
    run(tmp_path, range(1, 5))
    with StoreWriter(tmp_path, after_write=kill_after(1)) as store:
        store.tail()
        with pytest.raises(KilledError):
            maintain(store, EAGER)
    assert any(name.startswith("m0000000001") for name in on_disk(tmp_path, f.TIMERS))
    run(tmp_path, range(1, 11), EAGER)
    assert content(tmp_path) == expected(10)
    live = StoreReader(tmp_path).sizes()[f.TIMERS]["files"]
    files = [name for name in on_disk(tmp_path, f.TIMERS) if not name.startswith("_delta_log")]
    assert len(files) <= live + EAGER.retain_epochs + 1


def test_an_unfinished_plan_keeps_what_it_has_pinned(tmp_path: Path) -> None:
    run(tmp_path, range(1, 8), EAGER)
    with StoreWriter(tmp_path) as store:
        store.tail()
        plan = a_plan(store, 8)
        store.begin(plan)
        land(store, plan)
    once = replace(EAGER, retain_epochs=1)
    with StoreWriter(tmp_path) as store:
        store.tail()
        vacuum(store, once)
        for name in TABLES:
            table = store.table(name)
            assert all((table.root / file.path).exists() for file in table.files_at(plan.tables[name]))
            assert all((table.root / file.path).exists() for file in table.files())
    run(tmp_path, range(1, 10), once)
    assert content(tmp_path) == expected(9)


def test_a_vacuum_deletes_so_many_files_at_the_most_and_goes_on_after_the_next_epoch(tmp_path: Path) -> None:
    run(tmp_path, range(1, 13))
    few = replace(EAGER, deletions=7, vacuum_every=1_000)
    with StoreWriter(tmp_path) as store:
        store.tail()
        assert vacuum(store, few, few.deletions) == 7
        left = store.maintenance["vacuum"]["left"]
    assert left > 0
    run(tmp_path, range(1, 14), few)
    after = StoreReader(tmp_path).tail().maintenance["vacuum"]
    assert (after["files"], after["epoch"]) == (7, 13)
    assert content(tmp_path) == expected(13)


def test_a_log_is_not_cleaned_on_the_strength_of_a_checkpoint_that_was_cut_short(tmp_path: Path) -> None:
    run(tmp_path, range(1, 13))
    root = tmp_path / f.OUTPUT
    assert forgotten_log_files(root, 12)
    for path in (root / "_delta_log").glob("*.checkpoint.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    assert forgotten_log_files(root, 12) == []


def test_a_reader_that_began_before_a_vacuum_is_told_so(tmp_path: Path) -> None:
    run(tmp_path, range(1, 13))
    reader = StoreReader(tmp_path)
    commit = reader.commit(2)
    assert reader.oldest(f.TIMERS) == 1
    run(tmp_path, range(1, 14), EAGER)
    with pytest.raises(StoreError, match="LMR0407"):
        reader.read(f.TIMERS, commit)


def test_killed_again_and_again_at_ever_other_writes_it_leaves_what_an_undisturbed_run_leaves(tmp_path: Path) -> None:
    """Merges, the row that says what is forgotten, and each single deletion are writes too."""
    kills = 0
    while True:
        try:
            run(tmp_path, range(1, 13), EAGER, after_write=kill_after(29 + kills % 37))
            break
        except KilledError:
            kills += 1
        last = StoreReader(tmp_path).commit()
        if last is not None:
            oldest = max(StoreReader(tmp_path).oldest(name) for name in f.TABLES)
            assert content(tmp_path, last.epoch) == expected(last.epoch)
            assert content(tmp_path, oldest) == expected(oldest)
    assert kills > 5
    assert content(tmp_path) == expected(12)
    for epoch in range(8, 13):
        assert content(tmp_path, epoch) == expected(epoch)


@pytest.mark.parametrize("writes", range(1, 40, 13))
def test_a_vacuum_killed_in_the_middle_is_done_by_the_next(tmp_path: Path, writes: int) -> None:
    run(tmp_path, range(1, 13))
    with StoreWriter(tmp_path, after_write=kill_after(writes)) as store:
        store.tail()
        try:
            vacuum(store, EAGER)
        except KilledError:
            assert content(tmp_path) == expected(12)
            assert content(tmp_path, 8) == expected(8)
    run(tmp_path, range(1, 15), EAGER)
    assert content(tmp_path) == expected(14)
    data = [name for name in on_disk(tmp_path, f.TIMERS) if not name.startswith("_delta_log")]
    assert all(int(name[1:11]) >= 6 for name in data if name.startswith("e"))


def test_a_table_that_epochs_rewrite_is_kept_no_longer_than_the_state(tmp_path: Path) -> None:
    run(tmp_path, range(1, 13))
    week = replace(EAGER, retain_results=timedelta(days=7))
    with StoreWriter(tmp_path) as store:
        store.tail()
        vacuum(store, week, rewritten=[f.OUTPUT])
        assert (store.readable[f.OUTPUT], store.readable[f.SIDE_OUTPUT]) == (8, 1)
