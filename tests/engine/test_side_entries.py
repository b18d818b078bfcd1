"""Entries of the side output as JSON: objects are objects, what is none is text, and a reader of JSON can read all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.engine.side_entries import entry_texts
from state_store import format as f

START, END = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, 1, tzinfo=UTC)


def told(**entry: Any) -> dict[str, Any]:
    (text,) = entry_texts(pa.Table.from_pylist([entry], f.SIDE_OUTPUT_SCHEMA)).to_pylist()
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    return found


def test_the_payload_is_that_of_the_document() -> None:
    entry = told(
        kind="late", reason="allowed_lateness_exceeded", event_time=START, processing_time=END, watermark=END,
        window_start=START, window_end=END, group_key='{"k1":"a","k2":123}', original_event='{"k1": "a"}',
        plan_id="p", shard="ev/3",
    )  # fmt: skip
    assert entry | {"source": None, "source_file": None, "_epoch": None, "folded_epoch": None} == {
        "kind": "late",
        "reason": "allowed_lateness_exceeded",
        "event_time": "2026-01-01T12:00:00Z",
        "processing_time": "2026-01-01T12:01:00Z",
        "watermark": "2026-01-01T12:01:00Z",
        "window": {"start": "2026-01-01T12:00:00Z", "end": "2026-01-01T12:01:00Z"},
        "group_key": {"k1": "a", "k2": 123},
        "original_event": {"k1": "a"},
        "error_detail": None,
        "plan_id": "p",
        "shard": "ev/3",
        "source": None,
        "source_file": None,
        "_epoch": None,
        "folded_epoch": None,
    }


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (None, None),
        ('{"a": 12345678901234567890123, "b": 1.10,\n "c": "x"}', {"a": 12345678901234567890123, "b": 1.1, "c": "x"}),
        ('{"a": 1,}', '{"a": 1,}'),
        ('{"a": [1, ], "b": 2}', '{"a": [1, ], "b": 2}'),
        ('{"a": "x,]"}', {"a": "x,]"}),
        ('{"a": 1', '{"a": 1'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": [1, -Infinity]}', '{"a": [1, -Infinity]}'),
        ('{"a": "nan: inf"}', {"a": "nan: inf"}),
        ("12", "12"),
        ("[1, 2]", "[1, 2]"),
        ('eu,"x, y",3', 'eu,"x, y",3'),
        ("", ""),
        ("a\u2028b\u0085c\\", "a\u2028b\u0085c\\"),
    ],
)
def test_what_is_an_object_is_one_and_what_is_not_is_text(line: str | None, shown: Any) -> None:
    assert told(kind="error", original_event=line)["original_event"] == shown


def test_the_digits_of_a_number_stay_as_they_came() -> None:
    line = '{"a": 123456789.123456789123456789, "b": 1.00, "c": 1e5}'
    (text,) = entry_texts(pa.Table.from_pylist([{"original_event": line}], f.SIDE_OUTPUT_SCHEMA)).to_pylist()
    assert f'"original_event":{line},' in text


def test_a_row_in_no_window_has_none() -> None:
    assert told(kind="error")["window"] is None
