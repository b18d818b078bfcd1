"""An entry of the side output, column by column: who sets a row aside says what it knows, the rest is NULL."""

from __future__ import annotations

import pyarrow as pa

from laminar_dagster.engine.runtime import Runtime
from state_store import format as f


def side_output_columns(runtime: Runtime, **known: str | None) -> list[str]:
    """Every column of the table, from Spark expressions for the known ones."""
    given = {"plan_id": f"'{runtime.fingerprint}'", "_epoch": f"{runtime.epoch}L", **known}
    return [f"CAST({given.get(c.name) or 'NULL'} AS {_spark_type(c.type)}) AS {c.name}" for c in f.SIDE_OUTPUT_SCHEMA]


def _spark_type(type_: pa.DataType) -> str:
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    return "BIGINT" if pa.types.is_integer(type_) else "STRING"
