"""SELECT and HAVING of a grouped query, and SELECT of one that only chooses rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Column, Expression, Named, replaced
from laminar_dagster.semantics.query import (
    OF_CHANGELOGS,
    RANK,
    UNUSABLE_IN_NAMES,
    AggregateCall,
    Ranking,
    stands_beside_data,
)
from laminar_dagster.semantics.ranking import values_of_rows
from laminar_dagster.semantics.spark_sql import display
from laminar_dagster.semantics.windows import Session
from laminar_dagster.sql.aggregates import Aggregates
from laminar_dagster.sql.derived_names import derived_name
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.grouping import Grouping, all_unmarked
from laminar_dagster.sql.inputs import expand_star
from laminar_dagster.sql.names import BOUNDS, Scope, is_grouped, unmarked
from laminar_dagster.sql.ranking import OverReader, qualified, window_call
from laminar_dagster.sql.statements import ViewStatement
from laminar_dagster.sql.windows import WindowUse

# What DuckDB cannot read in a file.
_UNREADABLE = "file_row_number"


@dataclass(frozen=True)
class Selected:
    output: tuple[Named, ...]
    having: Expression | None = None
    aggregates: tuple[AggregateCall, ...] = ()
    places: dict[str, Span] = field(default_factory=dict)
    is_grouped: bool = True
    ranking: Ranking | None = None


def select_grouped(
    view: ViewStatement, select: Any, rows: Scope, grouping: Grouping, aggregates: Aggregates
) -> Selected:
    scope = replace(rows, bounds=grouping.windowing is not None, hides_bounds=False)
    window = WindowUse(grouping.windowing, rows)
    output: list[Named] = []
    meanings: dict[str, Expression] = {}
    over_groups = Resolver(view, scope, "OVER", aggregates, window)
    over = OverReader(
        over_groups,
        lambda found, node: grouping.output(found, over_groups, over_groups.at(node)),
        grouping.windowing,
        keyed=bool(grouping.keys),
    )
    for item in select.expressions:
        r = Resolver(view, scope, "SELECT", aggregates, window)
        call = window_call(item)
        if call is not None:
            output.append(_numbered(item, call, over, output))
            continue
        expression = r.resolve(item.this if isinstance(item, exp.Alias) else item)
        name = _name(item, expression)
        _check_name(name, output, r.at(item))
        output.append(Named(name, _typed(grouping.output(expression, r, r.at(item)), r.at(item))))
        if isinstance(item, exp.Alias):
            meanings[name.lower()] = expression
    having = _having(view, select, scope, grouping, aggregates, window, meanings)
    ranking = qualified(select, over)
    places = {**aggregates.places, **_places_of(over)}
    if select.args.get("having") is not None:
        places["having"] = view.span(select.args["having"])
    return Selected(tuple(output), having, tuple(aggregates.calls), places, ranking=ranking)


def _numbered(item: Any, call: Any, over: OverReader, output: list[Named]) -> Named:
    if not isinstance(item, exp.Alias):
        raise LaminarError("LMR0113", "a row number needs a name", where=over.r.at(item), hint="Give it one with AS.")
    _check_name(item.alias, output, over.r.at(item))
    return Named(item.alias, over.read(call))


def _places_of(over: OverReader) -> dict[str, Span]:
    return {} if over.where is None else {"ranking": over.where}


def _having(
    view: ViewStatement, select: Any, scope: Scope, grouping: Grouping, aggregates: Aggregates,
    window: WindowUse, meanings: dict[str, Expression],
) -> Expression | None:  # fmt: skip
    clause = select.args.get("having")
    if clause is None:
        return None
    keys = {key.expression.name.lower() for key in grouping.keys if isinstance(key.expression, Column)}
    aliases = {name: meaning for name, meaning in meanings.items() if name not in keys}
    r = Resolver(view, replace(scope, aliases=aliases), "HAVING", aggregates, window)
    return grouping.output(r.condition(clause.this, "HAVING"), r, view.span(clause))


def select_rows(view: ViewStatement, select: Any, rows: Scope, grouping: Grouping) -> Selected:
    """A query that aggregates nothing: its rows wait for their window, or pass through where there is none."""
    scope = replace(rows, bounds=grouping.windowing is not None, hides_bounds=False)
    r = Resolver(view, scope, "SELECT", None, WindowUse(grouping.windowing, rows))
    over = OverReader(r, lambda found, _: all_unmarked(found), grouping.windowing, keyed=False)
    output = tuple(named for named, _ in chosen_columns(select, r, over))
    ranking = qualified(select, over)
    return Selected(output, places=_places_of(over), is_grouped=False, ranking=ranking)


def select_distinct(view: ViewStatement, select: Any, rows: Scope, grouping: Grouping) -> Selected:
    """SELECT DISTINCT: what is selected of the rows becomes the group."""
    chosen = select_rows(view, select, rows, grouping)
    if chosen.ranking is not None:
        raise LaminarError(
            "LMR0011", "DISTINCT over row numbers keeps every row", where=view.span(select),
            hint="Leave DISTINCT out.",
        )  # fmt: skip
    if grouping.windowing is not None and isinstance(grouping.windowing.kind, Session):
        raise LaminarError(
            "LMR0011", "SELECT DISTINCT is not supported over SESSION", where=view.span(select),
            hint="GROUP BY the columns whose values have sessions of their own.",
        )  # fmt: skip
    values = values_of_rows(named.expression for named in chosen.output)
    keys: dict[Expression, Expression] = {value: Column(f"k{i}", value.type) for i, value in enumerate(values)}
    for value in values:
        grouping.add_key(display(value), value)
    output = tuple(Named(named.name, replaced(named.expression, keys)) for named in chosen.output)
    return replace(chosen, output=output, is_grouped=True)


def chosen_columns(select: Any, r: Resolver, over: OverReader | None = None) -> list[tuple[Named, Span]]:
    """What SELECT lists of rows, `*` spelt out, each with its place. A bound may be named beside `*`."""
    found: list[tuple[Named, Span]] = []
    starred = False
    for item in select.expressions:
        where = r.at(item)
        call = window_call(item) if over is not None else None
        if over is not None and call is not None:
            found.append((_numbered(item, call, over, [named for named, _ in found]), where))
            continue
        earlier = [named for named, _ in found]
        columns = expand_star(item, r)
        starred = starred or bool(columns)
        for named in columns or [_row_item(item, r)]:
            if starred and named in earlier and named.name in BOUNDS:
                continue
            _check_name(named.name, earlier, where)
            found.append((named, where))
    return found


def _row_item(item: Any, r: Resolver) -> Named:
    expression = r.resolve(item.this if isinstance(item, exp.Alias) else item)
    name = _name(item, expression)
    return Named(name, _typed(all_unmarked(expression), r.at(item)))


def _name(item: Any, expression: Expression) -> str:
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Column):
        return str(item.name)
    if isinstance(expression, Column) and is_grouped(expression) and expression.type == t.TIMESTAMP:
        bound = unmarked(expression).name
        if bound.startswith("window_"):
            return bound
    return derived_name(item)


def _check_name(name: str, earlier: list[Named], where: Span) -> None:
    if any(named.name.lower() == name.lower() for named in earlier):
        raise LaminarError(
            "LMR0104", f'column "{name}" is selected twice', where=where, hint="Give one of them another name with AS."
        )
    if name.lower() in OF_CHANGELOGS:
        raise LaminarError("LMR0113", f'"{name}" is a column of every changelog', where=where, hint="Use another name.")
    if stands_beside_data(name) or name.lower() == _UNREADABLE or UNUSABLE_IN_NAMES in name:
        raise LaminarError(
            "LMR0113", f'"{name}" cannot be a column of a table of results', where=where, hint="Use another name."
        )
    if name.lower() == RANK:
        raise LaminarError("LMR0113", f'"{name}" is what a row number is called', where=where, hint="Use another name.")


def _typed(expression: Expression, where: Span) -> Expression:
    if expression.type == t.NULL:
        raise LaminarError("LMR0105", "this column is NULL without a type", where=where, hint="Write CAST(NULL AS …).")
    return expression
