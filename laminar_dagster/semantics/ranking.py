"""ROW_NUMBER(): the rows of a part of a window in an order that follows from their values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cmp_to_key, partial
from typing import Any

from laminar_dagster.semantics.aggregates import Ordering
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, columns_of, replaced
from laminar_dagster.semantics.judging import holds
from laminar_dagster.semantics.query import RANK, WINDOW_END, WINDOW_START, Query, Ranking
from laminar_dagster.semantics.zset import Row, canonical

NOT_OF_THE_ROW = frozenset({WINDOW_START, WINDOW_END, RANK})
_ASCENDING = Ordering()


def values_kept(query: Query) -> tuple[Expression, ...]:
    """What has to be kept of each row of a query that does not group, in the order in which its SQL mentions it."""
    numbered_by = query.ranking.expressions if query.ranking is not None else ()
    return values_of_rows([*(named.expression for named in query.output), *numbered_by])


def values_of_rows(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    """What these expressions need of a row, each part once."""
    return tuple(dict.fromkeys(part for expression in expressions for part in _of_the_row(expression)))


def _of_the_row(expression: Expression) -> list[Expression]:
    """The greatest parts of an expression that need nothing but the row."""
    if isinstance(expression, Literal):
        return []
    if not columns_of(expression) & NOT_OF_THE_ROW:
        return [expression] if columns_of(expression) else []
    if isinstance(expression, Call):
        return [part for argument in expression.args for part in _of_the_row(argument)]
    return []


def ranking_over(ranking: Ranking, by: Mapping[Expression, Expression]) -> Ranking:
    """The ranking with whatever part of it `by` knows put in other words."""
    return replace(
        ranking,
        partition=tuple(replaced(part, by) for part in ranking.partition),
        order=tuple((replaced(key, by), ordering) for key, ordering in ranking.order),
        where=None if ranking.where is None else replaced(ranking.where, by),
    )


def ties(query: Query) -> tuple[Expression, ...]:
    """What tells rows apart that the ORDER BY leaves equal, in this order, NULL first."""
    if query.is_grouped:
        return tuple(Column(f"k{i}", key.type) for i, key in enumerate(query.keys))
    return values_kept(query)


def numbered(query: Query, ranking: Ranking, rows: Sequence[Row]) -> list[Row]:
    """The rows that the ranking keeps, each with its number."""
    parts: dict[Any, list[Row]] = {}
    for row in rows:
        part = tuple(canonical(evaluate(expression, row)) for expression in ranking.partition)
        parts.setdefault(part, []).append(row)
    keys = [*ranking.order, *((tie, _ASCENDING) for tie in ties(query))]
    chosen: list[Row] = []
    for members in parts.values():
        in_order = sorted(members, key=cmp_to_key(partial(_compared, keys)))
        first = [{**row, RANK: number} for number, row in enumerate(in_order[: ranking.limit], start=1)]
        chosen += [row for row in first if holds(ranking.where, row)]
    return chosen


def _compared(keys: Sequence[tuple[Expression, Ordering]], a: Row, b: Row) -> int:
    return next((c for key, by in keys if (c := by.compare(evaluate(key, a), evaluate(key, b)))), 0)
