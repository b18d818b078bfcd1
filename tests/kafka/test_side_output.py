"""Entries of the side output as messages, against a broker: what they hold, and what a repeat is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine.metrics import samples_of
from laminar_dagster.engine.run import open_view
from laminar_dagster.errors import LaminarError
from tests.engine.sources.views import FAR, SELECT, View, json_line, json_lines, source, write
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
    read, aside = kafka_broker.create("side-source"), kafka_broker.create("side-aside")
    routes = ", ".join(f"side_output.{kind} = 'kafka:{aside}'" for kind in ("late", "error"))
    select = SELECT.replace("EMIT ON WINDOW CLOSE;", f"EMIT ON WINDOW CLOSE WITH ({routes});")
    view = topic_view(tmp_path / "shop", kafka_broker, read, select=select)
    kafka_broker.produce(read, *rows(0, ("z", 0, FAR)))
    view.run(spark)
    kafka_broker.produce(read, *rows(0, ("a", 1, 1), ("b", 2, 2), ("c", 3, FAR)), Message(b"oops"))

    def stop_behind_the_messages(name: str) -> None:
        if name == "sink side_output.late messages":
            raise KilledError

    with pytest.raises(LaminarError, match="KilledError"):
        view.run(spark, after_write=stop_behind_the_messages)
    first = kafka_broker.consume(aside)
    assert sorted(told(message) for message in first) == [("error", 2, 0), ("late", 2, 1), ("late", 2, 2)]
    assert {message.key for message in first} == {b'{"k":"a"}', b'{"k":"b"}', None}
    entries = {told(message)[2]: json.loads(message.value or b"") for message in first}
    assert entries[1]["original_event"] == json.loads(json_line("a", 1, 1))
    assert entries[1]["group_key"] == {"k": "a"}
    assert entries[1]["window"] == {"start": "2026-01-01T12:00:00Z", "end": "2026-01-01T12:00:10Z"}
    assert (entries[0]["reason"], entries[0]["original_event"]) == ("malformed_record", "oops")
    assert entries[1]["event_time"] == "2026-01-01T12:00:01Z"
    left_out, bounds = {"_epoch"}, {"window_start", "window_end"}
    assert set(entries[1]) == {*view.aside()[0], "window"} - left_out - bounds
    assert {message.headers["view"] for message in first} == {"out"}

    assert view.run(spark) == []
    repeated = Counter((message.key, message.value, told(message)) for message in kafka_broker.consume(aside))
    assert repeated == Counter({(m.key, m.value, told(m)): 2 if told(m)[0] == "late" else 1 for m in first})
    assert view.run(spark) == []
    assert sum(repeated.values()) == len(kafka_broker.consume(aside))


NOWHERE = "127.0.0.1:1"


def late_rows_to(topic: str, tmp_path: Path, **options: str | int) -> View:
    """A view of files whose late rows go to a topic, and two that are late."""
    given = {"late": f"kafka:{topic}", **options}
    listed = ", ".join(f"side_output.{name} = '{value}'" for name, value in given.items())
    select = SELECT.replace("EMIT ON WINDOW CLOSE;", f"EMIT ON WINDOW CLOSE WITH ({listed});")
    (tmp_path / "in").mkdir(parents=True)
    view = View(tmp_path, source(connector="files", path="in", format="json") + select)
    write(tmp_path, "1.json", json_lines(("z", 0, FAR)))
    write(tmp_path, "2.json", json_lines(("a", 1, 1), ("b", 2, 2), ("z", 0, FAR)))
    return view


def test_brokers_that_are_down_do_not_hold_the_view_up_and_what_they_miss_is_counted(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    view = late_rows_to("nowhere", tmp_path, brokers=NOWHERE, route_timeout="1 second")
    plan = view.plan
    with open_view(plan, spark, project=tmp_path, data=tmp_path / "data") as run:
        assert [commit.counts["late"] for commit in run.drain()] == [2]
        (done,) = run.deliveries.delivered.values()
    assert (done.rows, done.dropped) == (0, 2)
    assert f"the Kafka cluster at {NOWHERE} does not answer" in done.why
    assert len(view.aside()) == 2
    assert view.run(spark) == []
    drops = [s.value for s in samples_of(plan, view.store) if s.metric.name == "laminar_route_dropped_rows"]
    assert drops == [2]


def test_a_route_that_is_to_fail_does_and_the_next_run_delivers(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("side-later")
    view = late_rows_to(topic, tmp_path, brokers=NOWHERE, on_saturation="fail", route_timeout="1 second")
    with pytest.raises(LaminarError, match="LMR0630"):
        view.run(spark)
    assert view.store.commit().epoch == 1
    View(tmp_path, view.sql.replace(NOWHERE, kafka_broker.address)).run(spark)
    assert len(kafka_broker.consume(topic)) == 2


def test_what_is_beyond_the_bounds_of_a_route_stays_in_the_table(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("side-bounded")
    view = late_rows_to(topic, tmp_path / "a", brokers=kafka_broker.address, route_max_rows=1)
    view.run(spark)
    assert (len(kafka_broker.consume(topic)), len(view.aside())) == (1, 2)
    refused = late_rows_to(topic, tmp_path / "b", brokers=kafka_broker.address, route_max_bytes=1, on_saturation="fail")
    with pytest.raises(LaminarError, match="LMR0647"):
        refused.run(spark)
    assert len(refused.aside()) == 2
