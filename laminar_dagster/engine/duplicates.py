"""Finds rows whose key came before: in an earlier epoch, as the store remembers it, or earlier in this one.

A key is remembered up to the watermark that its last time plus the source's horizon gives. What is remembered of a key
is the greatest such number, so it does not matter how rows were cut into epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME, Batch
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.unique_columns import UNIQUE, UNTIL, is_order
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import BIGINT
from state_store import DataFile, PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DUPLICATE = "_duplicate"
COMMIT = "_commit"
_SEEN = "_seen_until"
_IDENTIFIED = f"{UNIQUE} IS NOT NULL AND NOT _bad AND NOT _future AND {TIME} IS NOT NULL"


@dataclass(frozen=True)
class Remembered:
    """Files of keys that the epoch remembers, and those of which every key is forgotten."""

    new: list[DataFile] = field(default_factory=list)
    forgotten: list[DataFile] = field(default_factory=list)


def seen_keys(runtime: Runtime, planned: PlanRow) -> list[DataFile]:
    """What the epoch's plan pinned of the keys that were seen before."""
    return runtime.store.table(f.SEEN_KEYS).files_at(planned.tables.get(f.SEEN_KEYS))


def with_duplicates(runtime: Runtime, frame: DataFrame, rows: int, seen: Sequence[DataFile]) -> DataFrame:
    """So many rows, each with `_watermark` and `_commit`, told whether they are duplicates.

    The first row of a key stays: by commit, and within a commit by event time, then by the row's values.
    """
    # Rows without a key have nothing to do with each other, and must not all meet in one task.
    alone = f"CASE WHEN NOT ({_IDENTIFIED}) THEN monotonically_increasing_id() END"
    known = _known(runtime, runtime.gathered(frame, rows), seen)
    apart = known.selectExpr("*", f"{_IDENTIFIED} AS _identified", f"{alone} AS _alone")
    order = ", ".join([COMMIT, TIME, *(name for name in frame.columns if is_order(name)), "_original", FILE])
    earlier = (
        f"(PARTITION BY _alone, _source, {UNIQUE} ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    until = apart.selectExpr("*", f"greatest(max({UNTIL}) OVER {earlier}, {_SEEN}) AS _known_until")
    seen_before = "_known_until IS NOT NULL AND (_watermark IS NULL OR _known_until > _watermark)"
    return until.selectExpr(*map(quoted, frame.columns), f"_identified AND {seen_before} AS {DUPLICATE}")


def remember(runtime: Runtime, batch: Batch, seen: Sequence[DataFile], watermark: int | None) -> Remembered:
    """The epoch's keys, as far as they outlast it and are not remembered for as long already."""
    forgotten = [file for file in seen if watermark is not None and int(file.high["remembered_until"]) <= watermark]
    if batch.frame is None or not runtime.plan.query.finds_duplicates:
        return Remembered([], forgotten)
    runtime.fit_to(batch.rows)
    rows = batch.frame.filter(_IDENTIFIED)
    keys = runtime.aggregated(runtime.gathered(rows, batch.rows), ["_source", UNIQUE], {UNTIL: f"max({UNTIL})"})
    lasting = "true" if watermark is None else f"{UNTIL} > {watermark}L"
    news = _known(runtime, keys.filter(lasting), seen).filter(f"{_SEEN} IS NULL OR {UNTIL} > {_SEEN}")
    columns = news.selectExpr("_source AS source", f"{UNIQUE} AS key", f"{UNTIL} AS remembered_until")
    constants = {"epoch": Literal(runtime.epoch, BIGINT)}
    return Remembered(write_frame(runtime, f.SEEN_KEYS, columns, rows=batch.rows, constants=constants), forgotten)


def _known(runtime: Runtime, frame: DataFrame, seen: Sequence[DataFile]) -> DataFrame:
    """The rows with the watermark up to which their key is remembered; NULL if it is not."""
    if not seen:
        return frame.selectExpr("*", f"CAST(NULL AS BIGINT) AS {_SEEN}")
    table = runtime.store.table(f.SEEN_KEYS)
    schema = "source STRING, key STRING, remembered_until BIGINT"
    files = runtime.spark.read.schema(schema).parquet(*table.absolute(seen))
    stored = runtime.aggregated(
        runtime.gathered(files, sum(file.rows for file in seen)), ["source", "key"], {_SEEN: "max(remembered_until)"}
    )
    same = functions_of(runtime.spark).expr(f"_source = source AND {UNIQUE} = key")
    return frame.join(stored, same, "left").selectExpr(*map(quoted, frame.columns), _SEEN)
