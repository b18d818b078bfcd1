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
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import DataType

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
        self.root.mkdir(parents=True, exist_ok=True)
        columns = {f.name: _array([row.get(f.name) for row in rows], f.type) for f in self.source.columns}
        number = len(list(self.root.glob("*.parquet")))
        pq.write_table(pa.table(columns), self.root / f"{number:08d}-{order:08d}.parquet")

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found: list[SourceCommit] = []
        for path in sorted(self.root.glob("*.parquet"))[position or 0 :]:
            number, order = path.stem.split("-")
            plain = SourceFile(str(path), path.stat().st_size)
            files = Footers(self.source, self.source.watermark_column).of([plain])
            commit = SourceCommit(self.source.name, number, int(order), files)
            if not limit.take(commit) and found:
                break
            found.append(commit)
        return found

    def backlog(self, position: Any) -> int:
        return len(list(self.root.glob("*.parquet"))) - (position or 0)

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return (position or 0) + len(commits)

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        return parquet_frame(spark, self.fields(), commits)


def _array(values: list[Any], type_: DataType) -> pa.Array:
    if type_.is_decimal:
        values = [None if v is None else Decimal(v) for v in values]
    return pa.array(values, arrow_type(type_))
