"""Which columns of the sources each column of a view is made of, by the plan alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from laminar_dagster.plan.plan import Plan, key_column
from laminar_dagster.semantics.expressions import Expression, columns_of
from laminar_dagster.semantics.query import RANK, WINDOW_END, WINDOW_START, Input, Query

SourceColumn = tuple[str, str]


def column_lineage(plan: Plan) -> dict[str, tuple[SourceColumn, ...]]:
    """The view's columns in order, each with the (source, column) pairs whose values it follows from."""
    query = plan.query
    return {named.name: _origins(query, columns_of(named.expression)) for named in query.output}


def _origins(query: Query, names: Iterable[str]) -> tuple[SourceColumn, ...]:
    common = _common_columns(query, names)
    pairs = {(entry.source.name, column) for entry in query.inputs for column in _source_columns(entry, common)}
    return tuple(sorted(pairs))


def _common_columns(query: Query, names: Iterable[str]) -> set[str]:
    """What keys, results and ranks stand for, in columns that the inputs have in common."""
    parts = _parts(query)
    found: set[str] = set()
    for name in names:
        if name == RANK and query.ranking is not None:
            ranked = {column for expression in query.ranking.expressions for column in columns_of(expression)}
            found |= _common_columns(query, ranked)
        else:
            found |= {column for e in parts[name] for column in columns_of(e)} if name in parts else {name}
    return found


def _parts(query: Query) -> Mapping[str, tuple[Expression, ...]]:
    keys = {key_column(i): (key.expression,) for i, key in enumerate(query.keys)}
    filters = {call.id: () if call.filter is None else (call.filter,) for call in query.aggregates}
    return {**keys, **{call.id: (*call.arguments, *filters[call.id]) for call in query.aggregates}}


def _source_columns(entry: Input, common: Iterable[str]) -> set[str]:
    """The bounds of a window follow from the event time."""
    handed_on = {named.name: named.expression for named in entry.columns}
    times = dict.fromkeys((WINDOW_START, WINDOW_END), entry.event_time)
    known = {**times, **handed_on}
    return {column for name in common if name in known for column in columns_of(known[name])}
