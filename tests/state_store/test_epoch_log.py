"""The epoch log: what it promises to a run that was killed, and to two runs at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from state_store import CommitRow, PlanRow, StoreBusyError, StoreError, StoreReader, StoreWriter
from state_store import epochs as log
from state_store.format import FORMAT_KEY, FORMAT_VERSION


def a_plan(epoch: int = 1, run_id: str = "r") -> PlanRow:
    return PlanRow(
        epoch=epoch,
        epoch_kind="tick",
        run_id=run_id,
        processing_time=1_000_001,
        fingerprint="f",
        watermark=None,
        sources={"commits": [{"id": "a", "files": [["p", 1]]}], "positions": {"s": 3}},
        tables={"partials": 4, "output": None},
        shards={"s": [None, 5]},
    )


def a_commit(epoch: int = 1) -> CommitRow:
    return CommitRow(
        epoch=epoch,
        epoch_kind="tick",
        run_id="r",
        processing_time=1_000_001,
        fingerprint="f",
        watermark=-7,
        positions={"s": 3},
        shards={"s": [-7, 5]},
        tables={"partials": 5},
        counts={"rows_in": 2},
        seconds={"read": 0.1},
    )


def test_a_new_store_has_no_commit_and_nothing_unfinished(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        tail = store.tail()
    assert (tail.seq, tail.commit, tail.unfinished) == (0, None, None)


def test_a_plan_without_a_commit_is_found_again_as_it_was_written(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan())
    with StoreWriter(tmp_path / "v") as store:
        assert store.tail().unfinished == a_plan()


def test_a_commit_ends_its_plan_and_keeps_every_value(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan())
        store.finish(a_commit())
        tail = store.tail()
    assert tail.unfinished is None
    assert tail.commit is not None
    assert replace(tail.commit, written_at=0) == a_commit()


def test_the_newest_plan_of_an_epoch_is_the_one_that_counts(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan())
        store.begin(replace(a_plan(), processing_time=2))
        tail = store.tail()
    assert tail.unfinished is not None
    assert tail.unfinished.processing_time == 2


def test_a_cancelled_plan_counts_as_never_made(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan())
        store.cancel(a_plan())
        assert store.tail().unfinished is None
        store.begin(replace(a_plan(), processing_time=3))
        again = store.tail().unfinished
    assert again is not None
    assert again.processing_time == 3


def test_a_second_process_is_told_at_once_that_the_store_is_in_use(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v"), pytest.raises(StoreBusyError, match="LMR0402"), StoreWriter(tmp_path / "v"):
        pass


def test_without_a_lock_the_sequence_number_stops_the_second_of_two_planners(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v", lock=False) as first, StoreWriter(tmp_path / "v", lock=False) as second:
        first.tail()
        second.tail()
        first.begin(a_plan(run_id="first"))
        with pytest.raises(StoreBusyError):
            second.begin(a_plan(run_id="second"))
    tail = StoreReader(tmp_path / "v").tail()
    assert tail.unfinished is not None
    assert tail.unfinished.run_id == "first"


def test_a_run_whose_epoch_was_claimed_by_another_can_no_longer_commit_it(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v", lock=False) as slow, StoreWriter(tmp_path / "v", lock=False) as quick:
        slow.tail()
        slow.begin(a_plan())
        quick.table("epochs").refresh()
        unfinished = quick.tail().unfinished
        assert unfinished is not None
        quick.claim(unfinished)
        with pytest.raises(StoreBusyError):
            slow.finish(a_commit())
        quick.finish(a_commit())
    assert [commit.epoch for commit in StoreReader(tmp_path / "v").log.commits()] == [1]


def test_a_store_of_an_unknown_format_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
    log = tmp_path / "v" / "epochs" / "_delta_log" / "00000000000000000000.json"
    ours, unknown = (f'"{FORMAT_KEY}":"{version}"' for version in (FORMAT_VERSION, 99))
    assert ours in log.read_text()
    log.write_text(log.read_text().replace(ours, unknown))
    before = sorted(path.name for path in (tmp_path / "v" / "epochs").rglob("*"))
    with pytest.raises(StoreError, match=r"format version 99.*LMR0401"):
        StoreReader(tmp_path / "v")
    with pytest.raises(StoreError, match="LMR0401"), StoreWriter(tmp_path / "v"):
        pass
    assert sorted(path.name for path in (tmp_path / "v" / "epochs").rglob("*")) == before


def test_an_epoch_that_is_not_there_is_an_error_that_names_the_last_one(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan())
        store.finish(a_commit())
    with pytest.raises(StoreError, match="no committed epoch 9") as found:
        StoreReader(tmp_path / "v").commit(9)
    assert "the last committed epoch is 1" in found.value.render()


def test_the_log_stays_short_and_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "COMPACT_ABOVE", 8)
    epochs = 13
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        for epoch in range(1, epochs + 1):
            store.begin(a_plan(epoch))
            store.finish(a_commit(epoch))
        files = len(store.table("epochs").files())
    reader = StoreReader(tmp_path / "v")
    assert files < 8
    assert [commit.epoch for commit in reader.log.commits()] == list(range(epochs, 0, -1))
    assert reader.commit(3) is not None


def test_a_plan_that_a_new_run_writes_after_a_compaction_of_the_log_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "COMPACT_ABOVE", 2)
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan(1))
        store.finish(a_commit(1))
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan(2))
    assert StoreReader(tmp_path / "v").tail().unfinished == a_plan(2)


def test_a_row_whose_number_is_taken_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        store.begin(a_plan(1))
        store.seq = 0
        with pytest.raises(StoreBusyError):
            store.finish(a_commit(1))


def test_what_a_later_version_adds_to_a_row_is_passed_over(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "v") as store:
        store.tail()
        row = log.entry(1, "plan", a_plan())
        body = {**json.loads(row["body"]), "something_new": {"a": 1}}
        store.log.table.commit(
            add=[store.log._write([{**row, "body": json.dumps(body)}])], application=log.LOG, number=1
        )
        assert store.tail().unfinished == a_plan()
