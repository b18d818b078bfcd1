"""A Delta table's schema in this project's types, and the names that its files use for its columns."""

from __future__ import annotations

import json
from typing import Any

from deltalake import DeltaTable, Schema

from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.types import DataType, parse_type

PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NAMES = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}


def table_fields(table: DeltaTable) -> tuple[Field, ...]:
    return schema_fields(table.schema())


def schema_fields(schema: Schema) -> tuple[Field, ...]:
    document = json.loads(schema.to_json())
    return tuple(Field(entry["name"], _type_of(entry["type"])) for entry in document["fields"])


def _type_of(delta: Any) -> DataType:
    if not isinstance(delta, str):
        return DataType(_nested(delta))
    try:
        return parse_type(_NAMES.get(delta, delta))
    except ValueError:
        return DataType(delta.upper())


def _nested(delta: dict[str, Any]) -> str:
    match delta["type"]:
        case "array":
            return f"ARRAY<{_type_of(delta['elementType'])}>"
        case "map":
            return f"MAP<{_type_of(delta['keyType'])},{_type_of(delta['valueType'])}>"
        case _:
            inside = (f"`{entry['name']}`:{_type_of(entry['type'])}" for entry in delta["fields"])
            return f"STRUCT<{','.join(inside)}>"


def same_type(one: DataType, other: DataType) -> bool:
    """Equal, however a nested type is spelled."""
    return one == other or _spelled(one) == _spelled(other)


def _spelled(type_: DataType) -> str:
    return str(type_).upper().replace(" ", "").replace("`", "").replace("INTEGER", "INT").replace("LONG", "BIGINT")


def physical_names(table: DeltaTable) -> dict[str, str]:
    """With column mapping, files and partition values use names of their own; empty without."""
    document = json.loads(table.schema().to_json())
    return {
        entry["name"]: entry["metadata"][PHYSICAL_NAME]
        for entry in document["fields"]
        if PHYSICAL_NAME in entry.get("metadata", {})
    }
