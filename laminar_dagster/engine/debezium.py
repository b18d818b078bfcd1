"""Changes as Debezium envelopes, one JSON text for each event: for files, for Kafka, for whatever reads Debezium.

`+I` is `c` with `after`, a pair of `-U` and `+U` is one `u` with `before` and `after`, `-D` is `d` with `before`, and a
row of a snapshot is `r` with `after`. What an event does not have is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.in_process_sql import connection, quoted, text
from laminar_dagster.engine.json_text import json_object
from laminar_dagster.errors import LaminarError
from state_store.changelog import EMITTED_AT, EPOCH, OP, SEQ, data_columns

PLACE = "_ place"
SEQ_BITS = 32


@dataclass(frozen=True)
class CdcSource:
    """Where events come from, as their `source` says it; the sequence number is added for each event."""

    db: str
    table: str
    name: str = "laminar"


def debezium_texts(rows: pa.Table, source: CdcSource, *, snapshot: bool = False) -> pa.ChunkedArray:
    """The events of changelog rows, in order. `source.sequence` rises from event to event."""
    _require_whole_updates(rows)
    places = pa.array(range(rows.num_rows), pa.int64())
    with connection() as db:
        db.register("changes", rows.append_column(PLACE, places))
        return db.sql(_events_sql(rows.schema, source, "r" if snapshot else "c")).to_arrow_table().column(0)


def _events_sql(schema: pa.Schema, source: CdcSource, insert: str) -> str:
    """An update is told where its first row is; the second one, which is next, gives its time and number."""
    data = pa.schema([schema.field(name) for name in data_columns(schema.names)])
    place = quoted(PLACE)
    written = {"name": source.name, "db": source.db, "table": source.table}
    origin = json.dumps(written, separators=(",", ":"), ensure_ascii=False)[:-1] + ',"sequence":'
    sequence = f"({EPOCH} * {1 << SEQ_BITS} + {SEQ})"
    return f"""
        WITH rows AS (
            SELECT {place} AS place, {OP} AS op, {json_object(data)} AS data,
                ',"ts_ms":' || coalesce(epoch_us({EMITTED_AT}) // 1000, 0)
                || ',"source":' || {text(origin)} || {sequence} || '}}' AS origin
            FROM changes
        ), events AS (
            SELECT *, lead(data) OVER in_order AS next_data, lead(origin) OVER in_order AS next_origin
            FROM rows WINDOW in_order AS (ORDER BY place)
        )
        SELECT CASE op
            WHEN '+I' THEN '{{"op":"{insert}"' || origin || ',"after":' || data
            WHEN '-D' THEN '{{"op":"d"' || origin || ',"before":' || data
            ELSE '{{"op":"u"' || next_origin || ',"before":' || data || ',"after":' || next_data
            END || '}}'
        FROM events WHERE op <> '+U' ORDER BY place"""


def _require_whole_updates(rows: pa.Table) -> None:
    """Each `-U` has its `+U` right behind it, and each `+U` its `-U` before."""
    ops, last = rows.column(OP), rows.num_rows - 1
    old, new = pc.equal(ops, "-U"), pc.equal(ops, "+U")
    if rows.num_rows and (new[0].as_py() or old[last].as_py() or not old.slice(0, last).equals(new.slice(1))):
        raise LaminarError(
            "LMR0813",
            "a batch has one row of an update without the other",
            hint="Use batches as subscribe() gives them; where you cut them, cut behind a +U and not behind a -U.",
        )
