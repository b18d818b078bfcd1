"""An entry of the side output as the JSON that leaves the store: objects inside of it are objects, not text."""

from __future__ import annotations

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import connection, quoted
from laminar_dagster.engine.json_text import json_text

BOUNDS = {"start": "window_start", "end": "window_end"}
# Columns whose text is an object of JSON; a line that could not be read may be anything.
DOCUMENTS = ("group_key", "original_event")


def entry_texts(entries: pa.Table) -> pa.ChunkedArray:
    """Each entry, in order: its columns, the bounds as `window`, and what is a document as one. One line each."""
    with connection() as db:
        db.register("entries", entries)
        return db.sql(f"SELECT {_entry(entries.schema)} FROM entries").to_arrow_table().column(0)


def _entry(schema: pa.Schema) -> str:
    parts = [_part(field) for field in schema if field.name != BOUNDS["end"]]
    return "'{' || " + " || ',' || ".join(parts) + " || '}'"


def _part(field: pa.Field) -> str:
    if field.name == BOUNDS["start"]:
        inside = " || ',' || ".join(
            f"'\"{name}\":' || {json_text(quoted(column), field.type)}" for name, column in BOUNDS.items()
        )
        return f"'\"window\":' || CASE WHEN {quoted(field.name)} IS NULL THEN 'null' ELSE '{{' || {inside} || '}}' END"
    written = json_text(quoted(field.name), field.type)
    if field.name in DOCUMENTS:
        value = quoted(field.name)
        # As it is, so that no digit changes. Between its parts a document may have line ends, within its texts not.
        whole = f"translate({value}, chr(13) || chr(10), '  ')"
        written = f"CASE WHEN {_is_document(value)} THEN {whole} ELSE {written} END"
    return f"'\"{field.name}\":' || {written}"


def _is_document(value: str) -> str:
    """Whether the text is an object of JSON. DuckDB also takes NaN, Infinity and a comma behind the last element."""
    outside_of_texts = rf"""regexp_replace({value}, '"(\\.|[^"\\])*"', '""', 'g')"""
    odd = rf"regexp_matches({outside_of_texts}, 'nan|inf|,\s*[\]}}]', 'i')"
    return f"json_valid({value}) AND starts_with(ltrim({value}), '{{') AND NOT {odd}"
