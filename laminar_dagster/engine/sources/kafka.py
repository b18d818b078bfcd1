"""A Kafka topic as a source: an epoch takes a range of offsets of each partition, which its plan pins.

A partition is a shard, with a watermark of its own; its range is one commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.kafka_cluster import COMMITTED, TIMEOUTS, Cluster, Reach, Topic, require_connector
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sources import kafka_errors as errors
from laminar_dagster.engine.sources.commits import MESSAGES, Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.messages import message_frame
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.engine.sources.text_lines import text_sql
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT, INT, STRING
from laminar_dagster.semantics.watermark import shard_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a source may still take where another one has used up the epoch's rows.
LEAST_ROWS = 10_000


class KafkaConnector:
    """Position: the next offset of each partition, and the id of the topic whose offsets they are.

    A partition that is seen for the first time is told to the engine at once, as a commit without rows before all
    ranges: it counts for the watermark also if it holds nothing, or an epoch ends before its range.
    """

    keeps_ledger = False

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.topic = source.options["topic"]
        properties = source.options.get("properties")
        self.cluster = Cluster(source.options["brokers"], None if properties is None else located(root, properties))
        self._topic_id: str | None = None

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def _found(self) -> Topic:
        found = self.cluster.topic(self.topic)
        self._topic_id = found.id
        return found

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found = self._found()
        self._require_same(found, position)
        taken = _offsets(position)
        waiting = {number: self._waiting(number, reach, taken) for number, reach in found.partitions.items()}
        self._require_kept(waiting, taken)
        polled = time.time_ns() // 1_000_000
        new = [self._commit(n, Reach(w.first, w.first), polled, taken) for n, w in waiting.items() if n not in taken]
        ranges = _bounded({n: reach for n, reach in waiting.items() if reach.end > reach.first}, limit)
        commits = [self._commit(number, reach, polled, taken) for number, reach in ranges.items()]
        for commit in commits:
            limit.take(commit)
        for number, reach in ranges.items():
            if reach.end < waiting[number].end:
                limit.leave(shard_name(self.source.name, number), polled)
        return [*new, *commits]

    def _waiting(self, number: int, reach: Reach, taken: dict[int, int]) -> Reach:
        """What a partition holds after what was taken. One that a topic gains later is read from its beginning."""
        if number in taken:
            return Reach(max(taken[number], reach.first), reach.end)
        late = not taken and self.source.options.get("starting") == "latest"
        return Reach(reach.end if late else reach.first, reach.end)

    def _commit(self, number: int, reach: Reach, polled: int, taken: dict[int, int]) -> SourceCommit:
        rows = reach.end - reach.first
        name = f"{number}/{reach.first}-{reach.end}"
        files = (SourceFile(f"{MESSAGES}{self.topic}/{name}", 0, rows),) if rows else ()
        skipped = reach.first - taken.get(number, reach.first)
        return SourceCommit(self.source.name, name, polled, files, partition=number, skipped=skipped)

    def backlog(self, position: Any) -> int:
        taken = _offsets(position)
        return sum(reach.end > taken.get(number, reach.first) for number, reach in self._found().partitions.items())

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        if self._topic_id is None:
            self._found()
        after = {str(commit.partition): _range(commit.id)[1].end for commit in commits}
        return {"topic": self._topic_id, "offsets": {**(position or {"offsets": {}})["offsets"], **after}}

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        require_connector(spark)
        named = [(*_range(commit.id), commit.files[0].path) for commit in commits if commit.files]
        ranges = _spans((number, reach) for number, reach, _ in named)
        options = {
            **self.cluster.spark_options(),
            **{f"kafka.{name}": value for name, value in (TIMEOUTS | COMMITTED).items()},
            "assign": json.dumps({self.topic: list(ranges)}),
            "startingOffsets": json.dumps({self.topic: {n: reach.first for n, reach in ranges.items()}}),
            "endingOffsets": json.dumps({self.topic: {n: reach.end for n, reach in ranges.items()}}),
            "includeHeaders": "true",
        }
        messages = spark.read.format("kafka").options(**options).load()
        return message_frame(spark, self.source, _placed(spark, messages, named))

    # --- what cannot be read any more ----------------------------------------------------------------------------

    def _require_same(self, found: Topic, position: Any) -> None:
        if position is None:
            return
        taken = _offsets(position)
        gone = [n for n, offset in taken.items() if n not in found.partitions or found.partitions[n].end < offset]
        if gone or position["topic"] != found.id:
            raise errors.recreated(self.source, self.topic)

    def require_as_taken(self, _: Sequence[SourceCommit], position: Any) -> None:
        """Offsets of another topic are other messages."""
        self._require_same(self._found(), position)

    def _require_kept(self, waiting: dict[int, Reach], taken: dict[int, int]) -> None:
        lost = {
            n: Reach(taken[n], reach.first) for n, reach in waiting.items() if n in taken and taken[n] < reach.first
        }
        if lost and self.source.options.get("on_data_loss") != "skip":
            raise errors.expired(self.source, self.topic, lost)

    def require_kept(self, commits: Sequence[SourceCommit], view: str, committed: str) -> None:
        """A planned range that expired stops the run before anything is written."""
        lost = self.expired(commits)
        if lost:
            raise errors.planned_and_expired(self.source, self.topic, lost, view, committed)

    def expired(self, commits: Sequence[SourceCommit]) -> dict[int, Reach]:
        """What the topic no longer has of the commits, by partition."""
        ranges = _spans(_range(commit.id) for commit in commits if commit.files)
        held = self._found().partitions if ranges else {}
        return {
            number: Reach(reach.first, min(held[number].first, reach.end))
            for number, reach in ranges.items()
            if number in held and held[number].first > reach.first
        }


def _offsets(position: Any) -> dict[int, int]:
    return {} if position is None else {int(number): offset for number, offset in position["offsets"].items()}


def _range(name: str) -> tuple[int, Reach]:
    number, _, offsets = name.partition("/")
    first, _, end = offsets.partition("-")
    return int(number), Reach(int(first), int(end))


def _spans(ranges: Iterable[tuple[int, Reach]]) -> dict[int, Reach]:
    """Of each partition, from its first range to its last."""
    found: dict[int, Reach] = {}
    for number, reach in ranges:
        known = found.get(number, reach)
        found[number] = Reach(min(known.first, reach.first), max(known.end, reach.end))
    return found


def _placed(spark: SparkSession, messages: DataFrame, named: Sequence[tuple[int, Reach, str]]) -> DataFrame:
    """Each message with the name of its range. What lies between the ranges is left out."""
    if len({number for number, _, _ in named}) == len(named):
        pairs = ", ".join(f"{number}, {text_sql(path)}" for number, _, path in named)
        return messages.selectExpr("*", f"element_at(map({pairs}), partition) AS {FILE}")
    columns = {"_partition": INT, "_first": BIGINT, "_end": BIGINT, FILE: STRING}
    ranges = inline_table(spark, columns, [(number, reach.first, reach.end, path) for number, reach, path in named])
    inside = functions_of(spark).expr("partition = _partition AND offset >= _first AND offset < _end")
    return messages.join(ranges.hint("broadcast"), inside).drop("_partition", "_first", "_end")


def _bounded(waiting: dict[int, Reach], limit: Limit) -> dict[int, Reach]:
    """As much as the limit allows, of each partition in proportion to what waits there, and at least one message."""
    allowed = limit.rows if limit.rows > 0 else LEAST_ROWS
    total = sum(reach.end - reach.first for reach in waiting.values())
    if total <= allowed:
        return waiting
    return {
        number: Reach(reach.first, reach.first + max(1, (reach.end - reach.first) * allowed // total))
        for number, reach in waiting.items()
    }
