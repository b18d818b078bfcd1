"""Gets a frame's rows into Parquet files below a table; a commit makes them part of it later.

Up to some hundred thousand rows it is quicker to bring them to the driver as Arrow and write them here than to run
Spark's write job: 0.6 to 0.7 of an epoch's time, measured at 1,000 to 200,000 rows a batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.counting import Counting
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.memory import arrow_type
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.spark_sql import quoted, value_sql
from state_store import DataFile
from state_store.parquet import data_files, describe

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

BROUGHT_ROWS = 300_000


def write_frame(
    runtime: Runtime,
    name: str,
    frame: DataFrame,
    *,
    rows: int,
    folder: str = "",
    partition_by: str | None = None,
    constants: Mapping[str, Literal] | None = None,
    batch: str | None = None,
) -> list[DataFile]:
    """Write a frame of at most about `rows` rows, with columns that are the same in every row.

    Those are given apart because a literal that changes from epoch to epoch makes Spark compile the query anew.
    `batch` is the folder below the table that the files go to; by default it is the epoch's.
    """
    root = runtime.store.table(name).root
    target = root / (batch or f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}")
    if rows <= BROUGHT_ROWS:
        files = _bring(frame, constants or {}, root, target / folder, partition_by)
    else:
        written = _let_spark_write(runtime, frame, constants or {}, target / folder, partition_by)
        files = data_files(root, target.name)
        _require_all(written, files, target)
    runtime.store.after_write(f"{name} files")
    return [file for file in files if file.rows]


def _let_spark_write(
    runtime: Runtime, frame: DataFrame, constants: Mapping[str, Literal], path: Path, partition_by: str | None
) -> int:
    """Gives how many rows the tasks have written. Nothing is shuffled behind the count, so no row counts twice."""
    whole = frame.selectExpr("*", *(f"{value_sql(value)} AS {quoted(name)}" for name, value in constants.items()))
    name = f"written_{uuid.uuid4().hex[:8]}"
    counting = Counting(runtime.spark, whole, name, {"rows": "count(*)"})
    writer = counting.frame.write.mode("append")
    (writer.partitionBy(partition_by) if partition_by else writer).parquet(str(path))
    return counting.numbers()["rows"]


def _require_all(written: int, files: Sequence[DataFile], folder: Path) -> None:
    """What executors have written must be seen here: a listing that is empty is not an epoch without rows."""
    seen = sum(file.rows for file in files)
    if seen != written:
        raise LaminarError(
            "LMR0515",
            f"Spark wrote {written} rows, and this process finds {seen} of them",
            detail=f"written to: {folder}",
            hint="The data directory must be at the same path, on the same disk, for this process and for every "
            "executor of Spark. Set `data` to such a folder, or run Spark on this machine.",
            committed="Nothing of this epoch is committed; all earlier epochs stand.",
        )


def _bring(
    frame: DataFrame, constants: Mapping[str, Literal], root: Path, path: Path, partition_by: str | None
) -> list[DataFile]:
    table = with_constants(nullable(frame.toArrow()), constants)
    return [_write_part(root, path / part, rows) for part, rows in _parts(table, partition_by)]


def with_constants(table: pa.Table, constants: Mapping[str, Literal]) -> pa.Table:
    for name, constant in constants.items():
        column = pa.repeat(pa.scalar(constant.value, arrow_type(constant.type)), table.num_rows)
        table = table.append_column(name, column)
    return table


def nullable(table: pa.Table) -> pa.Table:
    """Whether Spark knows a column to have no NULL must not show in a file's schema: it may differ next time."""
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def write_table(runtime: Runtime, name: str, table: pa.Table, partition_by: str | None = None) -> list[DataFile]:
    """Write rows that are at hand already, a file for each partition."""
    if not table.num_rows:
        return []
    root = runtime.store.table(name).root
    target = root / f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}"
    files = [_write_part(root, target / part, rows) for part, rows in _parts(table, partition_by)]
    runtime.store.after_write(f"{name} files")
    return files


def _write_part(root: Path, folder: Path, table: pa.Table) -> DataFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-0.parquet"
    pq.write_table(table, path)
    return describe(root, path)


def _parts(table: pa.Table, partition_by: str | None) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each value of the partition column, under the folder that spells it."""
    if not table.num_rows:
        return
    if partition_by is None:
        yield "", table
        return
    ordered = table.sort_by(partition_by)
    inside = ordered.drop_columns([partition_by])
    start = 0
    for entry in pc.value_counts(ordered.column(partition_by)).to_pylist():
        yield partition_folder(partition_by, str(entry["values"])), inside.slice(start, entry["counts"])
        start += entry["counts"]


def partition_folder(name: str, value: str) -> str:
    """The folder of a partition, its value spelt as Spark would."""
    return f"{name}={value.replace(':', '%3A')}"
