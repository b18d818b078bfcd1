"""Thousands of broken messages in among good ones: every good row counts, every broken message is aside."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.engine.sources.bad_input import BROKEN, GOOD, JSON_MAKERS, broken, good_json, in_among
from tests.kafka.broker import Broker, Message
from tests.kafka.topics import topic_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EMPTY = (b"", b" ", b"\n")


def shown(value: bytes) -> str:
    """A value that is no text is shown as base64: nothing of it is lost."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def test_every_good_message_counts_and_every_broken_one_is_set_aside(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("bad-input", partitions=2)
    bad = [*broken(JSON_MAKERS, BROKEN - len(EMPTY) - 1), *EMPTY]
    good = [good_json(number).replace(b", ", b",\r\n ") for number in range(GOOD)]
    messages = pa.table({"value": pa.array(in_among(bad, good), pa.binary())})
    options = {"kafka.bootstrap.servers": kafka_broker.address, "topic": topic}
    spark.createDataFrame(messages).write.format("kafka").options(**options).save()
    kafka_broker.produce(topic, Message(None, partition=1))
    view = topic_view(tmp_path / "shop", kafka_broker, topic)
    (commit,) = view.run(spark)
    assert {name: commit.counts[name] for name in ("rows_in", "aggregated", "filtered", "late", "error")} == {
        "rows_in": BROKEN + GOOD, "aggregated": GOOD, "filtered": 0, "late": 0, "error": BROKEN,
    }  # fmt: skip
    aside = view.aside()
    assert Counter(entry["original_event"] for entry in aside) == Counter([*map(shown, bad), None])
    assert all("offset" in entry["error_detail"] for entry in aside if entry["reason"] != "null_event_time")
