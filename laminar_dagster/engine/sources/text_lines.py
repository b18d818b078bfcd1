"""What JSON lines and CSV share: lines with their file, and rows with the reason why a line is no good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.paths import exactly, file_system
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import literal_sql
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.types import STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW = "_raw"
FAULT = "_fault"
DETAIL = "_detail"
TEXT = "_text"
MALFORMED = "malformed_record"
TYPE_MISMATCH = "type_mismatch"
SHOWN_CHARACTERS = 100
_BYTE_ORDER_MARK = "\ufeff"


def read_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of files that are not blank, as `as_texts` has them."""
    lines = spark.read.options(**file_system(paths)).text(exactly(paths))
    return as_texts(lines.selectExpr("value", f"_metadata.file_path AS {FILE}"))


def as_texts(lines: DataFrame) -> DataFrame:
    """What is not blank: `_raw` as it goes to the side output, `_text` as it is parsed, `_broken`.

    `_broken` marks bytes that are not UTF-8: parsers put a replacement character in their place and go on.
    """
    return lines.filter("value RLIKE '[^ \\\\t]'").selectExpr(
        f"make_valid_utf8(value) AS {RAW}",
        f"trim(LEADING '{_BYTE_ORDER_MARK}' FROM make_valid_utf8(value)) AS {TEXT}",
        "NOT is_valid_utf8(value) AS _broken",
        FILE,
    )


def text_sql(text: str) -> str:
    return literal_sql(Literal(text, STRING))


def mismatches(fields: Sequence[Field], text_of: dict[str, str]) -> str:
    """Spark SQL that names each column with a text but no value: `column "n": abc is not a BIGINT`."""
    found = [
        f"CASE WHEN {held_sql(field.name)} IS NULL AND {text_of[field.name]} IS NOT NULL THEN "
        f"concat({text_sql(_column(field))}, left({text_of[field.name]}, {SHOWN_CHARACTERS}), "
        f"{text_sql(f' is not a value of type {field.type}')}) END"
        for field in fields
        if field.name in text_of
    ]
    return f"concat_ws('; ', {', '.join(found)})"


def _column(field: Field) -> str:
    return f'column "{field.name}": '
