"""SQL that writes a value as JSON, exactly: what JSON has no form for becomes text.

| type | JSON |
|---|---|
| integers, booleans, text | as they are |
| floating point | a number; NaN, Infinity and -Infinity as text |
| decimal | text, with all digits of its scale |
| timestamp | text, ISO-8601 in UTC with `Z`, with six digits of a second if it has a fraction; without a zone: no `Z` |
| date, time | text, ISO-8601 |
| binary | text, base64 |
| list, struct, map | array, object, object with the keys as text |
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import connection, quoted, text


def json_texts(rows: pa.Table, columns: Sequence[str] | None = None) -> pa.ChunkedArray:
    """Each row (or these columns of it) as a JSON object, in order."""
    chosen = rows.schema if columns is None else pa.schema([rows.schema.field(name) for name in columns])
    with connection() as db:
        db.register("rows", rows)
        return db.sql(f"SELECT {json_object(chosen)} FROM rows").to_arrow_table().column(0)


def json_object(columns: pa.Schema) -> str:
    """A row with these columns as the text of a JSON object."""
    return _object([(field.name, quoted(field.name), field.type) for field in columns])


def json_text(value: str, type_: pa.DataType, depth: int = 0) -> str:
    """The JSON of a SQL expression of an Arrow type, as an expression that is text; never NULL."""
    return f"coalesce({_present(value, type_, depth)}, 'null')"


def _present(value: str, type_: pa.DataType, depth: int) -> str:
    """As `json_text`, but NULL for NULL."""
    if pa.types.is_struct(type_):
        parts = [(field.name, f"({value}).{quoted(field.name)}", field.type) for field in type_]
        return f"CASE WHEN {value} IS NOT NULL THEN {_object(parts, depth)} END"
    if pa.types.is_map(type_):
        entry = f"e{depth}"
        key = _key(f"{entry}.key", type_.key_type, depth + 1)
        item = json_text(f"{entry}.value", type_.item_type, depth + 1)
        return _listed(f"map_entries({value})", entry, f"{key} || ':' || {item}", "{}")
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        element = f"e{depth}"
        return _listed(value, element, json_text(element, type_.value_type, depth + 1), "[]")
    return _scalar(value, type_)


def _scalar(value: str, type_: pa.DataType) -> str:
    if pa.types.is_floating(type_):
        odd = f"CASE WHEN isnan({value}) THEN 'NaN' WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        return f"CASE WHEN isfinite({value}) THEN {_json(value)} WHEN {value} IS NOT NULL THEN {_json(odd)} END"
    if pa.types.is_timestamp(type_):
        return _json(_iso(value, "" if type_.tz is None else "Z"))
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return _json(f"base64({value})")
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return _json(value)
    return _json(f"CAST({value} AS VARCHAR)")


def _iso(value: str, zone: str) -> str:
    moment = f"make_timestamp(epoch_us({value}))"
    fraction = f"CASE WHEN epoch_us({value}) % 1000000 = 0 THEN '' ELSE strftime({moment}, '.%f') END"
    return f"strftime({moment}, '%Y-%m-%dT%H:%M:%S') || {fraction} || {text(zone)}"


def _key(value: str, type_: pa.DataType, depth: int) -> str:
    """JSON's keys are text: a key that is not becomes the text of its JSON."""
    written = json_text(value, type_, depth)
    return f"CASE WHEN starts_with({written}, '\"') THEN {written} ELSE '\"' || {written} || '\"' END"


def _listed(items: str, name: str, item: str, brackets: str) -> str:
    joined = f"array_to_string(list_transform({items}, lambda {name}: {item}), ',')"
    return f"{text(brackets[0])} || {joined} || {text(brackets[1])}"


def _object(parts: list[tuple[str, str, pa.DataType]], depth: int = 0) -> str:
    written = [f"{_name(name)} || {json_text(value, type_, depth)}" for name, value, type_ in parts]
    inside = " || ',' || ".join(written) or "''"
    return f"'{{' || {inside} || '}}'"


def _name(name: str) -> str:
    return text(json.dumps(name, ensure_ascii=False) + ":")


def _json(value: str) -> str:
    return f"CAST(to_json({value}) AS VARCHAR)"
