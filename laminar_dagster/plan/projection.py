"""A windowed query without an aggregate, as one with: what it needs of its rows is kept as groups with a count.

Equal rows of a pane are one row of state, and come out as often as they went in. So projections, filters and rankings
run on the same state, through the same epochs, as every other view.
"""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.expressions import Column, Expression, Named, replaced
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.ranking import ranking_over, values_kept
from laminar_dagster.semantics.spark_sql import display

COPIES = "a0"


def counted(query: Query) -> Query:
    """The query as it is, or, if it only chooses rows, grouped by everything that its output needs of them."""
    if query.window is None or query.is_grouped:
        return query
    values = values_kept(query)
    keys: dict[Expression, Expression] = {value: Column(f"k{i}", value.type) for i, value in enumerate(values)}
    copies = AggregateCall(COPIES, AGGREGATES["count"].kernel(), (), None, "COUNT(*)")
    return replace(
        query,
        keys=tuple(Named(display(value), value) for value in values),
        aggregates=(copies,),
        output=tuple(Named(named.name, replaced(named.expression, keys)) for named in query.output),
        ranking=None if query.ranking is None else ranking_over(query.ranking, keys),
        is_grouped=True,
        repeats=COPIES,
    )
