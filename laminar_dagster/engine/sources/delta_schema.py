"""A Delta table's schema in this project's types, and the names that its files use for its columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from deltalake import DeltaTable, Schema

from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import DataType, parse_type

PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NAMES = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
# Of a field of the schema: its name for readers, or its name in files.
NameOf = Callable[[Mapping[str, Any]], str]


def table_fields(table: DeltaTable) -> tuple[Field, ...]:
    return schema_fields(table.schema())


def schema_fields(schema: Schema) -> tuple[Field, ...]:
    return tuple(Field(entry["name"], _type_of(entry["type"], _name)) for entry in _entries(schema))


def _entries(schema: Schema) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(schema.to_json())["fields"]
    return found


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry["name"])


def _stored_name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("metadata", {}).get(PHYSICAL_NAME, entry["name"]))


def _type_of(delta: Any, name_of: NameOf) -> DataType:
    if not isinstance(delta, str):
        return DataType(_nested(delta, name_of))
    try:
        return parse_type(_NAMES.get(delta, delta))
    except ValueError:
        return DataType(delta.upper())


def _nested(delta: dict[str, Any], name_of: NameOf) -> str:
    match delta["type"]:
        case "array":
            return f"ARRAY<{_type_of(delta['elementType'], name_of)}>"
        case "map":
            return f"MAP<{_type_of(delta['keyType'], name_of)},{_type_of(delta['valueType'], name_of)}>"
        case _:
            inside = (f"{quoted(name_of(entry))}:{_type_of(entry['type'], name_of)}" for entry in delta["fields"])
            return f"STRUCT<{','.join(inside)}>"


def same_type(one: DataType, other: DataType) -> bool:
    """Equal, however a nested type is spelled."""
    return one == other or _spelled(one) == _spelled(other)


def _spelled(type_: DataType) -> str:
    return str(type_).upper().replace(" ", "").replace("`", "").replace("INTEGER", "INT").replace("LONG", "BIGINT")


def is_nested(type_: DataType) -> bool:
    return "<" in type_.name


def is_mapped(table: DeltaTable) -> bool:
    """Whether files and partition values use names of their own for columns (column mapping)."""
    return any(PHYSICAL_NAME in entry.get("metadata", {}) for entry in _entries(table.schema()))


def stored_fields(table: DeltaTable) -> dict[str, Field]:
    """Each column as files hold it: its name there, and its type with the names of what is nested in it."""
    return {
        entry["name"]: Field(_stored_name(entry), _type_of(entry["type"], _stored_name))
        for entry in _entries(table.schema())
    }


def names_in_files(table: DeltaTable, columns: Collection[str], name_of: NameOf = _stored_name) -> dict[str, str]:
    """The names in files of these columns and of all that is nested in them, by path."""
    entries = [entry for entry in _entries(table.schema()) if entry["name"] in columns]
    return {path: name for entry in entries for path, name in _paths(entry, "", name_of)}


def own_names(table: DeltaTable, columns: Collection[str]) -> dict[str, str]:
    """What files call the columns where there is no column mapping."""
    return names_in_files(table, columns, _name)


def _paths(entry: Mapping[str, Any], above: str, name_of: NameOf) -> Iterator[tuple[str, str]]:
    path = above + quoted(entry["name"])
    yield path, name_of(entry)
    for way, inner in _nested_fields(entry["type"]):
        yield from _paths(inner, f"{path}{way}.", name_of)


def _nested_fields(delta: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields next inside of a type, each with the way to it: through arrays, and the keys and values of maps."""
    if isinstance(delta, str):
        return
    yield from (("", field) for field in delta.get("fields", ()))
    for part in ("elementType", "keyType", "valueType"):
        yield from ((f".{part}{way}", field) for way, field in _nested_fields(delta.get(part, "")))
