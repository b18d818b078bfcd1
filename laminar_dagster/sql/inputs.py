"""FROM: sources, subqueries and UNION ALL as branches, each over the columns of one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, NotWiredError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression, Named, columns_of, follows_from, replaced
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.sql.catalog import Catalog
from laminar_dagster.sql.clause_refusals import (
    ALIAS_REASONS,
    SELECT_REASONS,
    TABLE_REASONS,
    refuse_joins,
    refuse_recursive,
)
from laminar_dagster.sql.derived_names import derived_name
from laminar_dagster.sql.dialect import WINDOW_FUNCTIONS
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.names import BOUNDS, Scope, refuse_extras, substitute, unmarked
from laminar_dagster.sql.statements import ViewStatement
from laminar_dagster.sql.windows import Windowing, read_window


@dataclass(frozen=True)
class Branch:
    """One source, the columns it hands on in terms of its own, and the rows it keeps."""

    source: Source
    columns: tuple[Named, ...]
    where: Expression | None
    place: Span

    def said_by(self, position: int, field: Field) -> Expression | None:
        """The source's event time as a function of one of the columns handed on, if that is no time itself."""
        column, time = self.columns[position].expression, self.source.event_time
        if time is None or field.type == t.TIMESTAMP or not columns_of(column) or not follows_from(time, column):
            return None
        return replaced(time, {column: Column(field.name, field.type)})


@dataclass(frozen=True)
class Relation:
    branches: tuple[Branch, ...]
    qualifiers: frozenset[str]
    described: str

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(named.name, named.type) for named in self.branches[0].columns)

    def scope(self) -> Scope:
        return Scope(self.fields, self.qualifiers, self.described, times=self._times())

    def _times(self) -> dict[str, Expression]:
        """Columns that are not times themselves, and from which the event time of every branch follows."""
        found: dict[str, Expression] = {}
        for position, field in enumerate(self.fields):
            said = {branch.said_by(position, field) for branch in self.branches}
            time = said.pop()
            if time is not None and not said:
                found[field.name] = time
        return found

    def named(self, alias: str | None) -> Relation:
        if not alias:
            return self
        return replace(self, qualifiers=frozenset({alias.lower()}))


@dataclass
class From:
    """Reads the FROM clauses of one view."""

    view: ViewStatement
    catalog: Catalog

    def read(self, select: Any, ctes: Mapping[str, Relation]) -> tuple[Relation, Any]:
        """The relation that a query's FROM says, and the call of its window if FROM has one."""
        refuse_joins(select, self.view, self._exists(ctes))
        clause = select.args.get("from_")
        if clause is None:
            raise LaminarError("LMR0011", "a view reads from a source", where=self.view.span(select), hint="Add FROM.")
        node = clause.this
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            return self._windowed(node, ctes)
        return self._relation(node, ctes), None

    def with_ctes(self, query: Any, outer: Mapping[str, Relation], but: Any = None) -> Mapping[str, Relation]:
        """The relations that WITH names, but for one that is read elsewhere."""
        clause = query.args.get("with_")
        ctes = dict(outer)
        if clause is None:
            return ctes
        refuse_recursive(clause, self.view)
        for cte in clause.expressions:
            refuse_extras(cte, {"this", "alias"}, self.view.span)
            refuse_extras(cte.args["alias"], {"this"}, self.view.span, ALIAS_REASONS)
            if cte.this is but:
                continue
            ctes[cte.alias.lower()] = self._query(cte.this, ctes).named(cte.alias)
        return ctes

    def _exists(self, ctes: Mapping[str, Relation]) -> Any:
        def check(table: Any) -> None:
            if (
                isinstance(table, exp.Table)
                and isinstance(table.this, exp.Identifier)
                and table.name.lower() not in ctes
            ):
                self.catalog.source(table.name, self.view.span(table))

        return check

    # --- windows in FROM -------------------------------------------------------------------------------------

    def window(self, call: Any, relation: Relation) -> Windowing:
        """The window that stands in FROM, over the relation with its event times."""
        name, where = call.name.upper(), self.view.span(call)
        kind, time = read_window(Resolver(self.view, relation.scope(), name), name, call.expressions[1:], where)
        return Windowing(kind, time, where, in_from=True)

    def _windowed(self, node: Any, ctes: Mapping[str, Relation]) -> tuple[Relation, Any]:
        call, where = node.this, self.view.span(node.this)
        refuse_extras(node, {"this", "alias"}, self.view.span, TABLE_REASONS)
        name = call.name.upper()
        if name not in WINDOW_FUNCTIONS or not call.expressions:
            raise LaminarError(
                "LMR0013", f"{name} is not a table function", where=where,
                hint=did_you_mean(name, WINDOW_FUNCTIONS, f"The functions in FROM are {', '.join(WINDOW_FUNCTIONS)}."),
            )  # fmt: skip
        return self._window_source(call.expressions[0], ctes).named(self._alias(node)), call

    def _window_source(self, node: Any, ctes: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
            return self._named(node.name, self.view.span(node), ctes)
        if isinstance(node, (exp.Table, exp.Subquery, exp.Select, exp.SetOperation)):
            return self._relation(node, ctes)
        raise LaminarError(
            "LMR0013", "a window reads a source or a query in parentheses", where=self.view.span(node),
            hint="Write TUMBLE(source, event_time, INTERVAL '1' MINUTE).",
        )  # fmt: skip

    # --- relations -------------------------------------------------------------------------------------------

    def _relation(self, node: Any, ctes: Mapping[str, Relation]) -> Relation:
        where = self.view.span(node)
        if isinstance(node, exp.Table):
            refuse_extras(node, {"this", "alias"}, self.view.span, TABLE_REASONS)
            if isinstance(node.this, exp.Anonymous):
                raise _nested_window(self.view.span(node.this))
            return self._named(node.name, where, ctes).named(self._alias(node))
        if isinstance(node, exp.Subquery):
            refuse_extras(node, {"this", "alias", "with_"}, self.view.span, SELECT_REASONS)
            return self._query(node.this, self.with_ctes(node, ctes)).named(self._alias(node))
        if isinstance(node, (exp.Select, exp.SetOperation)):
            return self._query(node, ctes)
        raise LaminarError("LMR0013", "FROM takes a source, a window or a query", where=where)

    def _alias(self, node: Any) -> str | None:
        alias = node.args.get("alias")
        if alias is None:
            return None
        refuse_extras(alias, {"this"}, self.view.span, ALIAS_REASONS)
        return str(alias.name) or None

    def _named(self, name: str, where: Span, ctes: Mapping[str, Relation]) -> Relation:
        if name.lower() in ctes:
            return ctes[name.lower()]
        source = self.catalog.source(name, where)
        columns = tuple(Named(f.name, Column(f.name, f.type)) for f in source.columns)
        branch = Branch(source, (*columns, *source.computed), None, where)
        return Relation((branch,), frozenset({name.lower()}), f'source "{source.name}"')

    def _query(self, node: Any, outer: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Subquery):
            return self._relation(node, outer)
        ctes = self.with_ctes(node, outer)
        if isinstance(node, exp.Union):
            return self._union(node, ctes)
        if isinstance(node, exp.Select):
            return self._projection(node, ctes)
        raise LaminarError("LMR0011", "only UNION ALL puts two queries together here", where=self.view.span(node))

    def _union(self, node: Any, ctes: Mapping[str, Relation]) -> Relation:
        where = self.view.span(node)
        refuse_extras(node, {"this", "expression", "distinct", "with_"}, self.view.span, SELECT_REASONS)
        if node.args.get("distinct") is not False:
            raise LaminarError(
                "LMR0011", "UNION without ALL removes duplicates, and that is not supported", where=where,
                hint="Write UNION ALL.",
            )  # fmt: skip
        left, right = self._query(node.this, ctes), self._query(node.expression, ctes)
        if len(left.fields) != len(right.fields):
            raise LaminarError(
                "LMR0112",
                f"the queries of UNION ALL have {len(left.fields)} and {len(right.fields)} columns",
                where=where,
            )
        return self._merged(left, right, where)

    def _merged(self, left: Relation, right: Relation, where: Span) -> Relation:
        target: list[Field] = []
        for a, b in zip(left.fields, right.fields, strict=True):
            type_ = t.common_type([a.type, b.type])
            if type_ is None:
                raise LaminarError(
                    "LMR0112", f'column "{a.name}" is {a.type} in one query of UNION ALL and {b.type} in another',
                    where=where, hint="CAST one of them.",
                )  # fmt: skip
            target.append(Field(a.name, type_))
        branches = tuple(_as_fields(branch, target) for branch in (*left.branches, *right.branches))
        _refuse_repeated_sources(branches)
        return Relation(branches, frozenset(), "this UNION ALL")

    # --- projections -----------------------------------------------------------------------------------------

    def _projection(self, select: Any, ctes: Mapping[str, Relation]) -> Relation:
        where = self.view.span(select)
        refuse_joins(select, self.view, self._exists(ctes))
        clause = select.args.get("from_")
        if clause is not None and isinstance(clause.this, exp.Table) and isinstance(clause.this.this, exp.Anonymous):
            raise _nested_window(self.view.span(clause.this.this))
        for name in ("group", "having"):
            if select.args.get(name) is not None:
                raise LaminarError(
                    "LMR0011", "a query in FROM can choose rows and columns, but not aggregate", where=where,
                    hint="Make it a view of its own and read from that.",
                )  # fmt: skip
        refuse_extras(select, {"expressions", "from_", "where", "with_"}, self.view.span, SELECT_REASONS)
        inner, _ = self.read(select, ctes)
        resolver = Resolver(self.view, inner.scope(), "a query in FROM")
        columns = self._items(select, resolver)
        condition = select.args.get("where")
        kept = resolver.condition(condition.this, "WHERE") if condition is not None else None
        return Relation(tuple(_over(b, columns, kept) for b in inner.branches), frozenset(), inner.described)

    def _items(self, select: Any, resolver: Resolver) -> tuple[Named, ...]:
        found: list[Named] = []
        for item in select.expressions:
            found += expand_star(item, resolver) or [_named_item(item, resolver)]
        seen: set[str] = set()
        for named, item_name in ((n, n.name.lower()) for n in found):
            if item_name in seen:
                raise LaminarError("LMR0104", f'column "{named.name}" is selected twice', where=self.view.span(select))
            seen.add(item_name)
        return tuple(found)


def expand_star(item: Any, resolver: Resolver) -> list[Named]:
    """The columns that `*` or `t.*` stands for; none if the item is something else."""
    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if not isinstance(star, exp.Star):
        return []
    where = resolver.at(item)
    refuse_extras(star, set(), resolver.at)
    if isinstance(item, exp.Column) and item.table.lower() not in resolver.scope.qualifiers:
        resolver.scope.find("*", item.table, where)
    return [*(Named(f.name, Column(f.name, f.type)) for f in resolver.scope.fields), *_bounds(resolver.scope, where)]


def _bounds(scope: Scope, where: Span) -> list[Named]:
    """The window's bounds, which a window adds to the rows of its source."""
    taken = next((name for name in BOUNDS if scope.bounds and scope.has(name)), None)
    if taken is not None:
        raise LaminarError(
            "LMR0104", f'* has two columns "{taken}": the source\'s own, and the bound of the window', where=where,
            hint="Name the columns, or give the source's another name in a query in FROM.",
        )  # fmt: skip
    return [Named(name, unmarked(bound)) for name, bound in BOUNDS.items()] if scope.bounds else []


def _named_item(item: Any, resolver: Resolver) -> Named:
    if isinstance(item, exp.Alias):
        return Named(item.alias, resolver.resolve(item.this))
    expression = resolver.resolve(item)
    return Named(derived_name(item), expression)


def _nested_window(where: Span) -> LaminarError:
    return NotWiredError(
        "LMR0904",
        "a window inside of a query in FROM is part of the language, but this version cannot run it yet",
        where=where,
        hint="Read from the window directly: FROM TUMBLE((SELECT …), event_time, INTERVAL '…').",
    )


def _over(branch: Branch, columns: tuple[Named, ...], kept: Expression | None) -> Branch:
    """The branch seen through a projection and a filter."""
    mapping = {named.name: named.expression for named in branch.columns}
    projected = tuple(Named(n.name, substitute(n.expression, mapping)) for n in columns)
    where = branch.where
    if kept is not None:
        condition = substitute(kept, mapping)
        where = condition if where is None else Call("and", (where, condition), t.BOOLEAN)
    return replace(branch, columns=projected, where=where)


def _as_fields(branch: Branch, target: list[Field]) -> Branch:
    columns = tuple(
        Named(f.name, n.expression if n.type == f.type else Call("cast", (n.expression,), f.type))
        for n, f in zip(branch.columns, target, strict=True)
    )
    return replace(branch, columns=columns)


def _refuse_repeated_sources(branches: tuple[Branch, ...]) -> None:
    seen: set[str] = set()
    for branch in branches:
        if branch.source.name in seen:
            raise LaminarError(
                "LMR0114", f'source "{branch.source.name}" stands twice in one query', where=branch.place,
                hint="Choose the rows of both in one WHERE, with OR and CASE.",
            )  # fmt: skip
        seen.add(branch.source.name)
