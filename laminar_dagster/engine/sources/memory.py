"""A source for tests: each commit is one Parquet file, numbered; it outlives the process like any other source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.footers import Footers
from laminar_dagster.engine.sources.parquet import parquet_frame
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT, DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARROW_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def arrow_type(type_: DataType) -> pa.DataType:
    return pa.decimal128(type_.precision, type_.scale) if type_.is_decimal else ARROW_TYPES[type_.name]


class MemoryConnector:
    keeps_ledger = False

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.root = located(root, "_memory") / source.name

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def append(self, rows: Sequence[Mapping[str, Any]], order: int) -> None:
        """One commit. Values are in the engine's form: microseconds, days, Decimals."""
        columns = {f.name: _array([row.get(f.name) for row in rows], f.type) for f in self.source.columns}
        if self.source.takes_retractions:
            columns[WEIGHT_COLUMN] = pa.array([row.get(WEIGHT_COLUMN, 1) for row in rows], pa.int64())
        self.append_table(pa.table(columns), order)

    def append_table(self, table: pa.Table, order: int, position: Any = None) -> None:
        """One commit of columns that have their declared types; its number is behind `position`."""
        self.root.mkdir(parents=True, exist_ok=True)
        number = max([_number(path) + 1 for path in self._files(None)] + [position or 0])
        pq.write_table(table, self.root / f"{number:08d}-{order:08d}.parquet")

    def forget(self, position: Any) -> None:
        """Delete what was taken up to the position."""
        for path in self._files(None):
            if _number(path) < (position or 0):
                path.unlink()

    def _files(self, position: Any) -> list[Path]:
        return [path for path in sorted(self.root.glob("*.parquet")) if _number(path) >= (position or 0)]

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found: list[SourceCommit] = []
        for path in self._files(position):
            number, order = path.stem.split("-")
            plain = SourceFile(str(path), path.stat().st_size)
            files = Footers(self.source, self.source.watermark_column).of([plain])
            commit = SourceCommit(self.source.name, number, int(order), files)
            if not limit.take(commit) and found:
                break
            found.append(commit)
        return found

    def backlog(self, position: Any) -> int:
        return len(self._files(position))

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return max([int(commit.id) + 1 for commit in commits] + [position or 0])

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        weight = (Field(WEIGHT_COLUMN, BIGINT),) if self.source.takes_retractions else ()
        return parquet_frame(spark, self.fields(), commits, own=weight)


def _number(path: Path) -> int:
    return int(path.stem.split("-")[0])


def _array(values: list[Any], type_: DataType) -> pa.Array:
    if type_.is_decimal:
        values = [None if v is None else Decimal(v) for v in values]
    return pa.array(values, arrow_type(type_))
