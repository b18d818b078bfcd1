"""A topic that gets a view's rows as messages, at least once: new rows, the newest of each key, or every change.

A message's key is its row's group key, so all changes of a group are in one partition, in order. The headers `op`,
`epoch` and `seq` say what it is: an epoch that is delivered again has the same numbers, and a reader drops what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.debezium import CdcSource, debezium_texts
from laminar_dagster.engine.json_text import json_texts
from laminar_dagster.engine.kafka_cluster import (
    REQUEST_TIMEOUT_MS,
    TIMEOUT_MS,
    Cluster,
    not_answering,
    require_connector,
)
from laminar_dagster.engine.session import first_line
from laminar_dagster.engine.sinks.collapsing import GONE, NEW, collapsed
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.semantics.sinks import UPSERT, DeclaredSink
from state_store.changelog import EPOCH, OP, SEQ, data_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADERS = {"op": OP, "epoch": EPOCH, "seq": SEQ}
# A cluster that does not answer is an error soon, not after Kafka's own two minutes.
BOUNDED = {
    "kafka.max.block.ms": str(TIMEOUT_MS),
    "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "kafka.delivery.timeout.ms": str(2 * TIMEOUT_MS),
}
FAILURE = "org.apache.kafka."


class KafkaTarget:
    """Each change is a message with the row as JSON, or each event is one with a Debezium envelope.

    Of an upsert each key that changed is one: with its newest row, or with no value where it has none any more.
    """

    def __init__(self, sink: DeclaredSink, surroundings: Surroundings) -> None:
        self.sink = sink
        self.surroundings = surroundings
        properties = sink.options.get("properties")
        self.cluster = Cluster(
            sink.options["brokers"], None if properties is None else located(surroundings.project, properties)
        )

    def landed(self) -> int | None:
        return None

    def deliver(self, delivery: Delivery) -> None:
        spark = delivery.spark()
        require_connector(spark)
        options = {**self.cluster.spark_options(), **self.bounds(), "topic": self.sink.options["topic"]}
        try:
            _messages(spark, self.texts(delivery)).write.format("kafka").options(**options).save()
        except Exception as error:
            if FAILURE not in str(error):
                raise
            # The producer says the same of a topic that is not there and of brokers that do not answer.
            self.cluster.topic(self.sink.options["topic"])
            raise not_answering(self.cluster.brokers, _cause(error)) from error
        self.surroundings.after_write(f"sink {self.sink.name} messages")

    def bounds(self) -> dict[str, str]:
        """How long the producer waits."""
        return BOUNDED

    def texts(self, delivery: Delivery) -> pa.Table:
        """The messages of an epoch, in order: `key` and `value` as text, and the other columns as headers."""
        rows = delivery.rows
        if self.sink.mode == UPSERT:
            return self._newest(delivery)
        if self.sink.options.get("format") == "debezium":
            source = CdcSource(self.surroundings.database, self.sink.view)
            values = debezium_texts(rows, source, snapshot=delivery.snapshot)
            # An update is one event: with the number of its second row.
            rows = rows.filter(pc.not_equal(rows.column(OP), "-U"))
        else:
            values = json_texts(rows, data_columns(rows.column_names))
        none = pa.nulls(rows.num_rows, pa.string())
        keys = none if self.sink.key is None else json_texts(rows, self.sink.key)
        return pa.table({"key": keys, "value": values, **{name: rows.column(own) for name, own in HEADERS.items()}})

    def _newest(self, delivery: Delivery) -> pa.Table:
        """One message for each key that changed; a topic that is compacted keeps the last one, and no deleted key."""
        changed = collapsed(delivery.rows, self.sink.key)
        rows = changed.drop_columns([GONE, NEW])
        gone, new = changed.column(GONE), changed.column(NEW)
        values = pc.if_else(gone, pa.scalar(None, pa.string()), json_texts(rows, rows.column_names))
        return pa.table(
            {
                "key": json_texts(rows, self.sink.key),
                "value": values,
                "op": pc.if_else(gone, "-D", pc.if_else(new, "+I", "+U")),
                "epoch": pa.repeat(delivery.epoch, rows.num_rows),
                "seq": pa.array(range(rows.num_rows), pa.int64()),
            }
        )


def _messages(spark: SparkSession, texts: pa.Table) -> DataFrame:
    """As Spark's connector takes them. One task writes them all: it alone keeps the order within a partition."""
    names = [name for name in texts.column_names if name not in ("key", "value")]
    headers = ", ".join(f"named_struct('key', '{name}', 'value', encode(string({name}), 'UTF-8'))" for name in names)
    return spark.createDataFrame(texts).coalesce(1).selectExpr("key", "value", f"array({headers}) AS headers")


def _cause(error: Exception) -> str:
    """The line of a failed job that is Kafka's."""
    lines = [line.strip() for line in str(error).splitlines() if FAILURE in line and not line.strip().startswith("at ")]
    return lines[-1].removeprefix("Caused by: ") if lines else first_line(error)
