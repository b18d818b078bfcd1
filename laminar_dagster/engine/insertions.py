"""The rows of a view that has only appended as a changelog: each an insertion, in the epoch that showed it."""

from __future__ import annotations

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import quoted
from laminar_dagster.engine.shown import END
from laminar_dagster.semantics.query import Query
from state_store import DeltaDirectory
from state_store.changelog import EMITTED_AT, EPOCH, EVENT_TIME, HEAD, OP, SEQ, WEIGHT


def insertions_sql(query: Query, source: str, epoch: int) -> str:
    """Rows as so many `+I`. Their order within an epoch is that of their values: merging files does not change it."""
    names = [quoted(named.name) for named in query.output]
    in_order = ", ".join(f"{name} ASC NULLS FIRST" for name in names)
    return f"""
        SELECT {EPOCH}, row_number() OVER (PARTITION BY {EPOCH} ORDER BY {in_order}) - 1 AS {SEQ}, '+I' AS {OP},
            1::BIGINT AS {WEIGHT}, {_event_time_sql(query)} AS {EVENT_TIME}, {EMITTED_AT}, {", ".join(names)}
        FROM {source} WHERE {EPOCH} > {epoch} ORDER BY {EPOCH}, {SEQ}"""


def _event_time_sql(query: Query) -> str:
    return "NULL::TIMESTAMPTZ" if query.window is None else f"make_timestamp({END})::TIMESTAMPTZ"


def insertions_schema(table: DeltaDirectory, written: pa.Schema) -> pa.Schema:
    """The columns of a changelog, in the types that the output has."""
    types = {**{field.name: field.type for field in table.schema()}, **dict(zip(HEAD.names, HEAD.types, strict=True))}
    return pa.schema([(name, types[name]) for name in written.names])
