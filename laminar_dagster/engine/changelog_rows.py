"""The rows of a changelog in their order, a stretch at a time: for those who follow it. DuckDB, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import parquet, quoted
from state_store import DeltaDirectory
from state_store.changelog import EPOCH, EPOCHS, SEQ, RowPlace, files_between, readable_together

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHUNK_ROWS = 65_536
ROWS_AT_ONCE = 500_000
FILES_AT_ONCE = 256


def rows_after(db: DuckDBPyConnection, table: DeltaDirectory, after: RowPlace, upto: int) -> Iterator[pa.RecordBatch]:
    """The rows after a place, in order, in the table's types; only files that may hold some are opened."""
    schema = pa.schema([field for field in table.schema() if field.name != EPOCHS])
    columns = ", ".join(map(quoted, schema.names))
    epoch, seq = after
    wanted = f"({EPOCH} > {epoch} OR ({EPOCH} = {epoch} AND {SEQ} > {seq})) AND {EPOCH} <= {upto}"
    for files in readable_together(files_between(table, after, upto), ROWS_AT_ONCE, FILES_AT_ONCE):
        found = db.sql(f"SELECT {columns} FROM {parquet(table.absolute(files))} WHERE {wanted} ORDER BY {EPOCH}, {SEQ}")
        for chunk in found.to_arrow_reader(CHUNK_ROWS):
            yield chunk.cast(schema)
