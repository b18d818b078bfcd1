"""Files as a target: one for each epoch that changed something, named by the epoch.

A file gets its name when it is whole, so whoever lists the directory never sees half of one, and a delivery that is
repeated replaces a file by the same bytes.
"""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.debezium import CdcSource, debezium_texts
from laminar_dagster.engine.json_text import json_texts
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.semantics.sinks import APPEND, DeclaredSink
from state_store.positions import write_whole

SNAPSHOT = "e0000000000-snapshot"
ENDINGS = {"parquet": "parquet", "json": "json", "debezium": "json"}
_EPOCH_FILE = re.compile(r"e(\d{10,})\.(parquet|json)")


class FilesTarget:
    """`e0000000012.json`; a snapshot has a name that comes before all epochs'."""

    def __init__(self, sink: DeclaredSink, surroundings: Surroundings) -> None:
        self._sink = sink
        self._surroundings = surroundings
        self._folder = located(surroundings.project, sink.options["path"])
        self._format = sink.options["format"]

    def landed(self) -> int | None:
        names = (path.name for path in self._folder.iterdir()) if self._folder.is_dir() else ()
        found = (_EPOCH_FILE.fullmatch(name) for name in names)
        return max((int(match[1]) for match in found if match is not None), default=None)

    def deliver(self, delivery: Delivery) -> None:
        name = SNAPSHOT if delivery.snapshot else f"e{delivery.epoch:010d}"
        write_whole(self._folder / f"{name}.{ENDINGS[self._format]}", self._content(delivery))
        self._surroundings.after_write(f"sink {self._sink.name} file")

    def _content(self, delivery: Delivery) -> bytes:
        rows = delivery.data if self._sink.mode == APPEND else delivery.rows
        if self._format == "parquet":
            return _parquet(rows)
        if self._format == "json":
            return lines(json_texts(rows))
        source = CdcSource(self._surroundings.database, self._sink.view)
        return lines(debezium_texts(delivery.rows, source, snapshot=delivery.snapshot))


def _parquet(rows: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return buffer.getvalue()


def lines(texts: pa.ChunkedArray) -> bytes:
    """Each text and a line end behind it, put together without going through the rows in Python."""
    return b"".join(_joined(chunk) for chunk in texts.chunks if len(chunk))


def _joined(texts: pa.Array) -> bytes:
    """What an Arrow array of text holds is one stretch of memory, line after line."""
    nothing, line_end = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
    lines = pc.binary_join_element_wise(texts.cast(pa.large_string()), line_end, nothing)
    _, _, characters = lines.buffers()
    return bytes(characters.slice(0, pc.sum(pc.binary_length(lines)).as_py()))
