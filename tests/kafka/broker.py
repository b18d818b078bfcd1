"""A Kafka broker of the tests' own: one KRaft node on the loopback interface, with what tests do to topics."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaMember

from laminar_dagster.engine.jars import Bundle, Coordinate, jars_of
from laminar_dagster.engine.java import find_java
from laminar_dagster.engine.kafka_cluster import Cluster, gateway
from laminar_dagster.errors import LaminarError

SECONDS_TO_START = 60.0
CLUSTER_ID = "bGFtaW5hci10ZXN0LTAwMQ"
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

KAFKA = "4.1.0"
OWN = (
    "kafka_2.13 kafka-clients kafka-coordinator-common kafka-group-coordinator kafka-group-coordinator-api "
    "kafka-metadata kafka-raft kafka-server kafka-server-common kafka-share-coordinator kafka-storage "
    "kafka-storage-api kafka-tools-api kafka-transaction-coordinator"
)
NEEDED = """
com.dynatrace.hash4j hash4j 0.22.0
com.fasterxml.jackson.core jackson-annotations 2.19.0
com.fasterxml.jackson.core jackson-core 2.19.0
com.fasterxml.jackson.core jackson-databind 2.19.0
com.fasterxml.jackson.dataformat jackson-dataformat-csv 2.19.0
com.fasterxml.jackson.dataformat jackson-dataformat-yaml 2.19.0
com.fasterxml.jackson.datatype jackson-datatype-jdk8 2.19.0
com.github.ben-manes.caffeine caffeine 3.2.0
com.github.luben zstd-jni 1.5.6-10
com.google.re2j re2j 1.8
com.typesafe.scala-logging scala-logging_2.13 3.9.5
com.yammer.metrics metrics-core 2.2.0
commons-validator commons-validator 1.9.0
net.sf.jopt-simple jopt-simple 5.0.4
net.sourceforge.argparse4j argparse4j 0.7.0
org.apache.logging.log4j log4j-api 2.24.3
org.apache.logging.log4j log4j-core 2.24.3
org.bitbucket.b_c jose4j 0.9.6
org.hdrhistogram HdrHistogram 2.2.2
org.lz4 lz4-java 1.8.0
org.pcollections pcollections 4.0.2
org.scala-lang scala-library 2.13.16
org.scala-lang scala-reflect 2.13.16
org.slf4j slf4j-api 1.7.36
org.xerial.snappy snappy-java 1.1.10.7
org.yaml snakeyaml 2.4
"""
BROKER = Bundle(
    "kafka-broker",
    KAFKA,
    (
        *(Coordinate("org.apache.kafka", name, KAFKA) for name in OWN.split()),
        *(Coordinate(*line.split()) for line in NEEDED.strip().splitlines()),
    ),
)

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""

_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
PRODUCING = {"key.serializer": _BYTES, "value.serializer": _BYTES, "linger.ms": "0"}


@dataclass(frozen=True)
class Message:
    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timestamp: int | None = None
    partition: int = 0
    offset: int = 0


class Broker:
    """A running node, and its topics."""

    def __init__(self, root: Path) -> None:
        self.port, controller = _free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._log = root / "broker.log"
        properties = root / "server.properties"
        properties.write_text(PROPERTIES.format(port=self.port, controller=controller, logs=root / "logs"))
        classpath = ":".join(str(jar) for jar in jars_of(BROKER))
        java = [str(find_java().path), *JVM, "-cp", classpath]
        formatted = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run(formatted, check=True, capture_output=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        self._wait()
        self._clients: list[Any] = []
        self._admin = self._client(gateway().jvm.org.apache.kafka.clients.admin.Admin.create, {})
        self._producer = self._client(gateway().jvm.org.apache.kafka.clients.producer.KafkaProducer, PRODUCING)

    def stop(self) -> None:
        for client in self._clients:
            client.close(gateway().jvm.java.time.Duration.ofSeconds(1))
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, self._log.read_text()[-2000:]
                time.sleep(0.05)
            else:
                return
        self._process.kill()
        raise AssertionError(f"the broker did not start: {self._log.read_text()[-2000:]}")

    def _client(self, make: Any, settings: Mapping[str, str]) -> Any:
        properties = gateway().jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self.address, **settings}.items():
            properties.setProperty(name, value)
        self._clients.append(make(properties))
        return self._clients[-1]

    # --- topics ------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1) -> str:
        new = gateway().jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1)
        self._admin.createTopics(_list([new])).all().get()
        self._await(topic, partitions)
        return topic

    def _await(self, topic: str, partitions: int) -> None:
        """A topic is there before the node leads its partitions, and a producer that is quicker may wait for ever."""
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            with suppress(LaminarError):
                if len(Cluster(self.address).topic(topic).partitions) == partitions:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the broker does not lead {topic}")

    def delete(self, topic: str) -> None:
        self._admin.deleteTopics(_list([topic])).all().get()

    def grow(self, topic: str, partitions: int) -> None:
        more = gateway().jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        asked = gateway().jvm.java.util.HashMap()
        asked.put(topic, more)
        self._admin.createPartitions(asked).all().get()
        self._await(topic, partitions)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages before an offset, as retention would."""
        jvm = gateway().jvm
        asked = jvm.java.util.HashMap()
        place = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        made = jvm.org.apache.kafka.clients.admin.RecordsToDelete
        # A method of the class and one of its objects have this name, and py4j sees the second one only.
        before_offset = JavaMember("beforeOffset", made, f"z:{made._fqn}", made._gateway_client)
        asked.put(place, before_offset(before))
        self._admin.deleteRecords(asked).all().get()

    def produce(self, topic: str, *messages: Message) -> None:
        """Append the messages, each to its partition; they are there when this returns."""
        _send(self._producer, topic, *messages)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[Callable[..., None]]:
        """Gives a `produce` whose messages count together, or not at all."""
        made = gateway().jvm.org.apache.kafka.clients.producer.KafkaProducer
        producer = self._client(made, {**PRODUCING, "transactional.id": "test"})
        producer.initTransactions()
        producer.beginTransaction()
        yield partial(_send, producer)
        (producer.commitTransaction if commit else producer.abortTransaction)()

    def consume(self, topic: str) -> list[Message]:
        """Everything that the topic holds, partition by partition."""
        jvm = gateway().jvm
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        settings = {"key.deserializer": deserializer, "value.deserializer": deserializer}
        consumer = self._client(jvm.org.apache.kafka.clients.consumer.KafkaConsumer, settings)
        reach = Cluster(self.address).topic(topic).partitions
        places = {p: jvm.org.apache.kafka.common.TopicPartition(topic, p) for p in reach}
        consumer.assign(_list(list(places.values())))
        consumer.seekToBeginning(_list(list(places.values())))
        found: list[Message] = []
        while any(consumer.position(places[p]) < reach[p].end for p in reach):
            records = consumer.poll(jvm.java.time.Duration.ofMillis(200))
            for place in places.values():
                found += [_message(record) for record in records.records(place)]
        consumer.close()
        self._clients.remove(consumer)
        return sorted(found, key=lambda message: (message.partition, message.offset))


def _send(producer: Any, topic: str, *messages: Message) -> None:
    made = gateway().jvm.org.apache.kafka.clients.producer.ProducerRecord
    sent = []
    for message in messages:
        record = made(topic, message.partition, message.timestamp, message.key, message.value)
        for name, value in message.headers.items():
            record.headers().add(name, value.encode())
        sent.append(producer.send(record))
    producer.flush()
    for acknowledged in sent:
        acknowledged.get()


def _message(record: Any) -> Message:
    headers = {str(h.key()): bytes(h.value()).decode() for h in record.headers().toArray()}
    key, value = (None if part is None else bytes(part) for part in (record.key(), record.value()))
    return Message(value, key, headers, int(record.timestamp()), int(record.partition()), int(record.offset()))


def _list(items: Sequence[Any]) -> Any:
    made = gateway().jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return made


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for probe in held:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in held]
    for probe in held:
        probe.close()
    return ports
