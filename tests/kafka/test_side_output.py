"""Entries of the side output as messages, against a broker: what they hold, and what a repeat is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.errors import LaminarError
from tests.engine.sources.views import FAR, SELECT, json_line
from tests.kafka.broker import Broker, Message
from tests.kafka.topics import rows, topic_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class KilledError(Exception):
    pass


def told(message: Message) -> tuple[str, int, int]:
    return message.headers["kind"], int(message.headers["epoch"]), int(message.headers["seq"])


def test_entries_are_messages_under_their_group_key_and_a_repeat_has_the_same_numbers(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    source, aside = kafka_broker.create("side-source"), kafka_broker.create("side-aside")
    routes = ", ".join(f"side_output.{kind} = 'kafka:{aside}'" for kind in ("late", "error"))
    select = SELECT.replace("EMIT ON WINDOW CLOSE;", f"EMIT ON WINDOW CLOSE WITH ({routes});")
    view = topic_view(tmp_path / "shop", kafka_broker, source, select=select)
    kafka_broker.produce(source, *rows(0, ("z", 0, FAR)))
    view.run(spark)
    kafka_broker.produce(source, *rows(0, ("a", 1, 1), ("b", 2, 2), ("c", 3, FAR)), Message(b"oops"))

    def stop_behind_the_messages(name: str) -> None:
        if name == "sink side_output.late messages":
            raise KilledError

    with pytest.raises(LaminarError, match="KilledError"):
        view.run(spark, after_write=stop_behind_the_messages)
    first = kafka_broker.consume(aside)
    assert sorted(told(message) for message in first) == [("error", 2, 0), ("late", 2, 1), ("late", 2, 2)]
    assert {message.key for message in first} == {b'{"k":"a"}', b'{"k":"b"}', None}
    entries = {told(message)[2]: json.loads(message.value or b"") for message in first}
    assert entries[1]["original_event"] == json_line("a", 1, 1)
    assert (entries[0]["reason"], entries[0]["original_event"]) == ("malformed_record", "oops")
    assert entries[1]["event_time"] == "2026-01-01T12:00:01Z"
    assert set(entries[1]) == {name for name in view.aside()[0] if name != "_epoch"}
    assert {message.headers["view"] for message in first} == {"out"}

    assert view.run(spark) == []
    repeated = Counter((message.key, message.value, told(message)) for message in kafka_broker.consume(aside))
    assert repeated == Counter({(m.key, m.value, told(m)): 2 if told(m)[0] == "late" else 1 for m in first})
    assert view.run(spark) == []
    assert sum(repeated.values()) == len(kafka_broker.consume(aside))
