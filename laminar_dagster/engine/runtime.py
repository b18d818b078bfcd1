"""What the steps of an epoch share: the plan, the session, the store, the sources, and the clocks between epochs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sources.commits import Connector
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.watermark import Shard
from laminar_dagster.semantics.windows import Window
from state_store import DataFile, StoreWriter
from state_store.parquet import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_EPOCH_ROWS = 50_000


@dataclass(frozen=True)
class Clocks:
    """Event time as the last committed epoch left it."""

    watermark: int | None = None
    shards: Mapping[str, Shard] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {name: [shard.watermark, shard.active_at] for name, shard in self.shards.items()}

    @staticmethod
    def from_json(watermark: int | None, shards: Mapping[str, Any]) -> Clocks:
        return Clocks(watermark, {name: Shard(*values) for name, values in shards.items()})


@dataclass
class Runtime:
    """A view that is being run."""

    plan: Plan
    fingerprint: str
    spark: SparkSession
    store: StoreWriter
    connectors: Mapping[str, Connector]
    clocks: Clocks = field(default_factory=Clocks)
    positions: dict[str, Any] = field(default_factory=dict)
    timers: frozenset[Window] = frozenset()
    epoch: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + perf_counter() - start

    def aggregated(self, frame: DataFrame, keys: Sequence[str], results: Mapping[str, str]) -> DataFrame:
        """Group by columns; each result is an aggregate expression under its name."""
        expr = functions_of(self.spark).expr
        return frame.groupBy(*keys).agg(*(expr(sql).alias(name) for name, sql in results.items()))

    def set_parallelism(self, rows: int) -> None:
        """Few shuffle partitions for small input: each costs milliseconds, and an epoch has few to spare."""
        default = self._default_partitions()
        self.spark.conf.set("spark.sql.shuffle.partitions", "1" if rows <= SMALL_EPOCH_ROWS else default)

    def _default_partitions(self) -> str:
        if not hasattr(self, "_partitions"):
            self._partitions = str(self.spark.conf.get("spark.sql.shuffle.partitions"))
        return self._partitions

    def write(
        self, name: str, frame: DataFrame, *, folder: str = "", partition_by: tuple[str, ...] = ()
    ) -> list[DataFile]:
        """Let Spark write the frame's rows as Parquet files below a table; they are not in the table yet."""
        root = self.store.table(name).root
        target = f"e{self.epoch:010d}-{uuid.uuid4().hex[:8]}"
        path = root / target / folder if folder else root / target
        writer = frame.write.mode("append")
        (writer.partitionBy(*partition_by) if partition_by else writer).parquet(str(path))
        self.store.after_write(f"{name} files")
        return [file for file in data_files(root, target) if file.rows]


def written_schema(root: Path, files: list[DataFile], partition: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a table that begins with these files."""
    inside = pq.read_schema(root / files[0].path).remove_metadata()
    for name, type_ in partition.items():
        inside = inside.append(pa.field(name, type_))
    return inside
