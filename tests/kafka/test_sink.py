"""A sink with connector 'kafka', against a broker: what a message holds, what a repeat is, what a failure says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from laminar_dagster.engine.kafka_cluster import TIMEOUTS
from laminar_dagster.engine.sinks.kafka import BOUNDED, KafkaTarget
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.sinks import DeclaredSink
from tests.engine.sources.views import SELECT, View, json_lines, source, write
from tests.kafka.broker import Broker, Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
Change = tuple[str, str | None, int]


def changes(epoch: int, *entries: Change) -> pa.Table:
    """(op, region, total) as the changelog of an epoch."""
    rows = [
        {"_epoch": epoch, "_seq": i, "_op": op, "_weight": -1 if op[0] == "-" else 1, "region": region, "total": total}
        for i, (op, region, total) in enumerate(entries)
    ]
    own = [("_epoch", pa.int64()), ("_seq", pa.int64()), ("_op", pa.string()), ("_weight", pa.int64())]
    times = [("_event_time", pa.timestamp("us", "UTC")), ("_emitted_at", pa.timestamp("us", "UTC"))]
    timed = [{**row, "_event_time": NOW, "_emitted_at": NOW} for row in rows]
    return pa.Table.from_pylist(timed, pa.schema([*own, *times, ("region", pa.string()), ("total", pa.int64())]))


def target(
    brokers: str, topic: str, *, key: tuple[str, ...] | None = ("region",), mode: str = "changelog", **options: str
) -> KafkaTarget:
    given = {"brokers": brokers, "topic": topic, **options}
    sink = DeclaredSink("feed", "sales", "kafka", mode, "upsert", key, given)
    return KafkaTarget(sink, Surroundings(Path("/shop")))


def told(message: Message) -> tuple[str, int, int]:
    return message.headers["op"], int(message.headers["epoch"]), int(message.headers["seq"])


def test_a_change_is_a_message_with_its_group_key_and_numbers(
    kafka_broker: Broker, either_spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    topic = kafka_broker.create(f"sink-json-{request.node.callspec.id}", 2)
    rows = changes(7, ("+I", "north", 1), ("-U", "south", 2), ("+U", "south", 3), ("-D", None, 4))
    target(kafka_broker.address, topic).deliver(Delivery(7, rows, lambda: either_spark))
    found = kafka_broker.consume(topic)
    assert {(m.key, m.value, told(m)) for m in found} == {
        (b'{"region":"north"}', b'{"region":"north","total":1}', ("+I", 7, 0)),
        (b'{"region":"south"}', b'{"region":"south","total":2}', ("-U", 7, 1)),
        (b'{"region":"south"}', b'{"region":"south","total":3}', ("+U", 7, 2)),
        (b'{"region":null}', b'{"region":null,"total":4}', ("-D", 7, 3)),
    }
    assert len(found) == 4
    south = [told(m) for m in found if m.key == b'{"region":"south"}']
    assert south == [("-U", 7, 1), ("+U", 7, 2)]


def test_an_event_is_a_message_with_a_debezium_envelope(kafka_broker: Broker, spark: SparkSession) -> None:
    topic = kafka_broker.create("sink-debezium")
    rows = changes(3, ("+I", "north", 1), ("-U", "south", 2), ("+U", "south", 3), ("-D", "west", 4))
    feed = target(kafka_broker.address, topic, format="debezium")
    feed.deliver(Delivery(3, rows, lambda: spark))
    found = [(json.loads(m.value or b""), m) for m in kafka_broker.consume(topic)]
    assert [(event["op"], event.get("before"), event.get("after")) for event, _ in found] == [
        ("c", None, {"region": "north", "total": 1}),
        ("u", {"region": "south", "total": 2}, {"region": "south", "total": 3}),
        ("d", {"region": "west", "total": 4}, None),
    ]
    assert [told(message) for _, message in found] == [("+I", 3, 0), ("+U", 3, 2), ("-D", 3, 3)]
    assert [message.key for _, message in found] == [b'{"region":"north"}', b'{"region":"south"}', b'{"region":"west"}']
    assert found[1][0]["source"] == {"name": "laminar", "db": "shop", "table": "sales", "sequence": (3 << 32) + 2}


def test_an_upsert_is_the_newest_row_of_each_key_and_a_tombstone_where_it_has_none(
    kafka_broker: Broker, spark: SparkSession
) -> None:
    topic = kafka_broker.create("sink-upsert")
    feed = target(kafka_broker.address, topic, mode="upsert")
    first = changes(1, ("+I", "north", 1), ("-U", "north", 1), ("+U", "north", 2), ("+I", None, 3), ("+I", "gone", 4))
    second = changes(
        2, ("-U", "north", 2), ("+U", "north", 5), ("-D", "gone", 4), ("+I", "brief", 6), ("-D", "brief", 6)
    )
    for epoch, rows in ((1, first), (2, second)):
        feed.deliver(Delivery(epoch, rows, lambda: spark))
    assert [(m.key, m.value, told(m)) for m in kafka_broker.consume(topic)] == [
        (b'{"region":"north"}', b'{"region":"north","total":2}', ("+I", 1, 0)),
        (b'{"region":null}', b'{"region":null,"total":3}', ("+I", 1, 1)),
        (b'{"region":"gone"}', b'{"region":"gone","total":4}', ("+I", 1, 2)),
        (b'{"region":"north"}', b'{"region":"north","total":5}', ("+U", 2, 0)),
        (b'{"region":"gone"}', None, ("-D", 2, 1)),
    ]


def test_a_view_without_emit_appends_each_window_once(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("sink-append")
    sink = (
        f"CREATE SINK feed FROM out WITH (connector = 'kafka', brokers = '{kafka_broker.address}', topic = '{topic}');"
    )
    (tmp_path / "in").mkdir()
    view = View(
        tmp_path,
        source(connector="files", path="in", format="json") + SELECT.replace("EMIT ON WINDOW CLOSE", "") + sink,
    )
    for number, rows in enumerate(((("a", 1, 0),), (("a", 2, 1),), (("z", 0, 60),), (("z", 0, 120),))):
        write(tmp_path, f"{number}.json", json_lines(*rows))
        view.run(spark)
    found = [json.loads(message.value or b"") for message in kafka_broker.consume(topic)]
    assert [(row["k"], row["n"], row["total"]) for row in found] == [("a", 2, 3), ("z", 1, 0)]


def test_rows_that_are_no_groups_have_no_key_and_keep_their_order(kafka_broker: Broker, spark: SparkSession) -> None:
    topic = kafka_broker.create("sink-keyless")
    rows = changes(1, *(("+I", "north", n) for n in range(300)))
    target(kafka_broker.address, topic, key=None).deliver(Delivery(1, rows, lambda: spark))
    assert [(m.key, told(m)) for m in kafka_broker.consume(topic)] == [(None, ("+I", 1, n)) for n in range(300)]


@pytest.mark.timeout(90)  # left alone, Kafka's client waits for minutes
def test_a_topic_or_a_cluster_that_is_not_there_is_an_error_in_bounded_time(
    kafka_broker: Broker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDED, "kafka.max.block.ms", "1000")
    monkeypatch.setitem(TIMEOUTS, "request.timeout.ms", "1000")
    monkeypatch.setitem(TIMEOUTS, "default.api.timeout.ms", "2000")
    delivery = Delivery(1, changes(1, ("+I", "north", 1)), lambda: spark)
    with pytest.raises(LaminarError, match="LMR0631"):
        target(kafka_broker.address, "sink-nowhere").deliver(delivery)
    with pytest.raises(LaminarError, match="LMR0630"):
        target("127.0.0.1:1", "sink-nowhere").deliver(delivery)


CORRECTED = SELECT.replace("EMIT ON WINDOW CLOSE", "EMIT CHANGES")


class KilledError(Exception):
    pass


def latest(messages: list[Message]) -> dict[bytes | None, Message]:
    """What a reader that drops repeats has: of each key what came last, by epoch and number."""
    kept: dict[tuple[int, int], Message] = {}
    for message in messages:
        kept.setdefault(told(message)[1:], message)
    return {message.key: message for _, message in sorted(kept.items())}


def test_a_kill_between_delivery_and_position_repeats_an_epoch_with_the_same_numbers(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("sink-killed")
    target = f"connector = 'kafka', brokers = '{kafka_broker.address}', topic = '{topic}', mode = 'changelog'"
    sink = f"CREATE SINK feed FROM out WITH ({target});"
    (tmp_path / "in").mkdir()
    view = View(tmp_path, source(connector="files", path="in", format="json") + CORRECTED + sink)
    write(tmp_path, "1.json", json_lines(("a", 1, 0), ("b", 2, 0)))

    def stop_behind_the_messages(name: str) -> None:
        if name == "sink feed messages":
            raise KilledError

    with pytest.raises(LaminarError, match="KilledError"):
        view.run(spark, after_write=stop_behind_the_messages)
    first = kafka_broker.consume(topic)
    write(tmp_path, "2.json", json_lines(("a", 4, 1)))
    view.run(spark)
    found = kafka_broker.consume(topic)
    again = [m for m in found[len(first) :] if told(m)[1] == 1]
    assert [(m.key, m.value, told(m)) for m in again] == [(m.key, m.value, told(m)) for m in first]
    assert [told(m) for m in found[len(first) :] if told(m)[1] == 2] == [("-U", 2, 0), ("+U", 2, 1)]
    values = [json.loads(message.value or b"") for message in latest(found).values()]
    assert sorted((v["k"], v["n"], v["total"]) for v in values) == [("a", 2, 5), ("b", 1, 2)]
    assert view.run(spark) == []
    assert len(kafka_broker.consume(topic)) == len(found)
