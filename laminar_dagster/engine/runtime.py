"""What the steps of an epoch share: the plan, the session, the store, the sources, and the clocks between epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS = 20_000
ONE_PARTITION_ROWS = 50_000
# In a plan's sources: the watermark that the epoch is told to move to, in place of what its rows say.
TOLD = "watermark"
# In a plan's sources: the shards of which it leaves rows for the next epoch.
WAITING = "waiting"


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


@dataclass(frozen=True)
class Carried:
    """What a view that corrects itself remembers from epoch to epoch, besides its state.

    `period_began`: when EVERY last emitted. `waiting`: windows (None: the groups that have none, or sessions) whose
    changes wait for a period to pass. `failing`: groups that have no result, by hash, with their windows' ends.
    """

    period_began: int | None = None
    waiting: frozenset[Window | None] = frozenset()
    failing: Mapping[int, int | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        waiting = [None if window is None else [window.start, window.end] for window in self.waiting]
        body = {"period_began": self.period_began, "waiting": waiting, "failing": list(self.failing.items())}
        return {name: value for name, value in body.items() if value}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Carried:
        waiting = frozenset(None if bounds is None else Window(*bounds) for bounds in body.get("waiting", ()))
        return Carried(body.get("period_began"), waiting, dict(body.get("failing", ())))


@dataclass(frozen=True)
class Told:
    """A watermark that someone sets; None leaves it where it is."""

    watermark: int | None


@dataclass
class Runtime:
    """A view that is being run. `selection`: which of the rows that are read count, where not all do.

    `now` is the processing time of the epoch that is being run.
    """

    plan: Plan
    fingerprint: str
    spark: SparkSession
    store: StoreWriter
    connectors: Mapping[str, Connector]
    clocks: Clocks = field(default_factory=Clocks)
    positions: dict[str, Any] = field(default_factory=dict)
    timers: frozenset[Window] = frozenset()
    carried: Carried = field(default_factory=Carried)
    selection: Callable[[DataFrame], DataFrame] | None = None
    epoch: int = 0
    now: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    _found: dict[str, str] = field(default_factory=dict)
    _now: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + perf_counter() - start

    def aggregated(self, frame: DataFrame, keys: Sequence[str], results: Mapping[str, str]) -> DataFrame:
        """Group by columns; each result is an aggregate expression under its name."""
        if not results:
            return frame.select(*keys).distinct()
        expr = functions_of(self.spark).expr
        return frame.groupBy(*keys).agg(*(expr(f"{sql} AS {name}") for name, sql in results.items()))

    def gathered(self, frame: DataFrame, rows: int) -> DataFrame:
        """A frame of so many rows, few of them in one task: what is in one place is aggregated without a shuffle."""
        return frame.coalesce(1) if rows <= ONE_PARTITION_ROWS else frame

    def fit_to(self, rows: int) -> None:
        """Settings for a job over about so many rows.

        A small job is over before parallelism or compiled code pay: each shuffle partition costs milliseconds, each
        compilation some dozens.
        """
        small = rows <= SMALL_ROWS
        self._set("spark.sql.shuffle.partitions", "1" if rows <= ONE_PARTITION_ROWS else None)
        self._set("spark.sql.codegen.wholeStage", "false" if small else None)
        self._set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else None)

    def _set(self, name: str, value: str | None) -> None:
        """Set an option of the session, or (None) put it back to what the session came with."""
        if name not in self._found:
            self._found[name] = self._now[name] = str(self.spark.conf.get(name))
        wanted = self._found[name] if value is None else value
        if self._now[name] != wanted:
            self.spark.conf.set(name, wanted)
            self._now[name] = wanted

    def restore_session(self) -> None:
        """Leave the session as it was found: it may be shared."""
        for name, value in self._found.items():
            if self._now[name] != value:
                self.spark.conf.set(name, value)
        self._now = dict(self._found)


def written_schema(root: Path, files: list[DataFile], partition: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a table that begins with these files."""
    inside = pq.read_schema(root / files[0].path).remove_metadata()
    for name, type_ in partition.items():
        inside = inside.append(pa.field(name, type_))
    return inside
