"""Routes of the side output that lead out of the store: its entries of one kind, read from the table, epoch by epoch.

An entry's number counts all entries of its epoch in the order of their values: merging files does not change it, and
so a delivery that is repeated has the same numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.changelog_rows import CHUNK_ROWS
from laminar_dagster.engine.in_process_sql import connection, parquet, text
from laminar_dagster.engine.side_entries import entry_texts
from laminar_dagster.engine.sinks.files import lines
from laminar_dagster.engine.sinks.history import EpochChanges, by_epoch
from laminar_dagster.engine.sinks.kafka import KafkaTarget
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.sinks import WAIT, DeclaredSink
from laminar_dagster.semantics.time import MILLISECOND, SECOND
from laminar_dagster.sql.side_output import own_input
from state_store import StoreReader
from state_store import format as f
from state_store.changelog import EPOCH, SEQ
from state_store.positions import write_whole

COLUMNS = tuple(name for name in f.SIDE_OUTPUT_SCHEMA.names if name != EPOCH)
_LINE_ENDS = r"[\r\n]+"


def entries_since(reader: StoreReader, kind: str, epoch: int) -> Iterator[EpochChanges]:
    """The entries of a kind that each epoch after this one has."""
    last = reader.commit() if reader.exists else None
    if last is None:
        return
    files = [file for file in reader.files(f.SIDE_OUTPUT, last) if file.high.get(EPOCH, last.epoch) > epoch]
    if not files:
        return
    source = parquet(reader.table(f.SIDE_OUTPUT).absolute(files))
    in_order = ", ".join(f"{name} ASC NULLS FIRST" for name in COLUMNS)
    numbered = f"""
        SELECT {EPOCH}, row_number() OVER (PARTITION BY {EPOCH} ORDER BY {in_order}) - 1 AS {SEQ}, {", ".join(COLUMNS)}
        FROM {source} WHERE {EPOCH} > {epoch}"""
    with connection() as db:
        found = db.sql(f"SELECT * FROM ({numbered}) WHERE kind = {text(kind)} ORDER BY {EPOCH}, {SEQ}")
        for number, rows in by_epoch(found.to_arrow_reader(CHUNK_ROWS)):
            yield EpochChanges(number, rows)


def refuse_own_input(query: Query, sink: DeclaredSink, project: Path) -> None:
    """What the plan cannot see of paths: links, and absolute beside relative ones."""
    written = _real(located(project, sink.options["path"]))
    for source in (entry.source for entry in query.inputs):
        read = None if "path" not in source.options else _real(located(project, source.options["path"]))
        if read is not None and written.is_relative_to(read):
            raise own_input(query.view, source.name, str(sink.entries), sink.where)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


class SideMessages(KafkaTarget):
    """Each entry is a message: a JSON object, under its group key.

    Dead letters must not hold the pipeline up: unless it is to wait, it does not try for longer than the route's bound.
    """

    def deliver(self, delivery: Delivery) -> None:
        if self.sink.saturation.policy != WAIT:
            self.cluster.require_answer(self.sink.saturation.micros / SECOND)
        super().deliver(delivery)

    def bounds(self) -> dict[str, str]:
        if self.sink.saturation.policy == WAIT:
            return super().bounds()
        wait = max(1, self.sink.saturation.micros // MILLISECOND)
        names = ("kafka.max.block.ms", "kafka.request.timeout.ms", "kafka.delivery.timeout.ms")
        return {**{name: str(wait) for name in names}, "kafka.linger.ms": "0"}

    def texts(self, delivery: Delivery) -> pa.Table:
        rows = delivery.rows
        named = {"view": self.sink.view, "kind": str(self.sink.entries)}
        headers = {name: pa.repeat(value, rows.num_rows) for name, value in named.items()}
        numbers = {"epoch": rows.column(EPOCH), "seq": rows.column(SEQ)}
        return pa.table(
            {"key": rows.column("group_key"), "value": entry_texts(rows.select(COLUMNS)), **headers, **numbers}
        )


class Reinjection:
    """`e0000000012-sales-late.json`: the original events of an epoch, one on a line, for a source of files to read."""

    def __init__(self, sink: DeclaredSink, surroundings: Surroundings) -> None:
        self._sink = sink
        self._surroundings = surroundings
        self._folder = located(surroundings.project, sink.options["path"])
        self._ending = f"-{sink.view}-{sink.entries}.json"

    def landed(self) -> int | None:
        names = (path.name for path in self._folder.iterdir()) if self._folder.is_dir() else ()
        found = (re.fullmatch(rf"e(\d{{10,}}){re.escape(self._ending)}", name) for name in names)
        return max((int(match[1]) for match in found if match is not None), default=None)

    def deliver(self, delivery: Delivery) -> None:
        """An entry without its event (a message that has no value) has nothing to bring back."""
        events = delivery.rows.column("original_event").drop_null()
        if len(events):
            # A message may have line ends between its parts; within its texts JSON does not allow them.
            content = lines(pc.replace_substring_regex(events, _LINE_ENDS, " "))
            write_whole(self._folder / f"e{delivery.epoch:010d}{self._ending}", content)
        self._surroundings.after_write(f"sink {self._sink.name} file")
