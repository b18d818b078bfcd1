"""Messages as rows: the value as JSON or as text, and what is about the message as the columns that ask for it.

A message whose value cannot be read says so, and where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.sources.json_lines import json_rows
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.text_lines import DETAIL, FAULT, MALFORMED, RAW, TEXT, text_sql
from laminar_dagster.semantics.query import Source
from laminar_dagster.semantics.types import STRING, TIMESTAMP, DataType
from laminar_dagster.sql.messages import HEADER, metadata_of, value_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = "_place"
# Of headers that have the same name, the last one counts.
_LAST = "element_at(transform(filter(headers, h -> h.key = {name}), h -> make_valid_utf8(string(h.value))), -1)"
_NAMES = "array_distinct(transform(coalesce(headers, array()), h -> h.key))"
# Spark breaks base64 into lines.
_BASE64 = "replace(base64(value), chr(13) || chr(10))"
METADATA_SQL = {
    "key": "key",
    "headers": f"map_from_arrays({_NAMES}, transform({_NAMES}, name -> {_LAST.format(name='name')}))",
    "timestamp": "timestamp",
    "partition": "partition",
    "offset": "offset",
    "topic": "topic",
}


def message_frame(spark: SparkSession, source: Source, messages: DataFrame) -> DataFrame:
    """The rows of messages as Spark's connector gives them, each with the name of its range, `_file`.

    A message's time that no column asks for is carried beside the columns, where the event time is made of it.
    """
    fields = value_fields(source.columns, source.options)
    about = metadata_of(source.options)
    types = {field.name: field.type for field in source.columns}
    beside = [column for column in about if column not in types]
    text = "CAST(value AS STRING)"
    texts = messages.selectExpr(
        *(f"{_about(what, types.get(column, TIMESTAMP))} AS {held_sql(column)}" for column, what in about.items()),
        f"CASE WHEN is_valid_utf8({text}) THEN {text} ELSE {_BASE64} END AS {RAW}",
        f"make_valid_utf8({text}) AS {TEXT}",
        f"coalesce(NOT is_valid_utf8({text}), false) AS _broken",
        FILE,
        f"concat('partition ', partition, ', offset ', offset, ': ') AS {PLACE}",
    )
    carried = [*(held_sql(column) for column in about), PLACE]
    if source.options["format"] == "json":
        rows = json_rows(spark, fields, texts, "message", carried)
    else:
        fault = f"CASE WHEN _broken OR {TEXT} IS NULL THEN '{MALFORMED}' END AS {FAULT}"
        detail = (
            f"CASE WHEN _broken THEN 'the message is not valid UTF-8' ELSE 'the message has no value' END AS {DETAIL}"
        )
        rows = texts.selectExpr(f"{TEXT} AS {held_sql(fields[0].name)}", *carried, RAW, fault, detail, FILE)
    placed = f"CASE WHEN {FAULT} IS NOT NULL THEN concat({PLACE}, {DETAIL}) END AS {DETAIL}"
    return rows.selectExpr(*(held_sql(name) for name in (*types, *beside)), RAW, FAULT, placed, FILE)


def _about(what: str, type_: DataType) -> str:
    if what.lower().startswith(HEADER):
        return _LAST.format(name=text_sql(what[len(HEADER) :]))
    value = f"CAST({METADATA_SQL[what]} AS {type_})"
    return f"make_valid_utf8({value})" if type_ == STRING else value
