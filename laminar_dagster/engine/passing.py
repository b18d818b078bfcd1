"""Rows that pass through: a query with neither a window nor a group shows each row in the epoch that brings it.

Nothing is kept of them but the table. A row that is taken back is taken out of the table: any one of those that are
equal to it, since rows have no identity of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar_dagster.engine.changelog import write_changes, write_insertions
from laminar_dagster.engine.closing import Emitted
from laminar_dagster.engine.column_names import COPIES
from laminar_dagster.engine.differences import multiset_difference
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.updating import write_rows
from laminar_dagster.engine.writing import nullable, write_frame
from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics.expressions import Literal
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.spark_sql import quoted, value_sql
from laminar_dagster.semantics.types import BIGINT, TIMESTAMP
from state_store import PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def pass_on(runtime: Runtime, planned: PlanRow, kept: DataFrame, rows: int, watermark: int | None) -> Emitted:
    """What the epoch's rows, at most so many, add to the table and to the changelog, and what they take out."""
    runtime.fit_to(rows)
    if runtime.plan.query.takes_retractions:
        return _changed(runtime, planned, kept, watermark)
    now = planned.processing_time
    constants = {"_epoch": Literal(runtime.epoch, BIGINT), "_emitted_at": Literal(now, TIMESTAMP)}
    shown = kept.selectExpr(*_selected(runtime.plan.query))
    output = write_frame(runtime, f.OUTPUT, shown, rows=rows, constants=constants)
    changes = write_insertions(runtime, output, now=now, watermark=watermark)
    return Emitted(output, [], changes=changes, rows=sum(file.rows for file in output))


def _selected(query: Query) -> list[str]:
    return [f"{value_sql(named.expression)} AS {quoted(named.name)}" for named in query.output]


def _changed(runtime: Runtime, planned: PlanRow, kept: DataFrame, watermark: int | None) -> Emitted:
    """Rows with weights: what is left of them when equal ones are added up comes in, or goes out of the table."""
    query = runtime.plan.query
    names = [named.name for named in query.output]
    weighted = kept.selectExpr(*_selected(query), WEIGHT_COLUMN)
    summed = runtime.aggregated(weighted, [quoted(name) for name in names], {quoted(COPIES): f"sum({WEIGHT_COLUMN})"})
    table = runtime.store.table(f.OUTPUT)
    shown = table.files_at(planned.tables[f.OUTPUT])
    files = dict(zip(table.absolute(shown), shown, strict=True))
    found = multiset_difference(names, nullable(summed.toArrow()), list(files))
    return Emitted(
        output=write_rows(runtime, planned, found.rows),
        failures=[],
        replaced=[files[path] for path in found.touched],
        changes=write_changes(runtime, found.changes, now=planned.processing_time, watermark=watermark),
        rows=found.changes.num_rows,
    )
