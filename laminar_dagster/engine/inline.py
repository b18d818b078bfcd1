"""Small tables that the driver hands to Spark, as VALUES in SQL: `createDataFrame` would start Python workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.functions import literal_sql
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def inline_table(spark: SparkSession, columns: Mapping[str, DataType], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """The rows as a frame that joins by broadcast."""
    types = list(columns.values())
    values = ", ".join(
        "(" + ", ".join(literal_sql(Literal(v, type_)) for v, type_ in zip(row, types, strict=True)) + ")"
        for row in rows
    )
    names = ", ".join(f"CAST(c{i} AS {type_}) AS {quoted(n)}" for i, (n, type_) in enumerate(columns.items()))
    plain = ", ".join(f"c{i}" for i in range(len(types)))
    return spark.sql(f"SELECT {names} FROM VALUES {values} AS t({plain})").hint("broadcast")
