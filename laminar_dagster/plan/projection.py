"""A windowed query without an aggregate, as one with: its rows are kept as groups with a count.

Equal rows of a pane are one row of state, and come out as often as they went in. So projections and filters run on
the same state, through the same epochs, as every other view.
"""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.expressions import Call, Column, Expression, Named, walk
from laminar_dagster.semantics.grouping import is_grouped
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, AggregateCall, Query

COPIES = "a0"


def counted(query: Query) -> Query:
    """The query as it is, or, if it only projects rows, grouped by every column that its output reads."""
    if query.window is None or is_grouped(query):
        return query
    columns = _columns_read(query)
    keys = {column.name: Column(f"k{i}", column.type) for i, column in enumerate(columns)}
    copies = AggregateCall(COPIES, AGGREGATES["count"].kernel(), (), None, "COUNT(*)")
    return replace(
        query,
        keys=tuple(Named(column.name, column) for column in columns),
        aggregates=(copies,),
        output=tuple(Named(named.name, _over_keys(named.expression, keys)) for named in query.output),
        repeats=COPIES,
    )


def _columns_read(query: Query) -> list[Column]:
    found = {
        node.name: node
        for named in query.output
        for node in walk(named.expression)
        if isinstance(node, Column) and node.name not in (WINDOW_START, WINDOW_END)
    }
    return list(found.values())


def _over_keys(expression: Expression, keys: dict[str, Column]) -> Expression:
    match expression:
        case Column(name) if name in keys:
            return keys[name]
        case Call(function, args, type_):
            return Call(function, tuple(_over_keys(argument, keys) for argument in args), type_)
        case _:
            return expression
