"""CSV as rows (RFC 4180). Columns are found by the header's names, or by position where there is none.

Files whose rows are lines, which is what an even number of quotes in each line says, are Spark's to read; of others the
rows are found first (csv_copies.py). From there on both are alike.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sources.csv_copies import VALUE, Copies, opened
from laminar_dagster.engine.sources.csv_records import Rows
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.paths import exactly
from laminar_dagster.engine.sources.text_lines import (
    DETAIL,
    FAULT,
    MALFORMED,
    RAW,
    TEXT,
    TYPE_MISMATCH,
    as_texts,
    mismatches,
    read_lines,
    text_sql,
)
from laminar_dagster.engine.sources.text_values import from_text
from laminar_dagster.semantics.query import Field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Spark's CSV parser fails, and with it the whole epoch, on a line with more fields than its limit.
MOST_FIELDS = 20_000


@dataclass(frozen=True)
class Dialect:
    """How the files are written. Quotes inside a quoted value are doubled (RFC 4180)."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null_value: str = ""

    @staticmethod
    def from_options(options: Mapping[str, str]) -> Dialect:
        return Dialect(
            options.get("header", "true") == "true",
            options.get("delimiter", ",").replace("\\t", "\t"),
            options.get("quote", '"'),
            options.get("null_value", ""),
        )

    def rows(self, fields: int | None) -> Rows:
        return Rows(self.delimiter, self.quote, fields)

    def parser_options(self) -> dict[str, str]:
        return {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": "_corrupt",
            "sep": self.delimiter,
            "quote": self.quote,
            "escape": self.quote,
            "nullValue": self.null_value,
            "maxColumns": str(MOST_FIELDS + 2),
            # Line ends in values stay as they are.
            "multiLine": "true",
        }


def csv_frame(
    spark: SparkSession, fields: Sequence[Field], paths: Sequence[str], dialect: Dialect, copies: Copies
) -> DataFrame:
    """Files with the same header are read together."""
    alike: dict[tuple[str | None, bool], list[str]] = defaultdict(list)
    for path in paths:
        alike[_header(path, dialect) if dialect.header else None, _spans_lines(path, dialect)].append(path)
    parts: list[DataFrame] = []
    for (header, spans_lines), group in alike.items():
        columns = _columns(fields, header, dialect)
        texts = _copied(spark, group, dialect.rows(len(columns)), copies) if spans_lines else read_lines(spark, group)
        if header is not None:
            texts = texts.filter(f"{TEXT} <> {text_sql(header)}")
        parts.append(_part(spark, fields, texts, columns, dialect))
    return reduce(lambda whole, part: whole.unionByName(part), parts)


def _header(path: str, dialect: Dialect) -> str:
    """The header: the first row that is not blank."""
    with opened(path) as text:
        for row in dialect.rows(None).read(text):
            if row.strip(" \t"):
                return row.encode(errors="surrogateescape").decode(errors="replace").lstrip("\ufeff")
    return ""


def _spans_lines(path: str, dialect: Dialect) -> bool:
    with opened(path) as text:
        return dialect.rows(None).may_span_lines(text)


def _copied(spark: SparkSession, paths: Sequence[str], rows: Rows, copies: Copies) -> DataFrame:
    found = [copies.of(path, rows) for path in paths]
    frame = spark.read.schema(f"{VALUE} BINARY, {FILE} STRING").parquet(*exactly(found))
    return as_texts(frame.selectExpr(f"CAST({VALUE} AS STRING) AS {VALUE}", FILE))


def _part(
    spark: SparkSession, fields: Sequence[Field], texts: DataFrame, columns: Sequence[str | None], dialect: Dialect
) -> DataFrame:
    parsed = texts.withColumn("_j", _parse(spark, columns, dialect))
    text_of = {name: f"_j._c{i}" for i, name in enumerate(columns) if name is not None}
    values = [f"{_value(field, text_of)} AS {held_sql(field.name)}" for field in fields]
    problem = _problem(len(columns), dialect)
    typed = parsed.selectExpr(*values, RAW, "_j", f"{problem} AS _problem", FILE)
    mismatch = f"nullif({mismatches(fields, text_of)}, '')" if text_of else "CAST(NULL AS STRING)"
    judged = typed.selectExpr("*", f"CASE WHEN _problem IS NULL THEN {mismatch} END AS _mismatch")
    return judged.selectExpr(
        *(held_sql(field.name) for field in fields),
        RAW,
        f"CASE WHEN _problem IS NOT NULL THEN '{MALFORMED}' WHEN _mismatch IS NOT NULL THEN '{TYPE_MISMATCH}' END "
        f"AS {FAULT}",
        f"coalesce(_problem, _mismatch) AS {DETAIL}",
        FILE,
    )


def _columns(fields: Sequence[Field], header: str | None, dialect: Dialect) -> list[str | None]:
    """For each column of the file the declared one of that name, or None where it is not declared."""
    if not header:
        return [field.name for field in fields]
    declared = {field.name.lower(): field.name for field in fields}
    names = next(csv.reader(io.StringIO(header, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote))
    return [declared.pop(name.strip().lower(), None) for name in names]


def _parse(spark: SparkSession, columns: Sequence[str | None], dialect: Dialect) -> Column:
    f = functions_of(spark)
    ddl = ", ".join([*(f"_c{i} STRING" for i in range(len(columns))), "_corrupt STRING"])
    few = f.expr(f"{_occurrences(dialect.delimiter)} <= {MOST_FIELDS}")
    parsed: Column = f.when(few, f.from_csv(f.col(TEXT), f.lit(ddl), dialect.parser_options()))
    return parsed


def _value(field: Field, text_of: Mapping[str, str]) -> str:
    if field.name not in text_of:
        return f"CAST(NULL AS {field.type})"
    return from_text(text_of[field.name], field.type)


def _problem(count: int, dialect: Dialect) -> str:
    """A quote that is not closed is malformed here: the parser would take the rest of the line as the value."""
    return f"""CASE WHEN _broken THEN 'the line is not valid UTF-8'
                    WHEN {_occurrences(dialect.quote)} % 2 = 1 THEN 'a quote is not closed'
                    WHEN _j IS NULL OR _j._corrupt IS NOT NULL THEN 'the line does not have {count} fields' END"""


def _occurrences(text: str) -> str:
    return f"(length({TEXT}) - length(replace({TEXT}, {text_sql(text)}, '')))"
