"""A topic as a source, against a broker: every message is counted or set aside, once, whatever happens in between."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine.kafka_cluster import Cluster, require_connector
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import from_datetime
from state_store import format as f
from tests.engine.sources.views import FAR, at, files_view, json_lines, write
from tests.kafka.broker import Broker, Message
from tests.kafka.topics import row, rows, topic_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_each_partition_has_a_watermark_and_the_slowest_holds_the_view(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("two-partitions", 2)
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, *rows(0, ("a", 1, 0), ("a", 2, 25)), row("b", 4, 5, partition=1))
    (first,) = view.run(spark)
    assert first.watermark == from_datetime(at(5))
    assert {name: values[0] for name, values in first.shards.items()} == {
        "ev/0": from_datetime(at(25)),
        "ev/1": from_datetime(at(5)),
    }
    assert view.closed() == {}
    kafka_broker.produce(topic, row("b", 8, 20, partition=1))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (0, "b"): (1, 4)}
    assert view.run(spark) == []
    assert view.counts()["aggregated"] == 4


def test_broken_messages_are_set_aside_with_their_place_and_the_good_ones_counted(
    kafka_broker: Broker, either_spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = kafka_broker.create(f"poison-{request.node.callspec.id}", 2)
    view = topic_view(tmp_path, kafka_broker, topic)
    bad = [b'{"k": "a", "v": 1', b"\xff\xfe", None, b"", b'{"k": "a", "v": "x", "ts": null}']
    kafka_broker.produce(topic, row("a", 1, 0), *(Message(value, partition=1) for value in bad), row("a", 2, 1))
    kafka_broker.produce(topic, row("a", 4, FAR), row("a", 8, FAR, partition=1))
    view.run(either_spark)
    assert view.closed() == {(0, "a"): (2, 3)}
    assert view.counts() == {"rows_in": 9, "aggregated": 4, "filtered": 0, "late": 0, "error": 5}
    found = {entry["error_detail"]: entry for entry in view.aside()}
    assert found.keys() == {
        "partition 1, offset 0: the message is not one JSON object",
        "partition 1, offset 1: the message is not valid UTF-8",
        "partition 1, offset 2: the message is not one JSON object",
        "partition 1, offset 3: the message is not one JSON object",
        'partition 1, offset 4: column "v": x is not a value of type BIGINT',
    }
    broken = found["partition 1, offset 1: the message is not valid UTF-8"]
    assert base64.b64decode(broken["original_event"]) == b"\xff\xfe"
    assert {entry["shard"] for entry in found.values()} == {"ev/1"}


def test_what_is_about_a_message_is_there_as_metadata(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("metadata")
    columns = """line STRING, k STRING METADATA FROM 'key', kind STRING METADATA FROM 'header:kind',
        headers MAP<STRING, STRING> METADATA, `partition` INT METADATA, at_offset BIGINT METADATA FROM 'offset',
        ts TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR ts"""
    select = """CREATE MATERIALIZED VIEW out AS
        SELECT window_start, k, kind, `partition`, MAX(at_offset) AS last, MIN(line) AS line, COUNT(*) AS n
        FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k, kind, `partition`
        EMIT ON WINDOW CLOSE;"""
    view = topic_view(tmp_path, kafka_broker, topic, columns, select, format="text")
    noon = from_datetime(at(0)) // 1000
    kafka_broker.produce(
        topic,
        Message(b"one", b"x", {"kind": "click"}, noon),
        Message(b"two", b"x", {"kind": "click"}, noon + 1),
        Message(b"three", None, {}, noon + 2),
        Message(None, b"x", {}, noon + 3),
        Message(b"late enough", b"x", {}, noon + FAR * 1000),
    )
    view.run(spark)
    found = {
        (r["k"], r["kind"], r["partition"], r["last"], r["line"], r["n"]) for r in view.store.read(f.OUTPUT).to_pylist()
    }
    assert found == {("x", "click", 0, 1, "one", 2), (None, None, 0, 2, "three", 1)}
    (aside,) = view.aside()
    assert aside["error_detail"] == "partition 0, offset 3: the message has no value"


def test_the_time_of_a_message_is_its_event_time_where_no_other_is_named(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("message-time")
    select = """CREATE MATERIALIZED VIEW out AS
        SELECT window_start, k, COUNT(*) AS n, SUM(v) AS total FROM TUMBLE(ev, INTERVAL '10' SECOND)
        GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;"""
    view = topic_view(tmp_path, kafka_broker, topic, "k STRING, v BIGINT", select)
    noon = from_datetime(at(0)) // 1000
    sent = ((b'{"k": "a", "v": 1}', 0), (b'{"k": "a", "v": 2}', 9_999), (b'{"k"', 3), (b'{"k": "a", "v": 4}', 10_000))
    kafka_broker.produce(topic, *(Message(value, timestamp=noon + after) for value, after in sent))
    (commit,) = view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3)}
    assert commit.watermark == from_datetime(at(10))
    assert "processing_time_fallback_rows" not in commit.counts
    assert [entry["original_event"] for entry in view.aside()] == ['{"k"']


def test_sessions_wait_for_every_partition_though_an_epoch_takes_one_at_a_time(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("sessions", 2)
    select = """CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS n, SUM(v) AS total
        FROM SESSION(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;"""
    view = topic_view(tmp_path, kafka_broker, topic, select=select)
    kafka_broker.produce(topic, *rows(0, ("a", 1, 0), ("a", 2, FAR)), *rows(1, ("b", 4, 5), ("b", 8, 9)))
    view.run(spark)
    kafka_broker.produce(topic, row("b", 16, FAR, partition=1))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (5, "b"): (2, 12)}
    assert view.counts()["late"] == 0


def test_a_bounded_epoch_takes_a_share_of_every_partition(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("bounded", 2)
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, *rows(0, *(("a", 1, i) for i in range(6))), *rows(1, *(("b", 1, i) for i in range(3))))
    commits = view.run(spark, max_rows=3)
    assert [commit.counts["rows_in"] for commit in commits] == [3, 3, 3]
    assert commits[-1].positions["ev"]["offsets"] == {"0": 6, "1": 3}


class KilledError(Exception):
    pass


def stop(name: str) -> None:
    """Behind the first write of an epoch, its plan."""
    raise KilledError(name)


def test_an_epoch_that_was_cut_short_reads_the_same_messages_again(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("restart")
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, *rows(0, ("a", 1, 0), ("a", 2, 1)))
    with pytest.raises(KilledError):
        view.run(spark, after_write=stop)
    kafka_broker.produce(topic, *rows(0, ("a", 4, 2), ("a", 8, FAR)))
    first, second = view.run(spark)
    assert (first.counts["rows_in"], second.counts["rows_in"]) == (2, 2)
    assert view.closed() == {(0, "a"): (3, 7)}


def test_messages_of_a_transaction_count_when_it_is_committed(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("transactions")
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, row("a", 1, 0))
    with kafka_broker.transaction(commit=False) as produce:
        produce(topic, row("a", 2, 1), row("a", 4, 1))
    (first,) = view.run(spark)
    assert first.counts["rows_in"] == 1
    with kafka_broker.transaction(commit=False) as produce:
        produce(topic, row("a", 8, 1))
    (second,) = view.run(spark)
    assert second.counts["rows_in"] == 0
    with kafka_broker.transaction(commit=True) as produce:
        produce(topic, row("a", 16, 1), row("a", 32, FAR))
        assert view.run(spark) == []
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 17)}


def test_messages_that_expired_stop_the_run_or_are_passed_over_and_counted(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("expired", 2)
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, *rows(0, ("a", 1, 0)), *rows(1, ("b", 1, 0)))
    view.run(spark)
    kafka_broker.produce(topic, *rows(1, ("b", 2, 1), ("b", 4, 2), ("b", 8, 3)))
    kafka_broker.expire(topic, 1, 3)
    with pytest.raises(LaminarError, match="LMR0632") as caught:
        view.run(spark)
    assert "partition 1: offsets 1 to 2; 2 offset(s) in all" in str(caught.value)
    going_on = topic_view(tmp_path, kafka_broker, topic, on_data_loss="skip")
    (commit,) = going_on.run(spark)
    assert commit.counts["skipped_offsets"] == 2
    assert commit.counts["rows_in"] == 1


def test_a_planned_epoch_whose_messages_expired_can_be_planned_anew(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("planned-expired")
    view = topic_view(tmp_path, kafka_broker, topic, on_data_loss="skip")
    kafka_broker.produce(topic, row("a", 1, 0))
    view.run(spark)
    kafka_broker.produce(topic, *rows(0, ("a", 2, 1), ("a", 4, 2)))
    with pytest.raises(KilledError):
        view.run(spark, after_write=stop)
    kafka_broker.expire(topic, 0, 2)
    with pytest.raises(LaminarError, match="LMR0632") as caught:
        view.run(spark)
    assert "partition 0: offsets 1 to 1" in str(caught.value)
    assert "--replan" in str(caught.value)
    (commit,) = view.run(spark, replan=True)
    assert (commit.counts["rows_in"], commit.counts["skipped_offsets"]) == (1, 1)


def test_a_partition_that_a_topic_gains_is_read_from_its_beginning(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("grows")
    view = topic_view(tmp_path, kafka_broker, topic, starting="latest")
    kafka_broker.produce(topic, row("before", 1, 0))
    view.run(spark)
    kafka_broker.produce(topic, row("a", 2, 1))
    view.run(spark)
    kafka_broker.grow(topic, 2)
    kafka_broker.produce(topic, row("b", 4, 2, partition=1), row("a", 8, FAR), row("b", 16, FAR, partition=1))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 2), (0, "b"): (1, 4)}


def test_a_topic_that_was_created_again_is_another_one(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("again")
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, row("a", 1, 0))
    view.run(spark)
    kafka_broker.delete(topic)
    kafka_broker.create(topic)
    kafka_broker.produce(topic, row("a", 1, 0), row("a", 1, 0))
    with pytest.raises(LaminarError, match="LMR0633"):
        view.run(spark)


def test_ranges_of_messages_and_files_with_the_same_rows_give_the_same(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("as-files")
    view = topic_view(tmp_path / "topic", kafka_broker, topic)
    (tmp_path / "files").mkdir()
    files = files_view(tmp_path / "files", "json")
    parts = [[("a", 1, 0), ("a", 2, 12)], [("a", 4, 3), ("a", 8, 31)], [("a", 16, 5), ("a", 32, 25), ("a", 64, FAR)]]
    for number, part in enumerate(parts):
        kafka_broker.produce(topic, *rows(0, *part))
        view.run(spark)
        write(tmp_path / "files", f"{number}.json", json_lines(*part), mtime=1_000 + number)
    files.run(spark)
    assert view.closed() == files.closed()
    assert view.counts() == files.counts()
    assert view.counts()["late"] > 0


def test_spark_without_the_jars_is_told_apart_from_a_cluster_that_fails(
    kafka_broker: Broker, either_spark: SparkSession
) -> None:
    require_connector(either_spark)
    with pytest.raises(LaminarError, match="LMR0513"):
        require_connector(either_spark, "no-such-connector")


def test_a_file_of_properties_reaches_the_client(kafka_broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# of a client\nclient.id = lam\\\n   inar\n")
    cluster = Cluster(kafka_broker.address, path)
    assert cluster.spark_options() == {
        "kafka.client.id": "laminar",
        "kafka.bootstrap.servers": kafka_broker.address,
    }
    with pytest.raises(LaminarError, match="LMR0648"):
        Cluster(kafka_broker.address, tmp_path / "none").topic("any")
    path.write_text("security.protocol = NONSENSE")
    with pytest.raises(LaminarError, match="LMR0648"):
        Cluster(kafka_broker.address, path).topic("any")


def test_a_cluster_that_does_not_answer_is_a_named_error(kafka_broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="LMR0631"):
        Cluster(kafka_broker.address).topic("no-such-topic")
    with pytest.raises(LaminarError, match="LMR0630"):
        Cluster("no-host.invalid:9092").topic("any")
