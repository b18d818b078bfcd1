"""The side output's entries: their columns, how many of them an epoch keeps, and what its plan pins of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS, SideOutput
from state_store import PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# In a plan's sources: what of the side output's options decides which entries an epoch has.
PINNED = "side_output"
DROPPED = "side_output_dropped"


def side_output_columns(runtime: Runtime, **known: str | None) -> list[str]:
    """Every column of the table, from Spark expressions for the known ones: who sets a row aside says what it knows."""
    given = {"plan_id": f"'{runtime.fingerprint}'", "_epoch": f"{runtime.epoch}L", **known}
    return [f"CAST({given.get(c.name) or 'NULL'} AS {_spark_type(c.type)}) AS {c.name}" for c in f.SIDE_OUTPUT_SCHEMA]


def _spark_type(type_: pa.DataType) -> str:
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    return "BIGINT" if pa.types.is_integer(type_) else "STRING"


def original_of(side: SideOutput) -> str:
    """The row as it came, of the kinds that keep it."""
    without = ", ".join(f"'{kind}'" for kind in sorted(side.without_original))
    return f"CASE WHEN _kind NOT IN ({without}) THEN _original END" if without else "_original"


def pinned_options(side: SideOutput) -> dict[str, Any]:
    """What a plan says of the side output, so that a rerun keeps the same entries whatever the options are by then."""
    limit = {} if side.max_rows is None else {"max_rows": side.max_rows}
    without = {} if not side.without_original else {"without_original": sorted(side.without_original)}
    return {PINNED: {**limit, **without}} if limit or without else {}


def as_planned(side: SideOutput, planned: PlanRow) -> SideOutput:
    told = planned.sources.get(PINNED, {})
    without = frozenset(told.get("without_original", ()))
    return replace(side, max_rows=told.get("max_rows"), without_original=without)


def dropped(side: SideOutput, counts: Mapping[str, int]) -> dict[str, int]:
    """How many rows of each kind the limit leaves out; of a kind that is only counted there is nothing to leave out."""
    kept = [kind for kind in SIDE_OUTPUT_KINDS if side.keeps(kind)]
    beyond = {kind: counts.get(kind, 0) - side.max_rows for kind in kept} if side.max_rows is not None else {}
    over = {kind: rows for kind, rows in beyond.items() if rows > 0}
    return {DROPPED: sum(over.values()), **{f"{DROPPED}_{kind}": n for kind, n in over.items()}} if over else {}


def within_limit(entries: DataFrame, limit: int) -> DataFrame:
    """The first rows of each kind: by event time, those without one before all others, then by source, file, text."""
    order = f"{TIME} ASC NULLS FIRST, _source, {FILE}, _original"
    numbered = entries.selectExpr("*", f"row_number() OVER (PARTITION BY _kind ORDER BY {order}) AS _number")
    return numbered.filter(f"_number <= {limit}")
