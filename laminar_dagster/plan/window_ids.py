"""Puts a plan's own name into its `window_id`: the SQL cannot know it, as it follows from all of the SQL."""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Column, Expression, Named, replaced
from laminar_dagster.semantics.functions.windows import window_id_call
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, Query
from laminar_dagster.semantics.ranking import ranking_over

_BOUNDS = Column(WINDOW_START, t.TIMESTAMP), Column(WINDOW_END, t.TIMESTAMP)
_NAMELESS = window_id_call("", *_BOUNDS)


def with_window_ids(query: Query, plan: str) -> Query:
    """The query with `window_id` as a hash of this plan and the window."""
    by: dict[Expression, Expression] = {_NAMELESS: window_id_call(plan, *_BOUNDS)}
    return replace(
        query,
        having=None if query.having is None else replaced(query.having, by),
        output=tuple(Named(named.name, replaced(named.expression, by)) for named in query.output),
        ranking=None if query.ranking is None else ranking_over(query.ranking, by),
    )
