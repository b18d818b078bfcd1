"""JSON lines as rows. A line that is not one whole JSON object, or has a value of another type, says so."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.text_lines import (
    DETAIL,
    FAULT,
    MALFORMED,
    RAW,
    TEXT,
    TYPE_MISMATCH,
    mismatches,
    read_lines,
)
from laminar_dagster.engine.sources.text_values import from_json_value, json_type
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Spark reads `1,5` in quotes as the decimal 15 where a comma groups digits; in this locale it does not.
OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "locale": "de-CH",
}
# Made anew in each process: whoever writes a text cannot have it in there.
_MARK = f"_{secrets.token_hex(16)}"


def json_frame(spark: SparkSession, fields: Sequence[Field], paths: Sequence[str]) -> DataFrame:
    """The lines of files."""
    return json_rows(spark, fields, read_lines(spark, paths), "line")


def json_rows(
    spark: SparkSession, fields: Sequence[Field], texts: DataFrame, unit: str, carried: Sequence[str] = ()
) -> DataFrame:
    """Rows of texts as `read_lines` gives them; `carried` are columns that stay as they are.

    The parser stops at the end of the first value, so `{…}{…}` and `{…} junk` would pass. Each text is therefore
    parsed as the first of two elements of an array, behind which stands a mark that no text can foresee. A text that
    is more or less than one value shifts the mark, or leaves it out. Texts that fail are parsed once more as text
    alone, which tells a type that does not fit from bad syntax.
    """
    whole = f"""concat('{{"{_MARK}":[', {TEXT}, ',{{"{_MARK}":0}}]}}')"""
    parsed = texts.selectExpr("*", f"{whole} AS _whole").withColumn(
        "_j", _parse(spark, [f"{quoted(f.name)}: {json_type(f.type)}" for f in fields])
    )
    values = [f"{from_json_value(_inside('_j', f), f.type)} AS {held_sql(f.name)}" for f in fields]
    typed = parsed.selectExpr(*values, *carried, RAW, "_whole", "_broken", "_j", FILE)
    odd = " OR ".join(["_broken", _unreadable("_j"), *(_unfit(f) for f in fields)])
    judged = typed.selectExpr("*", f"{odd} AS _odd").withColumn("_s", _texts(spark, fields))
    return judged.selectExpr(
        *(held_sql(field.name) for field in fields),
        *carried,
        RAW,
        f"{_fault()} AS {FAULT}",
        f"{_detail(fields, unit)} AS {DETAIL}",
        FILE,
    )


def _parse(spark: SparkSession, columns: Sequence[str]) -> Column:
    f = functions_of(spark)
    ddl = f"{_MARK} ARRAY<STRUCT<{', '.join([*columns, f'{_MARK}: INT'])}>>, _corrupt STRING"
    parsed: Column = f.from_json(f.col("_whole"), ddl, OPTIONS)
    return parsed


def _texts(spark: SparkSession, fields: Sequence[Field]) -> Column:
    f = functions_of(spark)
    texts: Column = f.when(f.col("_odd"), _parse(spark, [f"{quoted(field.name)}: STRING" for field in fields]))
    return texts


def _inside(parsed: str, field: Field) -> str:
    return f"{parsed}.{_MARK}[0].{quoted(field.name)}"


def _unreadable(parsed: str) -> str:
    pair = f"{parsed}.{_MARK}"
    whole = f"size({pair}) = 2 AND {pair}[0] IS NOT NULL AND {pair}[1].{_MARK} IS NOT NULL"
    return f"({parsed}._corrupt IS NOT NULL OR NOT coalesce({whole}, false))"


def _unfit(field: Field) -> str:
    return f"({_inside('_j', field)} IS NOT NULL AND {held_sql(field.name)} IS NULL)"


def _fault() -> str:
    return f"""CASE WHEN _broken THEN '{MALFORMED}' WHEN NOT _odd THEN NULL
                    WHEN {_unreadable("_s")} THEN '{MALFORMED}' ELSE '{TYPE_MISMATCH}' END"""


def _detail(fields: Sequence[Field], unit: str) -> str:
    named = mismatches(fields, {field.name: _inside("_s", field) for field in fields})
    return f"""CASE WHEN _broken THEN 'the {unit} is not valid UTF-8' WHEN NOT _odd THEN NULL
                    WHEN {_unreadable("_s")} THEN 'the {unit} is not one JSON object' ELSE {named} END"""
