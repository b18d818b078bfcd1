"""Numbers the rows of a window, and keeps no more of them in the state than can still be among the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.plan.plan import Plan, key_column, partial_column
from laminar_dagster.semantics.aggregates import Ordering
from laminar_dagster.semantics.expressions import Expression, columns_of
from laminar_dagster.semantics.query import RANK, WINDOW_END, WINDOW_START, Query, Ranking
from laminar_dagster.semantics.spark_sql import quoted, value_sql
from laminar_dagster.semantics.windows import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEFORE = "_before"
_BOUNDS = frozenset({WINDOW_START, WINDOW_END})


def ranked(query: Query, finished: DataFrame) -> DataFrame:
    """The results that the ranking keeps, with how many come before; those that have no value are not numbered.

    A row that stands there several times counts as often, and may be kept in part.
    """
    ranking = query.ranking
    if ranking is None:
        return finished
    copies = query.repeats or "1L"
    parts = ["_reason IS NULL", *(value_sql(part) for part in ranking.partition)]
    columns = [name for name in finished.columns if name not in ("_reason", query.repeats)]
    numbered = finished.selectExpr("*", f"{_rows_before(query, ranking.order, parts, copies)} AS {BEFORE}")
    if ranking.limit is not None:
        numbered = numbered.filter(f"_reason IS NOT NULL OR {BEFORE} < {ranking.limit}L")
        copies = f"least({copies}, {ranking.limit}L - {BEFORE})"
    kept = [] if query.repeats is None else [f"{copies} AS {query.repeats}"]
    return numbered.selectExpr(*columns, BEFORE, *kept, f"{_reason(ranking)} AS _reason")


def _reason(ranking: Ranking) -> str:
    if ranking.where is None:
        return "_reason"
    return f"coalesce(_reason, CASE WHEN NOT coalesce({value_sql(ranking.where)}, false) THEN '' END)"


def rank_sql(query: Query) -> str:
    """The row's number, where each copy of a row stands by itself as `_copy`."""
    return f"CAST({BEFORE} + {'1L' if query.repeats is None else '_copy'} AS INT) AS {quoted(RANK)}"


def trimmed(plan: Plan, frame: DataFrame) -> DataFrame:
    """Partials without the rows that enough others of their pane come before: no window will ever show them."""
    ranking = plan.query.ranking
    if ranking is None or ranking.limit is None or not _can_trim(plan.query, ranking):
        return frame
    within = [name for name in frame.columns if name not in (*plan.layout.key_columns, *plan.layout.partial_columns)]
    parts = [*within, *(value_sql(part) for part in ranking.partition if not columns_of(part) & _BOUNDS)]
    order = [(key, ordering) for key, ordering in ranking.order if not columns_of(key) & _BOUNDS]
    copies = partial_column(str(plan.query.repeats), "n")
    numbered = frame.selectExpr("*", f"{_rows_before(plan.query, order, parts, copies)} AS {BEFORE}")
    return numbered.filter(f"{BEFORE} < {ranking.limit}L").drop(BEFORE)


def _can_trim(query: Query, ranking: Ranking) -> bool:
    """Only rows that are kept as they came, never to be taken back, and numbered by what a pane tells of them."""
    if query.repeats is None or isinstance(query.window, Session):
        return False
    if any(entry.source.takes_retractions for entry in query.inputs):
        return False
    numbered_by = [*ranking.partition, *(key for key, _ in ranking.order)]
    return all(not columns_of(part) & _BOUNDS or columns_of(part) <= _BOUNDS for part in numbered_by)


def _rows_before(query: Query, order: Sequence[tuple[Expression, Ordering]], parts: Sequence[str], copies: str) -> str:
    by = [_order_sql(value_sql(key), ordering) for key, ordering in order]
    by += [_order_sql(key_column(i), Ordering()) for i in range(len(query.keys))]
    ordered = f"ORDER BY {', '.join(by)}" if by else "ORDER BY 1"
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"coalesce(sum({copies}) OVER (PARTITION BY {', '.join(parts)} {ordered} {frame}), 0L)"


def _order_sql(value: str, ordering: Ordering) -> str:
    direction = "DESC" if ordering.descending else "ASC"
    return f"{value} {direction} NULLS {'FIRST' if ordering.nulls_first else 'LAST'}"
