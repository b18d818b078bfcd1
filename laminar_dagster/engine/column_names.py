"""What users' columns are called in the engine's frames: never as the engine's own, whatever they are called outside.

The engine's own columns never begin with `c_`. A column of a source has that before its name in the frame that its
connector makes, and the columns that a query reads of it are numbered. The names that a user gave stand in files, in
the SQL and in results; where results are compared, it is the engine's own columns that have a mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.expressions import Call, Column, Expression, Named
from laminar_dagster.semantics.query import UNUSABLE_IN_NAMES, AggregateCall, Input, Query
from laminar_dagster.semantics.spark_sql import quoted

USERS = "c_"
# Before the engine's own columns beside those of a result, which has its own names by then. None of these has this.
OWN = UNUSABLE_IN_NAMES
REASON, NEW, COPIES, PASSES = OWN + "reason", OWN + "new", OWN + "copies", OWN + "passes"
CHANGE_START, CHANGE_END = OWN + "start", OWN + "end"
GROUP, STATE, PATH = OWN + "group", OWN + "state", OWN + "path"
LOW, HIGH = OWN + "low", OWN + "high"


def held(name: str) -> str:
    """What a source's column is called in its connector's frame."""
    return USERS + name


def held_sql(name: str) -> str:
    return quoted(held(name))


def held_as_named(name: str) -> str:
    """The column under its own name, for what leaves the engine."""
    return f"{held_sql(name)} AS {quoted(name)}"


def over_held(expression: Expression) -> Expression:
    """An expression over a source's columns, over the connector's frame."""
    return _renamed(expression, held)


def with_numbered_columns(plan: Plan) -> Plan:
    """The plan as the engine runs it: over `c_0`, `c_1`, … in the place of the inputs' common columns."""
    query = plan.query
    names: dict[str, str] = {}
    for entry in query.inputs:
        for column in entry.columns:
            names.setdefault(column.name, f"{USERS}{len(names)}")
    return replace(plan, query=_over(query, names.__getitem__))


def _over(query: Query, name: Callable[[str], str]) -> Query:
    """Results of a query that groups are over its keys and aggregates, which have names of their own."""
    return replace(
        query,
        inputs=tuple(_input(entry, name) for entry in query.inputs),
        where=None if query.where is None else _renamed(query.where, name),
        keys=_all(query.keys, name),
        aggregates=tuple(_aggregate(call, name) for call in query.aggregates),
        output=_all(query.output, name) if query.passes_rows else query.output,
    )


def _input(entry: Input, name: Callable[[str], str]) -> Input:
    return replace(entry, columns=tuple(Named(name(c.name), c.expression) for c in entry.columns))


def _all(columns: tuple[Named, ...], name: Callable[[str], str]) -> tuple[Named, ...]:
    return tuple(Named(column.name, _renamed(column.expression, name)) for column in columns)


def _aggregate(call: AggregateCall, name: Callable[[str], str]) -> AggregateCall:
    arguments = tuple(_renamed(argument, name) for argument in call.arguments)
    return replace(call, arguments=arguments, filter=None if call.filter is None else _renamed(call.filter, name))


def _renamed(expression: Expression, name: Callable[[str], str]) -> Expression:
    if isinstance(expression, Column):
        return Column(name(expression.name), expression.type)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_renamed(a, name) for a in expression.args), expression.type)
    return expression
