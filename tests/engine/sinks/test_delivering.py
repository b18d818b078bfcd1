"""Sinks catch up with their view: from any position, after any kill, from a history that was folded."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.changelog_folding import fold_changelog
from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.errors import LaminarError
from state_store import StoreWriter
from state_store.positions import SinkPositions
from tests.changes.changelogs import Change, Changelog, row, update
from tests.engine.sinks.histories import (
    ALL,
    APPENDING,
    JSON,
    UPDATING,
    UPSERT,
    append,
    deliver,
    deliveries,
    delta_rows,
    merge,
    texts,
)

EPOCHS: list[list[Change]] = [
    [("+I", row("a", 1)), ("+I", row("b", 1))],
    [],
    [*update("a", 1, 2), ("-D", row("b", 1))],
    [("+I", row("b", 5)), *update("a", 2, 3)],
    [],
]
SQL = UPDATING + ALL
ROWS = "CREATE SINK rows FROM view WITH (connector = 'files', path = 'rows', format = 'json');"
TABLE = "CREATE SINK appended FROM view WITH (connector = 'delta', path = 'appended', mode = 'append');"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "shop"
    changelog = Changelog(root / "data" / "view")
    for changes in EPOCHS:
        changelog.commit(*changes)
    return root


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "shop"))


def delivered(root: Path) -> dict[str, Any]:
    """All that the targets hold."""
    return {name: held(root / name) for name in ("lines", "events", "current", "history")}


def held(target: Path) -> Any:
    return delta_rows(target) if (target / "_delta_log").exists() else texts(target)


def positions(root: Path, *sinks: str) -> list[int]:
    read = [SinkPositions(root / "data" / "view").read(sink) for sink in sinks]
    return [-1 if position is None else position.epoch for position in read]


# --- catching up ---------------------------------------------------------------------------------------------


def test_each_epoch_with_changes_is_one_delivery_and_the_position_is_the_views_epoch(project: Path) -> None:
    run = deliver(project, SQL)
    assert {name: (done.epochs, done.rows) for name, done in run.delivered.items()} == dict.fromkeys(
        ("lines", "events", "current", "history"), (3, 8)
    )
    assert positions(project, "lines", "events", "current", "history") == [5, 5, 5, 5]
    found = delivered(project)
    assert list(found["lines"]) == ["e0000000001.json", "e0000000003.json", "e0000000004.json"]
    assert found["current"] == [row("a", 3), row("b", 5)]
    assert [(r["_epoch"], r["_seq"]) for r in sorted(found["history"], key=lambda r: (r["_epoch"], r["_seq"]))] == [
        (1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2),
    ]  # fmt: skip


def test_a_second_run_delivers_nothing(project: Path) -> None:
    deliver(project, SQL)
    before = delivered(project)
    assert deliver(project, SQL).delivered == {}
    assert delivered(project) == before


def test_an_epoch_that_changes_nothing_does_not_move_the_time_of_the_last_delivery(project: Path) -> None:
    deliver(project, SQL)
    before = SinkPositions(project / "data" / "view").read("current")
    Changelog(project / "data" / "view").commit()
    deliver(project, SQL)
    after = SinkPositions(project / "data" / "view").read("current")
    assert before is not None
    assert after == replace(before, epoch=before.epoch + 1)


def test_what_comes_later_is_delivered_by_the_next_run(project: Path) -> None:
    deliver(project, SQL)
    Changelog(project / "data" / "view").commit(("-D", row("a", 3)))
    run = deliver(project, SQL)
    assert {name: done.rows for name, done in run.delivered.items()} == dict.fromkeys(run.delivered, 1)
    assert delivered(project)["current"] == [row("b", 5)]


def test_a_sink_that_is_added_later_catches_up_from_the_beginning(project: Path, tmp_path: Path) -> None:
    deliver(project, UPDATING + JSON)
    deliver(project, SQL)
    calm = Path(shutil.copytree(project / "data", tmp_path / "calm" / "shop" / "data")).parent
    shutil.rmtree(calm / "data" / "view" / "sinks")
    deliver(calm, SQL)
    assert delivered(project) == delivered(calm)


def test_a_view_without_an_epoch_delivers_nothing(tmp_path: Path) -> None:
    assert deliver(tmp_path, SQL).delivered == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sink", ["lines", "events", "current", "history"])
def test_a_run_that_is_killed_after_any_write_delivers_what_an_undisturbed_one_does(
    template: Path, tmp_path: Path, sink: str
) -> None:
    sql = UPDATING + next(statement for statement in ALL.splitlines() if f"SINK {sink} " in statement)
    calm = Path(shutil.copytree(template, tmp_path / "calm" / "shop"))
    writes: list[str] = []
    deliver(calm, sql, writes.append)
    expected = held(calm / sink)
    assert len(writes) > 3 * 2
    for kill in range(1, len(writes) + 1):
        root = Path(shutil.copytree(template, tmp_path / str(kill) / "shop"))
        with pytest.raises(CrashError):
            deliver(root, sql, raising_after(kill))
        deliver(root, sql)
        assert held(root / sink) == expected, writes[kill - 1]
        assert positions(root, sink) == [5]


# --- views that only append ----------------------------------------------------------------------------------


def test_a_view_that_only_appends_is_delivered_from_its_output(tmp_path: Path) -> None:
    store = tmp_path / "data" / "view"
    append(store, row("a", 1), row("b", 2))
    append(store)
    append(store, row("a", 3))
    deliver(tmp_path, APPENDING + ROWS + TABLE + ALL.replace("key = 'k'", "key = 'k, n'"))
    assert texts(tmp_path / "rows") == {
        "e0000000001.json": '{"k":"a","n":1}\n{"k":"b","n":2}\n',
        "e0000000003.json": '{"k":"a","n":3}\n',
    }
    assert delta_rows(tmp_path / "appended") == [row("a", 1), row("a", 3), row("b", 2)]
    (line,) = texts(tmp_path / "lines")["e0000000003.json"].splitlines()
    assert json.loads(line) == {
        "_epoch": 3, "_seq": 0, "_op": "+I", "_weight": 1, "_event_time": "1970-01-01T00:01:00Z",
        "_emitted_at": "2026-01-01T12:00:03Z", "k": "a", "n": 3,
    }  # fmt: skip


def test_rows_whose_files_were_merged_are_delivered_epoch_by_epoch_in_the_same_order(tmp_path: Path) -> None:
    stores = {name: tmp_path / name / "data" / "view" for name in ("merged", "not_merged")}
    for name, store in stores.items():
        append(store, row("b", 2), row("a", 1), row(None, 3))
        append(store, row("a", 3), row("a", 2))
        append(store, row("a", 4))
        if name == "merged":
            merge(store)
        deliver(tmp_path / name, APPENDING + JSON)
    lines = [texts(tmp_path / name / "lines") for name in stores]
    assert lines[0] == lines[1]
    assert [len(text.splitlines()) for text in lines[0].values()] == [3, 2, 1]


# --- folded history ------------------------------------------------------------------------------------------


def fold(project: Path, upto: int) -> None:
    store = project / "data" / "view"
    with StoreWriter(store) as writer:
        writer.tail()
        assert fold_changelog(writer, upto) is not None
    Changelog(store).commit()


def test_a_new_sink_of_a_folded_view_begins_with_the_snapshot(project: Path) -> None:
    fold(project, 3)
    deliver(project, SQL)
    found = delivered(project)
    assert found["current"] == [row("a", 3), row("b", 5)]
    events = {name: [json.loads(line)["op"] for line in text.splitlines()] for name, text in found["events"].items()}
    assert events == {"e0000000000-snapshot.json": ["r"], "e0000000004.json": ["c", "u"]}


def test_a_sink_that_has_all_that_was_folded_goes_on(project: Path) -> None:
    deliver(project, UPDATING + UPSERT)
    fold(project, 4)
    Changelog(project / "data" / "view").commit(*update("b", 5, 6))
    deliver(project, UPDATING + UPSERT)
    assert delta_rows(project / "current") == [row("a", 3), row("b", 6)]


def test_a_sink_that_stands_before_what_is_folded_is_refused(project: Path) -> None:
    positions_of = SinkPositions(project / "data" / "view")
    deliver(project, UPDATING + UPSERT)
    known = positions_of.read("current")
    assert known is not None
    positions_of.write("current", replace(known, epoch=2))
    shutil.rmtree(project / "current")
    fold(project, 4)
    with pytest.raises(LaminarError) as caught:
        deliver(project, UPDATING + UPSERT)
    assert caught.value.code == "LMR0645"


def test_a_snapshot_that_was_delivered_when_the_run_was_killed_is_not_added_to(project: Path) -> None:
    fold(project, 3)
    with pytest.raises(CrashError):
        deliver(project, UPDATING + UPSERT, raising_after(3))
    deliver(project, UPDATING + UPSERT)
    assert delta_rows(project / "current") == [row("a", 3), row("b", 5)]


# --- refusals ------------------------------------------------------------------------------------------------


def test_sinks_that_failed_too_are_named_behind_what_the_first_one_failed_of(project: Path) -> None:
    run = deliveries(project, SQL)
    run.failures = {
        name: LaminarError("LMR0641", "the sink failed", detail=detail)
        for name, detail in (("one", "Connection refused"), ("other", None))
    }
    with pytest.raises(LaminarError) as caught:
        run.require_success()
    assert caught.value.detail == "Connection refused. Also failed: other."


def test_a_sink_that_fails_does_not_hold_the_others_up_and_says_what_stands(project: Path) -> None:
    (project / "lines").write_text("a file where the directory should be")
    run = deliveries(project, SQL)
    run.catch_up()
    with pytest.raises(LaminarError) as caught:
        run.require_success()
    assert caught.value.code == "LMR0641"
    assert caught.value.committed == (
        "Epoch 5 of the view is committed and stands; the sink has the view up to epoch 0. "
        "Once that is mended, the next run catches up."
    )
    assert caught.value.next_command == "laminar run view"
    assert positions(project, "lines", "current", "history") == [0, 5, 5]
    (project / "lines").unlink()
    deliver(project, SQL)
    assert len(texts(project / "lines")) == 3


def test_a_key_that_is_not_unique_leaves_the_sink_where_it_was(tmp_path: Path) -> None:
    store = tmp_path / "data" / "view"
    append(store, row("a", 1))
    append(store, row("b", 1), row("b", 2))
    with pytest.raises(LaminarError, match='sink "current"') as caught:
        deliver(tmp_path, APPENDING + UPSERT)
    assert caught.value.code == "LMR0642"
    assert "the sink has the view up to epoch 1" in (caught.value.committed or "")
    assert delta_rows(tmp_path / "current") == [row("a", 1)]


def test_a_sink_with_another_target_than_before_is_refused(project: Path) -> None:
    deliver(project, UPDATING + UPSERT)
    with pytest.raises(LaminarError) as caught:
        deliver(project, UPDATING + UPSERT.replace("'current'", "'elsewhere'"))
    assert caught.value.code == "LMR0644"
    assert not (project / "elsewhere").exists()


@pytest.mark.parametrize("sink", [UPSERT, JSON])
def test_a_target_of_an_earlier_build_of_the_view_is_refused(project: Path, sink: str) -> None:
    deliver(project, UPDATING + sink)
    shutil.rmtree(project / "data" / "view" / "sinks")
    with pytest.raises(LaminarError) as caught:
        deliver(project, UPDATING + sink)
    assert caught.value.code == "LMR0643"


def test_a_delta_table_that_was_deleted_is_not_begun_in_the_middle(project: Path) -> None:
    deliver(project, UPDATING + UPSERT)
    shutil.rmtree(project / "current")
    assert deliver(project, UPDATING + UPSERT).delivered == {}
    Changelog(project / "data" / "view").commit(*update("b", 5, 6))
    with pytest.raises(LaminarError) as caught:
        deliver(project, UPDATING + UPSERT)
    assert caught.value.code == "LMR0646"
    assert not (project / "current").exists()


def test_files_that_were_taken_away_are_not_missed(project: Path) -> None:
    deliver(project, UPDATING + JSON)
    shutil.rmtree(project / "lines")
    Changelog(project / "data" / "view").commit(*update("b", 5, 6))
    deliver(project, UPDATING + JSON)
    assert list(texts(project / "lines")) == ["e0000000006.json"]
