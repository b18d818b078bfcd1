"""Envelopes as Debezium's readers expect them, with values that JSON cannot bend."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.changes import CdcSource, ChangeBatch, Position, debezium_lines, subscribe
from laminar_dagster.changes.json_text import json_lines
from laminar_dagster.errors import LaminarError
from state_store.changelog import changelog_schema
from tests.changes.changelogs import DATA, Changelog, changelog_rows, inside, row, update
from tests.laws.examples import examples

SOURCE = CdcSource(db="shop", table="per_minute")


def batch(*changes: Any, epoch: int = 3, data: pa.Schema = DATA, snapshot: bool = False) -> ChangeBatch:
    rows = pa.RecordBatch.from_pylist(changelog_rows(epoch, changes), inside(changelog_schema(data)))
    return ChangeBatch(rows, Position(epoch), snapshot)


def origin(sequence: int) -> str:
    return f'"source":{{"name":"laminar","db":"shop","table":"per_minute","sequence":{sequence}}}'


EPOCH_3 = 3 << 32
TS = '"ts_ms":1767268803000'


def test_each_kind_of_change_has_its_envelope() -> None:
    changes = [("-D", row("a", 1)), *update("b", 1, 2), ("+I", row(None, None))]
    assert debezium_lines(batch(*changes), SOURCE) == [
        f'{{"op":"d",{TS},{origin(EPOCH_3)},"before":{{"k":"a","n":1}}}}',
        f'{{"op":"u",{TS},{origin(EPOCH_3 + 2)},"before":{{"k":"b","n":1}},"after":{{"k":"b","n":2}}}}',
        f'{{"op":"c",{TS},{origin(EPOCH_3 + 3)},"after":{{"k":null,"n":null}}}}',
    ]


def test_rows_of_a_snapshot_are_reads() -> None:
    (line,) = debezium_lines(batch(("+I", row("a", 1)), snapshot=True), SOURCE)
    assert line == f'{{"op":"r",{TS},{origin(EPOCH_3)},"after":{{"k":"a","n":1}}}}'


TYPES = pa.schema(
    [
        ("big", pa.int64()),
        ("float", pa.float64()),
        ("single", pa.float32()),
        ("exact", pa.decimal128(38, 2)),
        ("text", pa.string()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.float64())),
        ("lists", pa.list_(pa.list_(pa.decimal128(4, 1)))),
        ("struct", pa.struct([("t", pa.timestamp("us", tz="UTC")), ('odd "name"', pa.int64())])),
        ("map", pa.map_(pa.string(), pa.decimal128(4, 2))),
        ("days", pa.map_(pa.int64(), pa.date32())),
    ]
)
VALUES = {
    "big": 2**63 - 1,
    "float": 0.1,
    "single": 0.5,
    "exact": Decimal("-123456789012345678901234567890.10"),
    "text": 'é "quoted" \\ \n\u2028\x01',
    "yes": True,
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 1, 12, 0, 0, 123456, UTC),
    "local": datetime(1969, 12, 31, 23, 59, 59, 1),  # noqa: DTZ001
    "bytes": b"ab\xff",
    "list": [math.nan, math.inf, -math.inf, None, 1e300],
    "lists": [[Decimal("1.0")], [], None],
    "struct": {"t": datetime(2026, 1, 1, 12, tzinfo=UTC), 'odd "name"': None},
    "map": [("a", Decimal("1.10")), ('b"', None)],
    "days": [(7, date(2026, 1, 1))],
}
AS_JSON = (
    '{"big":9223372036854775807,"float":0.1,"single":0.5,"exact":"-123456789012345678901234567890.10",'
    '"text":"é \\"quoted\\" \\\\ \\n\u2028\\u0001","yes":true,"day":"2026-01-31","at":"2026-01-01T12:00:00.123456Z",'
    '"local":"1969-12-31T23:59:59.000001","bytes":"YWL/","list":["NaN","Infinity","-Infinity",null,1e300],'
    '"lists":[["1.0"],[],null],"struct":{"t":"2026-01-01T12:00:00Z","odd \\"name\\"":null},'
    '"map":{"a":"1.10","b\\"":null},"days":{"7":"2026-01-01"}}'
)


def test_values_are_exact_in_every_type() -> None:
    rows = pa.RecordBatch.from_pylist([VALUES], TYPES)
    assert json_lines(rows) == [AS_JSON]
    (line,) = debezium_lines(batch(("+I", VALUES), data=TYPES), SOURCE)
    assert line.endswith(f'"after":{AS_JSON}}}')
    assert json.loads(line)["after"]["list"] == ["NaN", "Infinity", "-Infinity", None, 1e300]


def test_null_is_null_in_every_type() -> None:
    rows = pa.RecordBatch.from_pylist([dict.fromkeys(TYPES.names)], TYPES)
    assert json.loads(json_lines(rows)[0]) == dict.fromkeys(TYPES.names)


@examples(10)
@given(st.lists(st.tuples(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False)), max_size=5))
def test_text_and_numbers_are_read_back_as_they_were(values: list) -> None:
    listed = [{"k\u00e4 'x'": text, "f": number} for text, number in values]
    rows = pa.RecordBatch.from_pylist(listed, pa.schema([("k\u00e4 'x'", pa.string()), ("f", pa.float64())]))
    assert [json.loads(line) for line in json_lines(rows)] == listed


@pytest.mark.parametrize("cut", [slice(0, 1), slice(1, 2), slice(1, 3)])
def test_half_an_update_is_refused(cut: slice) -> None:
    whole = batch(*update("a", 1, 2), ("+I", row("b", 1)))
    part = ChangeBatch(whole.rows[cut], whole.position)
    with pytest.raises(LaminarError, match="LMR0813"):
        debezium_lines(part, SOURCE)


def test_no_changes_are_no_lines() -> None:
    assert debezium_lines(batch(), SOURCE) == []


def test_the_sequence_rises_and_the_events_rebuild_the_table(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "view")
    changelog.commit(("+I", row("a", 1)), ("+I", row("b", 1)))
    changelog.commit(("-D", row("b", 1)), *update("a", 1, 2), ("+I", row("c", 1)))
    events = [json.loads(line) for b in subscribe(changelog.root, batch_rows=2) for line in debezium_lines(b, SOURCE)]
    sequences = [event["source"]["sequence"] for event in events]
    assert sequences == sorted(set(sequences))
    table: list[Any] = []
    for event in events:
        if "before" in event:
            table.remove(event["before"])
        if "after" in event:
            table.append(event["after"])
    assert table == [row("a", 2), row("c", 1)]
