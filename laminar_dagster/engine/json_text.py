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

A year that four digits do not hold has a sign: `+12000-01-04`, `-0044-03-15`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import connection, quoted, text
from laminar_dagster.semantics.time import CYCLE, CYCLE_YEARS, DAY

YEAR_0, YEAR_10000 = -62_167_219_200_000_000, 253_402_300_800_000_000
MOST = (1 << 63) - 1


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
    if pa.types.is_date(type_):
        return _json(_day(value))
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return _json(f"base64({value})")
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return _json(value)
    return _json(f"CAST({value} AS VARCHAR)")


def _iso(value: str, zone: str) -> str:
    usual = f"epoch_us({value}) BETWEEN {YEAR_0} AND {YEAR_10000 - 1}"
    return f"CASE WHEN {usual} THEN {_clocked(f'epoch_us({value})', zone)} ELSE {_far(_exact(value), zone)} END"


def _clocked(micros: str, zone: str, date: str = "%Y-%m-%d") -> str:
    moment = f"make_timestamp({micros})"
    fraction = f"CASE WHEN {micros} % 1000000 = 0 THEN '' ELSE strftime({moment}, '.%f') END"
    return f"strftime({moment}, '{date}T%H:%M:%S') || {fraction} || {text(zone)}"


def _exact(value: str) -> str:
    """DuckDB takes the greatest number for infinity, and has no microseconds of it."""
    most = f"CASE WHEN {value} > make_timestamp(0) THEN {MOST} ELSE {-MOST} END"
    return f"coalesce(epoch_us({value}), CASE WHEN {value} IS NOT NULL THEN {most} END)"


def _far(micros: str, zone: str) -> str:
    """Of a year that four digits do not hold: the time of day, month and day of the same moment of other 400 years."""
    near = f"(({micros} % {CYCLE} + {CYCLE}) % {CYCLE})"
    return f"{_year(micros, near)} || {_clocked(near, zone, '-%m-%d')}"


def _year(micros: str, near: str) -> str:
    year = f"(year(make_timestamp({near})) + ({micros}::HUGEINT - {near}) // {CYCLE} * {CYCLE_YEARS})::BIGINT"
    return f"CASE {year} WHEN 0 THEN '0000' ELSE format('{{:+05d}}', {year}) END"


def _day(value: str) -> str:
    """The days of a date that has another form than four digits, two and two."""
    micros = f"(({value} - DATE '1970-01-01')::HUGEINT * {DAY})"
    near = f"(({micros} % {CYCLE} + {CYCLE}) % {CYCLE})::BIGINT"
    far = f"{_year(micros, near)} || strftime(make_timestamp({near}), '-%m-%d')"
    usual = f"{value} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {usual} THEN CAST({value} AS VARCHAR) WHEN {value} IS NOT NULL THEN {far} END"


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
