"""The schema of a source that is declared without columns: its own, read with no JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from laminar_dagster.engine.sources.delta import DeltaConnector, schema_fields
from laminar_dagster.engine.sources.files import SUFFIXES
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.sql.statements import SourceStatement


def schema_of(statement: SourceStatement, root: Path) -> tuple[Field, ...]:
    options = {name: str(option.value) for name, option in statement.options.items()}
    if options.get("connector") == "delta":
        return DeltaConnector(Source(statement.name, "delta", (), options), root).fields()
    if options.get("connector") == "files" and options.get("format") == "parquet":
        return _parquet_fields(statement, root / options["path"])
    raise LaminarError(
        "LMR0607",
        f'source "{statement.name}" needs its columns declared',
        where=statement.where,
        detail="A Delta table and Parquet files have a schema of their own; text, Kafka and memory do not.",
        hint=f"CREATE SOURCE {statement.name} (column TYPE, …, WATERMARK FOR event_time) WITH (…)",
    )


def _parquet_fields(statement: SourceStatement, folder: Path) -> tuple[Field, ...]:
    first = next((p for p in sorted(folder.rglob("*")) if p.suffix.lower() in SUFFIXES["parquet"]), None)
    if first is None:
        raise LaminarError(
            "LMR0607",
            f'source "{statement.name}" needs its columns declared: there is no Parquet file in {folder} to read them from',
            where=statement.where,
        )
    arrow: pa.Schema = pq.read_schema(first).remove_metadata()
    return schema_fields(Schema.from_arrow(arrow))
