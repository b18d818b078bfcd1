"""Parquet files as rows: only the declared columns, with the file each row came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.sources.commits import SourceCommit, schema_sql
from laminar_dagster.engine.sources.paths import file_url, read_exactly
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted

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

    def read(options: dict[str, str], paths: list[str]) -> DataFrame:
        reader = spark.read.options(**options)
        whole = (reader.schema(schema_sql(inside)) if inside else reader).parquet(*paths)
        return whole.selectExpr(*columns, f"_metadata.file_path AS {FILE}")

    frame = read_exactly([file.path for file in files], read)
    return _with_partition_values(spark, frame, fields, commits) if partitioned else frame


def _with_partition_values(
    spark: SparkSession, frame: DataFrame, fields: Sequence[Field], commits: Sequence[SourceCommit]
) -> DataFrame:
    """Partition columns live in the log, not in the files: bring them in by the file's name."""
    files = [file for commit in commits for file in commit.files]
    names = [name for name, _ in files[0].partition]
    rows = [(file_url(file.path), *(dict(file.partition)[name] or None for name in names)) for file in files]
    ddl = ", ".join([f"{FILE} STRING", *(f"{quoted('_p_' + name)} STRING" for name in names)])
    values = spark.createDataFrame(rows, ddl)
    joined = frame.join(values.hint("broadcast"), FILE)
    columns = [
        f"CAST({quoted('_p_' + f.name)} AS {f.type}) AS {quoted(f.name)}" if f.name in names else quoted(f.name)
        for f in fields
    ]
    return joined.selectExpr(*columns, FILE)
