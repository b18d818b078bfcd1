"""What a Kafka cluster says about a topic: its partitions, and from where to where each of them reaches.

Spark's connector reads ranges of offsets but does not tell them. Kafka's own client does, in a small JVM beside
Spark's: the same way for a session in process, over Connect and on a cluster, and without a Spark job.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.jars import bundle_jars, spark_home
from laminar_dagster.engine.java import find_java
from laminar_dagster.engine.session import first_line, is_connect
from laminar_dagster.errors import LaminarError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATEWAY_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
# How long anything that is asked of a cluster may take before it counts as not answering.
REQUEST_TIMEOUT_MS = 10_000
TIMEOUT_MS = 15_000
TIMEOUTS = {
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "default.api.timeout.ms": str(TIMEOUT_MS),
}
# Rows of a transaction count once it is committed.
COMMITTED = {"isolation.level": "read_committed"}


@dataclass(frozen=True)
class Reach:
    """The offsets that a partition holds: from the first one to before the last."""

    first: int
    end: int


@dataclass(frozen=True)
class Topic:
    """`id` is another one when a topic is deleted and created again."""

    id: str
    partitions: Mapping[int, Reach]


@dataclass(frozen=True)
class Cluster:
    """Brokers, and what a client needs besides their address: `properties` as in Kafka's own command line tools."""

    brokers: str
    properties: Path | None = None

    def client(self) -> dict[str, str]:
        """The settings of a client of Kafka."""
        read = {} if self.properties is None else _properties(self.properties)
        return {**read, "bootstrap.servers": self.brokers}

    def spark_options(self) -> dict[str, str]:
        """The same, as Spark's connector takes them."""
        return {f"kafka.{name}": value for name, value in self.client().items()}

    def require_answer(self, seconds: float) -> None:
        """LMR0630 unless some broker takes a connection within so many seconds."""
        problem: OSError | None = None
        for address in [self._address(broker.strip()) for broker in self.brokers.split(",")]:
            try:
                socket.create_connection(address, timeout=seconds).close()
                return
            except OSError as refused:
                problem = refused
        raise not_answering(self.brokers, str(problem)) from problem

    def _address(self, broker: str) -> tuple[str, int]:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal():
            raise wrong_settings(self.brokers, f"{broker!r} is not a host and a port, as 'localhost:9092' is")
        return host.strip("[]"), int(port)

    def topic(self, topic: str) -> Topic:
        """The partitions of a topic with what they hold now."""
        with self._admin(topic) as admin:
            jvm = gateway().jvm
            described = admin.describeTopics(_list([topic])).allTopicNames().get()[topic]
            partitions = [int(part.partition()) for part in described.partitions()]
            spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
            first = self._offsets(admin, topic, partitions, spec.earliest())
            end = self._offsets(admin, topic, partitions, spec.latest())
            reach = {number: Reach(first[number], end[number]) for number in sorted(partitions)}
            return Topic(str(described.topicId().toString()), reach)

    def _offsets(self, admin: Any, topic: str, partitions: list[int], spec: Any) -> dict[int, int]:
        jvm = gateway().jvm
        places = {p: jvm.org.apache.kafka.common.TopicPartition(topic, p) for p in partitions}
        asked = jvm.java.util.HashMap()
        for place in places.values():
            asked.put(place, spec)
        committed = jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
        options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(committed)
        found = admin.listOffsets(asked, options).all().get()
        return {partition: int(found[place].offset()) for partition, place in places.items()}

    @contextmanager
    def _admin(self, topic: str) -> Iterator[Any]:
        from py4j.protocol import Py4JJavaError

        jvm = gateway().jvm
        admin = None
        try:
            admin = jvm.org.apache.kafka.clients.admin.Admin.create(_java_map({**self.client(), **TIMEOUTS}))
            yield admin
        except Py4JJavaError as error:
            raise self._explained(error.java_exception, topic) from None
        finally:
            if admin is not None:
                admin.close(jvm.java.time.Duration.ofSeconds(1))

    def _explained(self, problem: Any, topic: str) -> LaminarError:
        cause = problem.getCause() or problem
        if cause.getClass().getSimpleName() == "UnknownTopicOrPartitionException":
            return LaminarError(
                "LMR0631",
                f'there is no topic "{topic}" at {self.brokers}',
                hint="Create the topic, or correct `topic` and `brokers`.",
                committed="All earlier epochs stand.",
            )
        return not_answering(self.brokers, str(cause.toString()))


# What waiting cannot mend: the client's settings make no sense, or the cluster does not let it in.
UNRESOLVED = "No resolvable bootstrap urls"  # for Kafka a wrong setting; names may resolve again, as brokers come back
OF_SETTINGS = ("ConfigException", "AuthenticationException", "AuthorizationException")


def not_answering(brokers: str, detail: str) -> LaminarError:
    if any(name in detail for name in OF_SETTINGS) and UNRESOLVED not in detail:
        return wrong_settings(brokers, detail)
    return LaminarError(
        "LMR0630",
        f"the Kafka cluster at {brokers} does not answer as it should",
        detail=detail,
        hint="Check `brokers`, that they can be reached from here, and the file that `properties` names (security).",
        committed="All earlier epochs stand; the next run goes on from there.",
    )


def wrong_settings(brokers: str, detail: str) -> LaminarError:
    return LaminarError(
        "LMR0648",
        f"the settings for the Kafka cluster at {brokers} are not right",
        detail=detail,
        hint="Correct `brokers` ('host:9092', with commas), and the file that `properties` names (security).",
        committed="All earlier epochs stand; the next run goes on from there.",
    )


def require_connector(spark: SparkSession, connector: str = "kafka") -> None:
    """Spark knows topics only if its JVM was started with Kafka's jars."""
    try:
        _ = (
            spark.read.format(connector)
            .options(**{"kafka.bootstrap.servers": "none", "subscribe": "none"})
            .load()
            .schema
        )
    except Exception as error:
        if connector not in str(error):
            raise
        stop = "`laminar spark stop`, then `laminar spark start` in this project" if is_connect(spark) else None
        raise LaminarError(
            "LMR0513",
            "this Spark was started without the jars for Kafka",
            detail=first_line(error),
            hint=f"Start it anew: {stop or 'stop the session, and open one as session_for(project) does'}. A project "
            "whose SQL names the connector 'kafka' gets them at the start; a cluster needs them in spark.jars.",
        ) from error


def gateway() -> Any:
    """A JVM with Kafka's client on its class path, once per process; it ends with the process."""
    return _gateway(os.getpid())


@cache
def _gateway(_: int) -> Any:
    """A fork must not use its parent's."""
    from py4j.java_gateway import JavaGateway

    shipped = spark_home() / "jars"
    client = next(jar for jar in bundle_jars("kafka") if jar.name.startswith("kafka-clients-"))
    logging = [
        next(shipped.glob(f"{name}-[0-9]*.jar")) for name in ("slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
    ]
    return JavaGateway.launch_gateway(
        jarpath=str(next(shipped.glob("py4j-*.jar"))),
        classpath=":".join(str(jar) for jar in (client, *logging)),
        javaopts=list(GATEWAY_OPTIONS),
        java_path=str(find_java().path),
        die_on_exit=True,
        redirect_stdout=subprocess.DEVNULL,
        redirect_stderr=subprocess.DEVNULL,
    )


def _properties(path: Path) -> dict[str, str]:
    jvm = gateway().jvm
    read = jvm.java.util.Properties()
    try:
        read.load(jvm.java.io.StringReader(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise LaminarError(
            "LMR0648",
            f"the properties of the Kafka client cannot be read from {path}",
            detail=first_line(error),
            hint="Correct `properties`: a file as Kafka's command line tools take it, relative to the project.",
        ) from error
    return {str(name): str(read.getProperty(name)) for name in read.stringPropertyNames()}


def _java_map(entries: Mapping[str, str]) -> Any:
    made = gateway().jvm.java.util.HashMap()
    for name, value in entries.items():
        made.put(name, value)
    return made


def _list(items: list[Any]) -> Any:
    made = gateway().jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return made
