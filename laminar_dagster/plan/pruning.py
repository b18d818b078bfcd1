"""Columns that nothing reads are not computed: a row is not set aside for a value that nobody asked for."""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics.expressions import Column, Expression, columns_of
from laminar_dagster.semantics.query import Input, Query


def columns_read(query: Query) -> set[str]:
    """The common columns of the inputs that the query looks at."""
    expressions: list[Expression | None] = [query.where, *(key.expression for key in query.keys)]
    for call in query.aggregates:
        expressions += [*call.arguments, call.filter]
    if query.passes_rows:
        expressions += [named.expression for named in query.output]
    return {name for expression in expressions if expression is not None for name in columns_of(expression)}


def pruned(query: Query) -> Query:
    """The query without what its inputs would compute in vain; plain columns cost nothing and stay."""
    read = columns_read(query)
    return replace(query, inputs=tuple(_pruned(entry, read) for entry in query.inputs))


def _pruned(entry: Input, read: set[str]) -> Input:
    kept = tuple(named for named in entry.columns if isinstance(named.expression, Column) or named.name in read)
    return replace(entry, columns=kept)
