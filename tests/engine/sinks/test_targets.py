"""What files and Delta tables hold after deliveries, and after a delivery that came twice."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.engine.sinks.collapsing import GONE, NEW, collapsed
from laminar_dagster.engine.sinks.delta import DeltaTarget
from laminar_dagster.engine.sinks.files import FilesTarget
from laminar_dagster.engine.sinks.kafka import KafkaTarget
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.sinks import DeclaredSink
from laminar_dagster.semantics.zset import diff
from state_store.changelog import HEAD
from tests.changes.changelogs import NOON, Change, changelog_rows, row, update
from tests.engine.sinks.histories import delivery, delta_rows, no_spark, parquet_rows, texts
from tests.laws.examples import examples


def files(root: Path, form: str, mode: str) -> FilesTarget:
    sink = DeclaredSink("s", "view", "files", mode, mode, options={"path": "out", "format": form})
    return FilesTarget(sink, Surroundings(root))


def delta(root: Path, mode: str, *key: str) -> DeltaTarget:
    sink = DeclaredSink("s", "view", "delta", mode, mode, key, {"path": "out"})
    return DeltaTarget(sink, Surroundings(root))


def kafka(root: Path, mode: str, key: tuple[str, ...] | None) -> KafkaTarget:
    options = {"brokers": "localhost:9092", "topic": "t"}
    return KafkaTarget(DeclaredSink("s", "view", "kafka", mode, "upsert", key, options), Surroundings(root))


# --- files ---------------------------------------------------------------------------------------------------


def test_each_epoch_is_one_json_file_of_the_views_rows(tmp_path: Path) -> None:
    target = files(tmp_path, "json", "append")
    target.deliver(delivery(3, ("+I", row("a", 1)), ("+I", row(None, 2))))
    target.deliver(delivery(12, ("+I", row("line\nend", 3))))
    assert texts(tmp_path / "out") == {
        "e0000000003.json": '{"k":"a","n":1}\n{"k":null,"n":2}\n',
        "e0000000012.json": '{"k":"line\\nend","n":3}\n',
    }


def test_a_changelog_in_files_has_operation_weight_and_numbers(tmp_path: Path) -> None:
    files(tmp_path, "json", "changelog").deliver(delivery(3, *update("a", 1, 2)))
    lines = [json.loads(line) for line in (tmp_path / "out" / "e0000000003.json").read_text().splitlines()]
    assert [(line["_op"], line["_weight"], line["_epoch"], line["_seq"], line["n"]) for line in lines] == [
        ("-U", -1, 3, 0, 1),
        ("+U", 1, 3, 1, 2),
    ]
    assert lines[0]["_emitted_at"] == "2026-01-01T12:00:03Z"


def test_parquet_files_keep_the_columns_types(tmp_path: Path) -> None:
    files(tmp_path, "parquet", "append").deliver(delivery(1, ("+I", row("a", 1))))
    assert parquet_rows(tmp_path / "out") == {"e0000000001.parquet": [{"k": "a", "n": 1}]}


def test_debezium_files_hold_an_envelope_for_each_event(tmp_path: Path) -> None:
    target = files(tmp_path, "debezium", "changelog")
    target.deliver(delivery(2, ("+I", row("a", 1)), snapshot=True))
    target.deliver(delivery(3, *update("a", 1, 2), ("-D", row("b", 9))))
    read = {name: [json.loads(line) for line in text.splitlines()] for name, text in texts(tmp_path / "out").items()}
    assert [event["op"] for event in read["e0000000000-snapshot.json"]] == ["r"]
    first, second = read["e0000000003.json"]
    assert (first["op"], first["before"]["n"], first["after"]["n"]) == ("u", 1, 2)
    assert (second["op"], second["before"]) == ("d", {"k": "b", "n": 9})
    assert first["source"]["db"] == tmp_path.name
    assert first["source"]["sequence"] < second["source"]["sequence"]


@pytest.mark.parametrize("form", ["json", "parquet", "debezium"])
def test_a_file_that_is_delivered_again_is_the_same_to_the_byte(tmp_path: Path, form: str) -> None:
    path = tmp_path / "out" / ("e0000000001.parquet" if form == "parquet" else "e0000000001.json")
    changes = [("+I", row("a", 1)), ("+I", row("b", 2))]
    files(tmp_path, form, "changelog").deliver(delivery(1, *changes))
    before = path.read_bytes()
    files(tmp_path, form, "changelog").deliver(delivery(1, *changes))
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_files_tell_the_last_epoch_that_they_have(tmp_path: Path) -> None:
    target = files(tmp_path, "json", "append")
    assert target.landed() is None
    target.deliver(delivery(12, ("+I", row("a", 1))))
    (tmp_path / "out" / "notes.json").write_text("{}")
    assert target.landed() == 12


# --- Delta ---------------------------------------------------------------------------------------------------


def test_rows_are_appended_to_a_delta_table_once(tmp_path: Path) -> None:
    target = delta(tmp_path, "append")
    for epoch in (1, 2):
        target.deliver(delivery(epoch, ("+I", row("a", epoch))))
    delta(tmp_path, "append").deliver(delivery(2, ("+I", row("a", 2))))
    assert delta_rows(tmp_path / "out") == [row("a", 1), row("a", 2)]
    assert delta(tmp_path, "append").landed() == 2


def test_two_sinks_of_one_delta_table_count_their_epochs_apart(tmp_path: Path) -> None:
    other = DeltaTarget(
        DeclaredSink("other", "view", "delta", "append", "append", options={"path": "out"}), Surroundings(tmp_path)
    )
    delta(tmp_path, "append").deliver(delivery(5, ("+I", row("a", 1))))
    other.deliver(delivery(4, ("+I", row("b", 1))))
    assert delta_rows(tmp_path / "out") == [row("a", 1), row("b", 1)]


def test_a_changelog_table_has_every_change(tmp_path: Path) -> None:
    delta(tmp_path, "changelog").deliver(delivery(1, *update("a", 1, 2)))
    assert [(r["_op"], r["_epoch"], r["_seq"], r["n"]) for r in delta_rows(tmp_path / "out")] == [
        ("-U", 1, 0, 1),
        ("+U", 1, 1, 2),
    ]


def test_an_upsert_inserts_updates_and_deletes_by_key_also_a_null_one(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert", "k")
    target.deliver(delivery(1, ("+I", row("a", 1)), ("+I", row("b", 1)), ("+I", row(None, 1))))
    target.deliver(delivery(2, *update("a", 1, 2), ("-D", row("b", 1)), ("-U", row(None, 1)), ("+U", row(None, 5))))
    assert delta_rows(tmp_path / "out") == [row("a", 2), row(None, 5)]


def test_an_epoch_with_several_changes_of_a_key_is_one_row_of_it(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert", "k")
    target.deliver(delivery(1, ("+I", row("a", 1)), *update("a", 1, 2), *update("a", 2, 3), ("+I", row("b", 1))))
    target.deliver(delivery(2, ("-D", row("b", 1)), ("+I", row("b", 1)), ("-D", row("a", 3)), ("+I", row("a", 4))))
    assert delta_rows(tmp_path / "out") == [row("a", 4), row("b", 1)]


def test_an_epoch_whose_changes_cancel_out_is_a_version_without_rows(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert", "k")
    target.deliver(delivery(1, ("+I", row("a", 1)), ("-D", row("a", 1))))
    assert target.landed() == 1
    assert delta_rows(tmp_path / "out") == []


def test_values_of_every_kind_are_upserted(tmp_path: Path) -> None:
    kinds = {
        "l": ([1, None], pa.list_(pa.int64())),
        "m": ([("x", 1)], pa.map_(pa.string(), pa.int64())),
        "s": ({"a": 1, "b": None}, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "d": (Decimal("1.50"), pa.decimal128(10, 2)),
        "t": (NOON, pa.timestamp("us", "UTC")),
        "b": (b"\x00\xff", pa.binary()),
    }
    schema = pa.schema([*HEAD, ("k", pa.string()), ("n", pa.int64()), *((n, type_) for n, (_, type_) in kinds.items())])
    values = {name: value for name, (value, _) in kinds.items()}
    target = delta(tmp_path, "upsert", "k")
    for epoch, changes in enumerate(([("+I", row("a", 1))], update("a", 1, 2)), 1):
        rows = [{**entry, **values} for entry in changelog_rows(epoch, changes)]
        target.deliver(Delivery(epoch, pa.Table.from_pylist(rows, schema), no_spark))
    assert delta_rows(tmp_path / "out") == [{**row("a", 2), **values}]


def test_columns_in_capitals_are_upserted_too(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(changelog_rows(1, [("+I", {"Kind": "a", "Total N": 1})]))
    target = delta(tmp_path, "upsert", "Kind")
    target.deliver(Delivery(1, rows, no_spark))
    again = pa.Table.from_pylist(
        changelog_rows(2, [("-U", {"Kind": "a", "Total N": 1}), ("+U", {"Kind": "a", "Total N": 2})])
    )
    target.deliver(Delivery(2, again, no_spark))
    assert delta_rows(tmp_path / "out") == [{"Kind": "a", "Total N": 2}]


def test_two_results_with_one_key_in_an_epoch_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert", "k")
    target.deliver(delivery(1, ("+I", row("a", 1))))
    with pytest.raises(LaminarError, match="k = b") as caught:
        target.deliver(delivery(2, ("+I", row("b", 1)), ("+I", row("b", 2)), ("-D", row("a", 1))))
    assert caught.value.code == "LMR0642"
    assert delta_rows(tmp_path / "out") == [row("a", 1)]
    assert target.landed() == 1


def test_a_result_with_the_key_of_an_earlier_one_is_refused(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert", "k")
    target.deliver(delivery(1, ("+I", row("a", 1))))
    with pytest.raises(LaminarError, match="k = a") as caught:
        target.deliver(delivery(2, ("+I", row("a", 2))))
    assert caught.value.code == "LMR0642"
    assert delta_rows(tmp_path / "out") == [row("a", 1)]


def test_a_view_of_one_row_is_upserted_without_a_key(tmp_path: Path) -> None:
    target = delta(tmp_path, "upsert")
    target.deliver(delivery(1, ("+I", row("a", 1)), *update("a", 1, 2)))
    target.deliver(delivery(2, *update("a", 2, 3)))
    assert delta_rows(tmp_path / "out") == [row("a", 3)]
    target.deliver(delivery(3, *update("a", 3, 4), *update("a", 4, 3)))
    target.deliver(delivery(4, ("-D", row("a", 3))))
    assert (delta_rows(tmp_path / "out"), target.landed()) == ([], 4)


def test_the_one_row_of_a_view_is_not_put_over_the_rows_of_others(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "out", pa.table({"k": ["theirs"], "n": pa.array([7], pa.int64())}))
    with pytest.raises(LaminarError, match="LMR0642"):
        delta(tmp_path, "upsert").deliver(delivery(1, ("+I", row("a", 1))))
    assert delta_rows(tmp_path / "out") == [row("theirs", 7)]


def test_a_table_that_others_write_too_keeps_their_rows(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "out", pa.table({"k": ["theirs"], "n": pa.array([7], pa.int64())}))
    delta(tmp_path, "upsert", "k").deliver(delivery(1, ("+I", row("a", 1))))
    assert delta_rows(tmp_path / "out") == [row("a", 1), row("theirs", 7)]


# --- messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_all_messages_of_a_view_of_one_row_have_one_key(tmp_path: Path, mode: str) -> None:
    found = kafka(tmp_path, mode, ()).texts(delivery(1, *update("a", 1, 2)))
    assert set(found.column("key").to_pylist()) == {"{}"}
    assert found.column("value").to_pylist()[-1] == '{"k":"a","n":2}'


def test_messages_of_rows_that_nothing_tells_apart_have_no_key(tmp_path: Path) -> None:
    found = kafka(tmp_path, "append", None).texts(delivery(1, ("+I", row("a", 1)), ("+I", row("a", 1))))
    assert found.column("key").to_pylist() == [None, None]


# --- laws ----------------------------------------------------------------------------------------------------

tables = st.dictionaries(st.sampled_from(["a", "b", "c", None]), st.integers(0, 2), max_size=4)


def steps_between(states: list[dict[Any, int]]) -> list[list[Change]]:
    """The changes from each state to the next, the first from nothing."""
    found = []
    for old, new in zip([{}, *states], states, strict=False):
        rows_of = [{k: row(k, n) for k, n in state.items()} for state in (old, new)]
        found.append([(change.op.value, dict(change.row)) for change in diff(*rows_of)])
    return found


@examples(50)
@given(st.lists(st.lists(tables, min_size=1, max_size=3), min_size=1, max_size=4))
def test_collapsed_epochs_applied_by_key_are_the_table(epochs: list[list[dict[Any, int]]]) -> None:
    changes = iter(steps_between([state for epoch in epochs for state in epoch]))
    table: dict[Any, int] = {}
    for number, epoch in enumerate(epochs):
        of_epoch = [change for _ in epoch for change in next(changes)]
        if not of_epoch:
            continue
        for found in collapsed(delivery(number, *of_epoch).rows, ["k"]).to_pylist():
            assert found[NEW] == (found["k"] not in table)
            if found[GONE]:
                assert table.pop(found["k"]) == found["n"]
            else:
                assert table.get(found["k"]) != found["n"]
                table[found["k"]] = found["n"]
        assert table == epoch[-1]


@examples(8)
@given(st.lists(tables, min_size=2, max_size=6))
def test_an_upserted_delta_table_is_the_views_table(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[Any, int]]
) -> None:
    root = tmp_path_factory.mktemp("law")
    target = delta(root, "upsert", "k")
    for epoch, changes in enumerate(steps_between(states), 1):
        if changes:
            target.deliver(delivery(epoch, *changes))
            assert {r["k"]: r["n"] for r in delta_rows(root / "out")} == states[epoch - 1]
            assert DeltaTable(root / "out").to_pyarrow_table().num_rows == len(states[epoch - 1])
