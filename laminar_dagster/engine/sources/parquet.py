"""Parquet files as rows: only the declared columns, with the file each row came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from laminar_dagster.engine.column_names import PATH, held_sql
from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.sources.commits import SourceCommit, SourceFile, schema_sql
from laminar_dagster.engine.sources.paths import exactly, file_system, file_url
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import literal_sql
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import BOOLEAN, STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "_file"
METADATA = "_metadata"
# Beside the partition values of a file: that it is one of those asked for.
_ASKED, _PARTITIONED_BY = "_asked", "_p_"
# The text of a BINARY partition value in which every byte is escaped, as deltalake writes it.
_ESCAPE = r"\\u00"
_ESCAPED = r"^(\\\\u00[0-9A-Fa-f]{2})+$"


def parquet_frame(
    spark: SparkSession,
    fields: Sequence[Field],
    commits: Sequence[SourceCommit],
    stored: Mapping[str, Field] | None = None,
    own: Sequence[Field] = (),
) -> DataFrame:
    """Rows of the commits' files. `stored` has the name and type that a column has in them, where these differ.

    `own` are the engine's own columns in its own files.
    """
    files = [file for commit in commits for file in commit.files]
    columns = [(field, (stored or {}).get(field.name, field)) for field in fields]
    groups: dict[tuple[str, ...], list[SourceFile]] = {}
    for file in files:
        groups.setdefault(tuple(name for name, _ in file.partition), []).append(file)
    frames = [_rows_of(spark, columns, own, group) for group in groups.values() or [files]]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _rows_of(
    spark: SparkSession, columns: Sequence[tuple[Field, Field]], own: Sequence[Field], files: Sequence[SourceFile]
) -> DataFrame:
    """Of files that are partitioned alike: some columns are in the files, the others are in their partition values."""
    partitioned = [name for file in files[:1] for name, _ in file.partition]
    inside = [(field, stored) for field, stored in columns if stored.name not in partitioned]
    read = [*(stored for _, stored in inside), *own]
    paths = [file.path for file in files]
    reader = spark.read.options(**file_system(paths))
    whole = (reader.schema(schema_sql(read)) if read else reader).parquet(*exactly(paths))
    values = [f"{_as(quoted(stored.name), stored, field)} AS {held_sql(field.name)}" for field, stored in inside]
    values += [quoted(field.name) for field in own]
    frame = with_file(whole, values, [field.name for field in read] or whole.columns)
    return _with_partition_values(spark, frame, columns, files) if partitioned else frame


def _as(value: str, stored: Field, field: Field) -> str:
    """A cast of a STRUCT goes by position: what is nested in it gets the names that readers know."""
    return value if stored.type == field.type else f"CAST({value} AS {field.type})"


def with_file(whole: DataFrame, columns: Sequence[str], names: Iterable[str]) -> DataFrame:
    """The columns of a frame with these names, and the file of each row: as Spark tells it, not a column called so."""
    if all(name.lower() != METADATA for name in names):
        return whole.selectExpr(*columns, f"{METADATA}.file_path AS {FILE}")
    told = whole.select("*", whole.metadataColumn(METADATA).getField("file_path").alias(PATH))
    return told.selectExpr(*columns, f"{quoted(PATH)} AS {FILE}")


def _with_partition_values(
    spark: SparkSession, frame: DataFrame, columns: Sequence[tuple[Field, Field]], files: Sequence[SourceFile]
) -> DataFrame:
    """Partition columns live in the log, not in the files: bring them in by the file's name."""
    names = [name for name, _ in files[0].partition]
    rows = [(file_url(file.path), True, *(dict(file.partition)[name] or None for name in names)) for file in files]
    types = {FILE: STRING, _ASKED: BOOLEAN, **{_PARTITIONED_BY + name: STRING for name in names}}
    joined = frame.join(inline_table(spark, types, rows), FILE, "left")
    selected = [
        f"{partition_value(_of_known_file(quoted(_PARTITIONED_BY + stored.name)), field)} AS {held_sql(field.name)}"
        if stored.name in names
        else held_sql(field.name)
        for field, stored in columns
    ]
    return joined.selectExpr(*selected, f"{_of_known_file(FILE)} AS {FILE}")


def _of_known_file(value: str) -> str:
    """The job ends at a row of another file: an inner join would lose it. Whatever is read of the join asks."""
    return f"CASE WHEN {_ASKED} THEN {value} ELSE {unknown_file()} END"


def unknown_file() -> str:
    """Ends the job, and names the file."""
    said = literal_sql(Literal("[LMR0406] a row comes from a file that this epoch did not ask for: ", STRING))
    return f"CAST(raise_error({said} || {FILE}) AS STRING)"


def partition_value(text: str, field: Field) -> str:
    """A partition value out of its text in the log."""
    return _binary_value(text) if field.type.name == "BINARY" else f"CAST({text} AS {field.type})"


def _binary_value(text: str) -> str:
    """Bytes: Spark writes them as characters, deltalake escapes each."""
    text = f"CAST({text} AS STRING)"
    escaped = f"unhex(replace({text}, '{_ESCAPE}', ''))"
    return f"CASE WHEN {text} RLIKE '{_ESCAPED}' THEN {escaped} ELSE CAST({text} AS BINARY) END"
