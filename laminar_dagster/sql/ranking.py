"""ROW_NUMBER() OVER (…), and what keeps the first rows: the query around it, or QUALIFY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, NotWiredError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import Ordering
from laminar_dagster.semantics.expressions import Column, Expression, Literal
from laminar_dagster.semantics.query import RANK, WINDOW_END, WINDOW_START, Ranking
from laminar_dagster.semantics.windows import Cumulate, Session
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.names import refuse_extras
from laminar_dagster.sql.nodes import Plus
from laminar_dagster.sql.statements import ViewStatement
from laminar_dagster.sql.windows import Windowing

ROW_NUMBER = Column(RANK, t.INT)
# How `number ? literal` bounds the number; the other way round is read as its mirror image.
_LIMITS: dict[type, Callable[[int], int | None]] = {
    exp.LTE: lambda n: n,
    exp.LT: lambda n: n - 1,
    exp.EQ: lambda n: 1 if n == 1 else None,
}
_MIRRORED: dict[type, type] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}


@dataclass(frozen=True)
class Layers:
    """The query that reads the window, and the one around it that keeps the first rows of each part."""

    inner: Any
    outer: Any | None = None
    subquery: Any | None = None
    name: str | None = None


def layers(view: ViewStatement, select: Any) -> Layers:
    """A query and the one in its FROM, where that one numbers rows; else the query alone."""
    clause = select.args.get("from_")
    node = clause.this if clause is not None else None
    if isinstance(node, exp.Subquery) and _numbers(node.this):
        return Layers(node.this, select, node, node.alias or None)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        ctes = view.query.args["with_"].expressions if view.query.args.get("with_") is not None else []
        found = next((cte for cte in ctes if cte.alias.lower() == node.name.lower() and _numbers(cte.this)), None)
        if found is not None:
            return Layers(found.this, select, None, node.alias or node.name)
    return Layers(select)


def _numbers(query: Any) -> bool:
    return isinstance(query, exp.Select) and any(window_call(item) is not None for item in query.expressions)


def window_call(item: Any) -> Any | None:
    """The function with OVER that an item of SELECT is."""
    node = item.this if isinstance(item, exp.Alias) else item
    return node if isinstance(node, exp.Window) else None


# --- OVER ----------------------------------------------------------------------------------------------------


@dataclass
class OverReader:
    """Reads ROW_NUMBER() OVER (…) of one query. `shown` turns an expression into one over the query's output."""

    r: Resolver
    shown: Callable[[Expression, Any], Expression]
    windowing: Windowing | None
    keyed: bool
    found: Ranking | None = None
    where: Span | None = None

    def read(self, node: Any) -> Column:
        """The column that holds the number."""
        self._check_call(node)
        partition = tuple(self._value(part) for part in node.args.get("partition_by") or [])
        ranking = Ranking(partition, self._order(node))
        if self.found is not None and self.found != ranking:
            raise LaminarError(
                "LMR0012", "a query numbers its rows once", where=self.r.at(node), hint="Make one view for each order."
            )
        self._check_partition(node, partition)
        self.found, self.where = ranking, self.r.at(node)
        return ROW_NUMBER

    def _check_call(self, node: Any) -> None:
        call = node.this
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "ROW_NUMBER":
            raise NotWiredError(
                "LMR0904",
                "functions with OVER (…) other than ROW_NUMBER are part of the language, but this version cannot run "
                "them yet",
                where=self.r.at(node),
                hint="ROW_NUMBER() OVER (PARTITION BY window_start, … ORDER BY …) works today.",
            )
        if call.expressions:
            raise LaminarError("LMR0107", "ROW_NUMBER takes no arguments", where=self.r.at(node))
        refuse_extras(node, {"this", "partition_by", "order", "over"}, self.r.at)

    def _value(self, node: Any) -> Expression:
        found = self.shown(self.r.resolve(node), node)
        if found.type.name.startswith("MAP<") or found.type == t.NULL:
            raise LaminarError("LMR0105", f"rows cannot be told apart by {found.type}", where=self.r.at(node))
        return found

    def _order(self, node: Any) -> tuple[tuple[Expression, Ordering], ...]:
        clause = node.args.get("order")
        if clause is None:
            raise LaminarError(
                "LMR0012", "ROW_NUMBER without ORDER BY numbers rows as they happen to come", where=self.r.at(node),
                hint="Say which rows come first: OVER (PARTITION BY … ORDER BY …).",
            )  # fmt: skip
        refuse_extras(clause, {"expressions"}, self.r.at)
        found: list[tuple[Expression, Ordering]] = []
        for item in clause.expressions:
            refuse_extras(item, {"this", "desc", "nulls_first"}, self.r.at)
            key = self._value(item.this)
            if isinstance(key, Literal):
                raise LaminarError("LMR0107", "ORDER BY a constant orders nothing", where=self.r.at(item))
            if key.type.name.startswith(("ARRAY<", "STRUCT<")):
                raise LaminarError("LMR0105", f"{key.type} has no order", where=self.r.at(item))
            found.append((key, Ordering(bool(item.args.get("desc")), bool(item.args.get("nulls_first")))))
        return tuple(found)

    def _check_partition(self, node: Any, partition: tuple[Expression, ...]) -> None:
        if self.windowing is None:
            raise LaminarError(
                "LMR0220", "ROW_NUMBER needs a window: without one, no row's number is ever final",
                where=self.r.at(node),
                hint="Read the source through a window: FROM TUMBLE(source, event_time, INTERVAL '1' MINUTE).",
            )  # fmt: skip
        bounds = {part.name for part in partition if isinstance(part, Column)} & {WINDOW_START, WINDOW_END}
        by_end = isinstance(self.windowing.kind, Cumulate) or (isinstance(self.windowing.kind, Session) and self.keyed)
        if not bounds or (by_end and WINDOW_END not in bounds):
            needed = WINDOW_END if by_end else WINDOW_START
            raise LaminarError(
                "LMR0220", f"PARTITION BY leaves {needed} out", where=self.r.at(node),
                detail="Rows are numbered when their window closes, so the rows of one window must be a part of their "
                "own.",
                hint=f"Add {needed} to PARTITION BY.",
            )  # fmt: skip


# --- keeping the first rows ----------------------------------------------------------------------------------


def limited(ranking: Ranking, condition: Any, is_number: Callable[[Any], bool], at: Callable[[Any], Span]) -> Ranking:
    """The ranking with the limit that one part of a condition gives. Other parts are not looked at."""
    for part in conjuncts(condition):
        if not mentions(part, is_number):
            continue
        limit = _limit(part, is_number)
        if limit is None or ranking.limit is not None:
            raise LaminarError(
                "LMR0221", "row numbers can be kept from 1 up to a constant, and in no other way", where=at(part),
                hint="Write row_number <= 3, or = 1, AND other conditions without it.",
            )  # fmt: skip
        ranking = replace(ranking, limit=limit)
    return ranking


def conjuncts(node: Any) -> Iterator[Any]:
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    else:
        yield node


def mentions(node: Any, is_number: Callable[[Any], bool]) -> bool:
    return any(is_number(part) for part in node.walk())


def _limit(node: Any, is_number: Callable[[Any], bool]) -> int | None:
    kind, left, right = type(node), node.args.get("this"), node.args.get("expression")
    if kind in _MIRRORED and is_number(right):
        kind, left, right = _MIRRORED[kind], right, left
    right = right.this if isinstance(right, Plus) else right
    written = right.name if isinstance(right, exp.Literal) and not right.is_string else ""
    if kind not in _LIMITS or not is_number(left) or not written.isdigit():
        return None
    limit = _LIMITS[kind](int(written))
    return limit if limit is not None and limit >= 1 else None


def qualified(select: Any, over: OverReader) -> Ranking | None:
    """The query's ranking, with QUALIFY: ROW_NUMBER() OVER (…) <= n, or the column that holds the number."""
    clause, at = select.args.get("qualify"), over.r.at
    if clause is None:
        return over.found
    names = {item.alias.lower() for item in select.expressions if window_call(item) is not None and item.alias}

    def is_number(node: Any) -> bool:
        return isinstance(node, exp.Window) or (
            isinstance(node, exp.Column) and not node.table and node.name.lower() in names
        )

    for part in conjuncts(clause.this):
        if not mentions(part, is_number):
            raise LaminarError(
                "LMR0221", "QUALIFY chooses by row number", where=at(part),
                hint="Put other conditions in WHERE or HAVING.",
            )  # fmt: skip
    for node in clause.find_all(exp.Window):
        over.read(node)
    assert over.found is not None
    return limited(over.found, clause.this, is_number, at)
