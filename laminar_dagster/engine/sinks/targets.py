"""What a target is to the engine: something that takes a view's changes, one epoch at a time and in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from laminar_dagster.semantics.sinks import DeclaredSink
from state_store.changelog import data_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Delivery:
    """The changes of one epoch, for one sink.

    `rows` is a changelog: `_epoch`, `_seq`, `_op`, `_weight`, `_event_time`, `_emitted_at`, then the view's columns; in
    the order of `_seq`, never without rows, and the same rows whenever the epoch is delivered again. Of a view that
    only appends every `_op` is `+I`. Of a sink of side output it has `_epoch`, `_seq` and the entries' columns.
    `snapshot`: the rows stand for all epochs up to this one. `after` is the epoch of the delivery before; 0: this is
    the first. `spark` is the run's session, for targets that write through it.
    """

    epoch: int
    rows: pa.Table
    spark: Callable[[], SparkSession]
    snapshot: bool = False
    after: int = 0

    @property
    def data(self) -> pa.Table:
        """The view's own columns."""
        return self.rows.select(data_columns(self.rows.column_names))


@dataclass(frozen=True)
class Surroundings:
    """Where a sink's project is, and what is told after each write (tests stop a run there)."""

    project: Path
    after_write: Callable[[str], None] = lambda _: None

    @property
    def database(self) -> str:
        """What the project is called in envelopes and in other systems' logs."""
        return self.project.name


class Target(Protocol):
    """Made from a sink and its surroundings: `KafkaTarget(sink, surroundings)`."""

    def deliver(self, delivery: Delivery) -> None:
        """Write an epoch's changes. It may be called again for an epoch whose delivery was cut short."""

    def landed(self) -> int | None:
        """The last epoch that the target itself says it has; None where it cannot say."""


MakeTarget = Callable[[DeclaredSink, Surroundings], Target]
