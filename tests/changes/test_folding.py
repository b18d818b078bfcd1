"""Folding a changelog: the sum stays what it was, the history goes, and a kill does no harm."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.changes import apply, subscribe
from laminar_dagster.engine import changelog_folding
from laminar_dagster.engine.changelog_folding import Folded, fold_changelog, fold_if_due
from laminar_dagster.errors import LaminarError
from state_store import DeltaDirectory, MaintenancePolicy, StoreReader
from state_store import format as f
from state_store.changelog import ChangelogRetention, changelog_schema, snapshot_epoch
from state_store.merging import merge_if_due
from state_store.vacuum import vacuum
from tests.changes.changelogs import (
    DATA,
    NOON,
    Change,
    Changelog,
    changelog_rows,
    finish,
    inside,
    places,
    row,
    table_of,
    update,
)

EPOCHS: list[list[Change]] = [
    [("+I", row("a", 1)), ("+I", row("b", 1)), ("+I", row("twice", 0)), ("+I", row("twice", 0))],
    [*update("a", 1, 2), ("-D", row("b", 1))],
    [("+I", row("b", 1))],
    [*update("a", 2, 3)],
]
TABLE = [row("a", 3), row("b", 1), row("twice", 0), row("twice", 0)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changelog = Changelog(tmp_path_factory.mktemp("template") / "view")
    for changes in EPOCHS:
        changelog.commit(*changes)
    return changelog.root


@pytest.fixture
def changelog(template: Path, tmp_path: Path) -> Changelog:
    """The four epochs, not folded."""
    return Changelog(Path(shutil.copytree(template, tmp_path / "view")))


def fold(changelog: Changelog, upto: int) -> Folded | None:
    with changelog.writer() as store:
        store.tail()
        return fold_changelog(store, upto)


def table(changelog: Changelog) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = apply(None, table_of(subscribe(changelog.root))).sort_by("k").to_pylist()
    return rows


def test_the_snapshot_and_the_changes_after_it_sum_to_the_table(changelog: Changelog) -> None:
    assert fold(changelog, 3) == Folded(epoch=3, before=8, after=4)
    assert table(changelog) == TABLE, "the last commit is of the version before"
    changelog.commit()
    assert table(changelog) == TABLE
    snapshot, changes = subscribe(changelog.root)
    assert (snapshot.snapshot, changes.snapshot) == (True, False)
    assert snapshot.rows.column("_seq").to_pylist() == [0, 1, 2, 3]
    assert [r["k"] for r in snapshot.rows.to_pylist()] == ["twice", "twice", "a", "b"]


def test_a_row_of_the_snapshot_has_the_times_at_which_it_last_came(changelog: Changelog) -> None:
    fold(changelog, 4)
    changelog.commit()
    (snapshot,) = subscribe(changelog.root)
    emitted = {r["k"]: r["_emitted_at"] for r in snapshot.rows.to_pylist()}
    assert emitted == {key: NOON + timedelta(seconds=epoch) for key, epoch in (("twice", 1), ("b", 3), ("a", 4))}


def test_a_second_fold_folds_the_first_one_too(changelog: Changelog) -> None:
    fold(changelog, 2)
    changelog.commit()
    fold(changelog, 5)
    changelog.commit()
    (snapshot,) = subscribe(changelog.root)
    assert snapshot.position.epoch == 4, "the last epoch that changed something"
    assert table(changelog) == TABLE


def test_folding_what_is_folded_changes_nothing(changelog: Changelog) -> None:
    fold(changelog, 3)
    version = DeltaDirectory(changelog.root / f.CHANGELOG).version
    assert fold(changelog, 3) is None
    assert DeltaDirectory(changelog.root / f.CHANGELOG).version == version


def test_a_file_that_holds_younger_changes_too_is_cut(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    rows = [r for epoch, changes in enumerate(EPOCHS, 1) for r in changelog_rows(epoch, changes)]
    with changelog.writer() as store:
        store.tail()
        merged = pa.Table.from_pylist(rows, inside(changelog_schema(DATA)))
        changelog.add(store, 4, [changelog.file(4, merged, "p.parquet", store)])
        finish(store, 4)
    assert fold(changelog, 2) == Folded(epoch=2, before=7, after=3)
    changelog.commit()
    assert table(changelog) == TABLE
    assert [b.position.epoch for b in subscribe(changelog.root, batch_rows=3)] == [2, 4]


def test_a_large_snapshot_is_several_files_in_order(changelog: Changelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_folding, "CHUNK_ROWS", 1)
    monkeypatch.setattr(changelog_folding, "FILE_ROWS", 2)
    fold(changelog, 4)
    files = DeltaDirectory(changelog.root / f.CHANGELOG).files()
    assert sorted((file.low["_seq"], file.high["_seq"]) for file in files) == [(0, 1), (2, 3)]
    changelog.commit()
    assert table(changelog) == TABLE


def test_what_came_and_went_leaves_an_empty_snapshot(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    changelog.commit(("+I", row("a", 1)))
    changelog.commit(("-D", row("a", 1)))
    assert fold(changelog, 2) == Folded(epoch=2, before=2, after=0)
    changelog.commit(("+I", row("c", 1)))
    assert table(changelog) == [row("c", 1)]
    with pytest.raises(LaminarError, match="LMR0410"):
        list(subscribe(changelog.root, since=1))


def test_a_changelog_that_does_not_add_up_is_not_folded(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    changelog.commit(("-D", row("a", 1)))
    with pytest.raises(LaminarError, match="LMR0413"):
        fold(changelog, 1)
    assert snapshot_epoch(DeltaDirectory(changelog.root / f.CHANGELOG)) is None


class KilledError(BaseException):
    pass


def kill_after(writes: int) -> Callable[[str], None]:
    left = [writes]

    def hook(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError

    return hook


@pytest.mark.parametrize(("writes", "lands"), [(1, False), (2, False), (3, True)])
def test_killed_after_any_write_the_sum_is_the_same_and_the_next_fold_finishes(
    changelog: Changelog, writes: int, lands: bool
) -> None:
    changelog.after_write = kill_after(writes)
    with pytest.raises(KilledError):
        fold(changelog, 4)
    assert table(changelog) == TABLE
    changelog.after_write = lambda _: None
    assert (fold(changelog, 4) is None) == lands
    changelog.commit()
    assert table(changelog) == TABLE


def test_the_snapshot_epoch_belongs_to_a_version_and_survives_checkpoints(changelog: Changelog) -> None:
    before = DeltaDirectory(changelog.root / f.CHANGELOG).version
    fold(changelog, 4)
    with changelog.writer() as store:
        store.tail()
        for epoch in range(5, 25):
            store.land(f.CHANGELOG, epoch, schema=changelog.schema, partition_by=["_epochs"])
    now = DeltaDirectory(changelog.root / f.CHANGELOG)
    assert list((now.root / "_delta_log").glob("*.checkpoint.parquet"))
    assert (snapshot_epoch(now), snapshot_epoch(now.at(before))) == (4, None)


# --- the policy ----------------------------------------------------------------------------------------------


def with_epochs(root: Path, last: int) -> Changelog:
    """A changelog whose epochs all have one insertion, in one file for each hundred of them."""
    changelog = Changelog(root)
    with changelog.writer() as store:
        store.tail()
        files = []
        for first in range(1, last + 1, 100):
            epochs = range(first, min(first + 100, last + 1))
            rows = [r for epoch in epochs for r in changelog_rows(epoch, [("+I", row("a", epoch))])]
            part = pa.Table.from_pylist(rows, inside(changelog.schema))
            files.append(changelog.file(first, part, "p.parquet", store))
        changelog.add(store, last, files)
        finish(store, last)
    return changelog


def due(changelog: Changelog, retention: ChangelogRetention, later: timedelta) -> Folded | None:
    with changelog.writer() as store:
        store.tail()
        return fold_if_due(store, retention, datetime.now(UTC) + later)


def test_the_last_epochs_and_the_last_hours_are_kept(tmp_path: Path) -> None:
    changelog = with_epochs(tmp_path / "view", 350)
    keep = ChangelogRetention(epochs=150, age=timedelta(hours=1))
    assert due(changelog, keep, timedelta()) is None, "all of it is younger than an hour"
    assert due(changelog, keep, timedelta(hours=2)) == Folded(epoch=200, before=200, after=200)
    changelog.commit()
    reader = StoreReader(changelog.root)
    assert sorted(file.low["_epoch"] for file in reader.files(f.CHANGELOG)) == [200, 201, 301]


def test_a_snapshot_is_not_rewritten_for_few_changes(tmp_path: Path) -> None:
    changelog = with_epochs(tmp_path / "view", 350)
    assert due(changelog, ChangelogRetention(150, timedelta(0)), timedelta(hours=1)) is not None
    assert due(changelog, ChangelogRetention(50, timedelta(0)), timedelta(hours=1)) is None, "100 rows against 200"


def test_a_view_without_changes_has_nothing_to_fold(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    assert due(changelog, ChangelogRetention(0, timedelta(0)), timedelta()) is None
    changelog.commit()
    assert due(changelog, ChangelogRetention(0, timedelta(0)), timedelta()) is None


# --- beside other maintenance --------------------------------------------------------------------------------


def test_the_files_that_were_folded_are_deleted_when_no_retained_epoch_needs_them(changelog: Changelog) -> None:
    policy = MaintenancePolicy(retain_epochs=1, retain_state=timedelta(0), retain_results=timedelta(0))
    fold(changelog, 4)
    changelog.commit()
    with changelog.writer() as store:
        store.tail()
        assert vacuum(store, policy) > 0
    on_disk = {path.parent.parent.name[0] for path in (changelog.root / f.CHANGELOG).rglob("part-*.parquet")}
    assert on_disk == {"m"}
    assert table(changelog) == TABLE


def test_small_files_may_be_merged_in_any_order(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    with changelog.writer() as store:
        store.tail()
        parts = [changelog_rows(epoch, [("+I", row("a", epoch)), ("+I", row("b", epoch))]) for epoch in range(1, 7)]
        files = [
            changelog.file(epoch, pa.Table.from_pylist([part[seq]], inside(changelog.schema)), f"{seq}.parquet", store)
            for epoch, part in enumerate(parts, 1)
            for seq in (1, 0)
        ]
        changelog.add(store, 6, files)
        finish(store, 6)
        assert merge_if_due(store, f.CHANGELOG, MaintenancePolicy(merge_files=4, merge_bytes=5 * files[0].size)) > 1
        finish(store, 7)
    assert places(subscribe(changelog.root, batch_rows=3)) == [(epoch, seq) for epoch in range(1, 7) for seq in (0, 1)]
    assert fold(changelog, 3) == Folded(epoch=3, before=6, after=6)
    changelog.commit()
    assert places(subscribe(changelog.root, since=3)) == [(epoch, seq) for epoch in (4, 5, 6) for seq in (0, 1)]
