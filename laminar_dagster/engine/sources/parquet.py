"""Parquet files as rows: only the declared columns, with the file each row came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.sources.commits import SourceCommit, schema_sql
from laminar_dagster.engine.sources.paths import exactly, file_system, file_url
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "_file"


def parquet_frame(
    spark: SparkSession,
    fields: Sequence[Field],
    commits: Sequence[SourceCommit],
    physical: dict[str, str] | None = None,
) -> DataFrame:
    """Rows of the commits' files. `physical` maps a column to its name in the files, where that differs."""
    files = [file for commit in commits for file in commit.files]
    partitioned = {name for file in files[:1] for name, _ in file.partition}
    inside = [Field((physical or {}).get(f.name, f.name), f.type) for f in fields if f.name not in partitioned]
    names = [quoted(f.name) for f in fields if f.name not in partitioned]
    columns = [f"{quoted(field.name)} AS {name}" for field, name in zip(inside, names, strict=True)]
    paths = [file.path for file in files]
    reader = spark.read.options(**file_system(paths))
    whole = (reader.schema(schema_sql(inside)) if inside else reader).parquet(*exactly(paths))
    frame = whole.selectExpr(*columns, f"_metadata.file_path AS {FILE}")
    return _with_partition_values(spark, frame, fields, commits) if partitioned else frame


def _with_partition_values(
    spark: SparkSession, frame: DataFrame, fields: Sequence[Field], commits: Sequence[SourceCommit]
) -> DataFrame:
    """Partition columns live in the log, not in the files: bring them in by the file's name."""
    files = [file for commit in commits for file in commit.files]
    names = [name for name, _ in files[0].partition]
    rows = [(file_url(file.path), *(dict(file.partition)[name] or None for name in names)) for file in files]
    joined = frame.join(inline_table(spark, {FILE: STRING, **{f"_p_{name}": STRING for name in names}}, rows), FILE)
    columns = [
        f"CAST({quoted('_p_' + f.name)} AS {f.type}) AS {quoted(f.name)}" if f.name in names else quoted(f.name)
        for f in fields
    ]
    return joined.selectExpr(*columns, FILE)
