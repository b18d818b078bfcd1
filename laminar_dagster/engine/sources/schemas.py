"""The schema of a source that is declared without columns: its own, read with no JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from laminar_dagster.engine.sources.commits import unreadable
from laminar_dagster.engine.sources.delta import DeltaConnector
from laminar_dagster.engine.sources.delta_schema import schema_fields
from laminar_dagster.engine.sources.files import FilesConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.sql.catalog import read_source_options
from laminar_dagster.sql.statements import SourceStatement


def schema_of(statement: SourceStatement, root: Path) -> tuple[Field, ...]:
    _, options = read_source_options(statement, ())
    connector = statement.options["connector"].value.lower()
    source = Source(statement.name, connector, (), options)
    if connector == "delta":
        return DeltaConnector(source, root).fields()
    if connector == "files" and options["format"] == "parquet":
        return _parquet_fields(statement, FilesConnector(source, root))
    raise LaminarError(
        "LMR0607",
        f'source "{statement.name}" needs its columns declared',
        where=statement.where,
        detail="A Delta table and Parquet files have a schema of their own; text, Kafka and memory do not.",
        hint=f"CREATE SOURCE {statement.name} (column TYPE, …, WATERMARK FOR event_time) WITH (…)",
    )


def _parquet_fields(statement: SourceStatement, connector: FilesConnector) -> tuple[Field, ...]:
    first = min(connector.listed(), default=None)
    if first is None:
        raise LaminarError(
            "LMR0607",
            f'source "{statement.name}" needs its columns declared: there is no Parquet file to read them from',
            where=statement.where,
            detail=f"looked in {connector.path}",
        )
    try:
        arrow: pa.Schema = pq.read_schema(first).remove_metadata()
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(statement.name, str(first), str(problem)) from problem
    return schema_fields(Schema.from_arrow(arrow))
