"""GROUP BY: which item is the window, which are keys, and how SELECT speaks of them afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, Named
from laminar_dagster.semantics.functions.windows import WINDOW_ID
from laminar_dagster.semantics.query import WINDOW_END
from laminar_dagster.semantics.windows import Cumulate
from laminar_dagster.sql.clause_refusals import refuse_grouping_sets
from laminar_dagster.sql.dialect import WINDOW_FUNCTIONS
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.inputs import Relation
from laminar_dagster.sql.names import BOUNDS, is_grouped, substitute, unmarked
from laminar_dagster.sql.statements import ViewStatement
from laminar_dagster.sql.windows import BOUND_FUNCTIONS, Windowing, implicit_window, read_window, time_bucket


@dataclass
class Grouping:
    """The window and the keys of a query, and what each grouped expression becomes in its output."""

    windowing: Windowing | None
    keys: list[Named] = field(default_factory=list)
    stands_for: dict[Expression, Expression] = field(default_factory=dict)

    def add_key(self, name: str, expression: Expression) -> None:
        if expression in self.stands_for:
            return
        key = Column(f"k{len(self.keys)}", expression.type)
        self.keys.append(Named(name, expression))
        if not isinstance(expression, Literal):
            self.stands_for[expression] = key

    def output(self, expression: Expression, r: Resolver, fallback: Span) -> Expression:
        """The expression over keys, bounds and results; a column that is none of these is refused."""
        if expression in self.stands_for:
            return self.stands_for[expression]
        if isinstance(expression, Column):
            if is_grouped(expression):
                return unmarked(expression)
            raise self._neither(expression, r.columns_at.get(expression.name, fallback))
        if isinstance(expression, Call):
            args = tuple(self.output(argument, r, fallback) for argument in expression.args)
            return Call(expression.function, args, expression.type)
        return expression

    def _neither(self, column: Column, where: Span) -> LaminarError:
        return LaminarError(
            "LMR0110",
            f'column "{column.name}" is neither in GROUP BY nor inside of an aggregate',
            where=where,
            hint=f"Add {column.name} to GROUP BY, or aggregate it, as in MAX({column.name}).",
        )


@dataclass
class GroupReader:
    """Reads one query's GROUP BY."""

    view: ViewStatement
    select: Any
    relation: Relation
    from_window: Windowing | None

    def read(self) -> Grouping:
        group = self.select.args.get("group")
        if group is not None:
            refuse_grouping_sets(group, self.view)
        items = [self._unaliased(item) for item in (group.expressions if group is not None else [])]
        resolver = Resolver(self.view, self.relation.scope(), "GROUP BY")
        windowing = self._explicit_window(items, resolver)
        bounds, rest = self._split_bounds(items, windowing)
        keys = [(item, resolver.resolve(item)) for item in rest]
        if windowing is None:
            windowing = self._implicit_window(keys)
        self._check_bounds(windowing, bounds, group)
        return self._grouping(windowing, keys)

    def _grouping(self, windowing: Windowing | None, keys: list[tuple[Any, Expression]]) -> Grouping:
        grouping = Grouping(windowing)
        if windowing is not None:
            for expression, meaning in windowing.stands_for.items():
                grouping.stands_for[expression] = all_unmarked(meaning)
        for item, expression in keys:
            _check_key_type(expression, self.view.span(item))
            grouping.add_key(self._key_name(item, expression, len(grouping.keys)), expression)
        return grouping

    # --- items -----------------------------------------------------------------------------------------------

    def _unaliased(self, item: Any) -> Any:
        """An ordinal or an alias of SELECT as the expression that it stands for."""
        if isinstance(item, exp.Paren):
            return self._unaliased(item.this)
        if isinstance(item, exp.Literal) and not item.is_string:
            return self._ordinal(item)
        if isinstance(item, exp.Column) and not item.table and not self._is_column(item.name):
            for selected in self.select.expressions:
                if isinstance(selected, exp.Alias) and selected.alias.lower() == item.name.lower():
                    return selected.this
        return item

    def _is_column(self, name: str) -> bool:
        known = {f.name.lower() for f in self.relation.fields}
        return name.lower() in known or (self.from_window is not None and name.lower() in BOUNDS)

    def _ordinal(self, item: Any) -> Any:
        selected = self.select.expressions
        if not item.name.isdigit() or not 1 <= int(item.name) <= len(selected):
            raise LaminarError(
                "LMR0115", f"GROUP BY {item.name}: SELECT has {len(selected)} columns", where=self.view.span(item)
            )
        found = selected[int(item.name) - 1]
        return found.this if isinstance(found, exp.Alias) else found

    def _key_name(self, item: Any, expression: Expression, position: int) -> str:
        for selected in self.select.expressions:
            if isinstance(selected, exp.Alias) and selected.this == item:
                return str(selected.alias)
        return expression.name if isinstance(expression, Column) else f"k{position}"

    # --- windows ---------------------------------------------------------------------------------------------

    def _explicit_window(self, items: list[Any], r: Resolver) -> Windowing | None:
        found = [self.from_window] if self.from_window is not None else []
        for item in items:
            where = self.view.span(item)
            if _calls(item, *WINDOW_FUNCTIONS):
                kind, time = read_window(r, item.name.upper(), item.expressions, where)
                found.append(Windowing(kind, time, where, in_from=False))
            elif _calls(item, "TIME_BUCKET") and self.from_window is None:
                found.append(Windowing(*time_bucket(r, item), where, in_from=False))
        if len(found) > 1:
            raise two_windows(found[1].where)
        return found[0] if found else None

    def _split_bounds(self, items: list[Any], windowing: Windowing | None) -> tuple[list[str], list[Any]]:
        """The window's bounds among the items, and the items that are keys."""
        bounds: list[str] = []
        rest = []
        for item in items:
            bound = _bound_of(item) if windowing is not None else None
            if bound is not None:
                bounds.append(bound)
            elif not _calls(item, *WINDOW_FUNCTIONS, "TIME_BUCKET"):
                rest.append(item)
            else:
                bounds += list(BOUNDS)
        return bounds, rest

    def _implicit_window(self, keys: list[tuple[Any, Expression]]) -> Windowing | None:
        """DATE(t), date_trunc(…, t) of the event time; taken out of the keys."""
        found = []
        for item, expression in list(keys):
            window = implicit_window(expression)
            if window is None or not self._is_event_time(window[1]):
                continue
            kind, time, meaning = window
            found.append(Windowing(kind, time, self.view.span(item), False, stands_for={expression: meaning}))
            keys.remove((item, expression))
        if len(found) > 1 and any(w.kind != found[0].kind for w in found):
            raise two_windows(found[1].where)
        return found[0] if found else None

    def _is_event_time(self, time: Expression) -> bool:
        for branch in self.relation.branches:
            mapping = {named.name: named.expression for named in branch.columns}
            column = substitute(time, mapping)
            bounds = _bound_columns(branch.source.options)
            is_bound = isinstance(column, Column) and column.name in bounds
            if not is_bound and column != branch.source.event_time:
                return False
        return True

    def _check_bounds(self, windowing: Windowing | None, bounds: list[str], group: Any) -> None:
        if windowing is None or not windowing.in_from or windowing.implied:
            return
        needed = WINDOW_END if isinstance(windowing.kind, Cumulate) else None
        if group is not None and (not bounds or (needed and needed not in bounds)):
            raise LaminarError(
                "LMR0204",
                "GROUP BY leaves the window out" if not bounds else f"GROUP BY leaves {needed} out",
                where=self.view.span(group),
                detail="Without it, rows of all windows would fall into one group that never closes."
                if not bounds
                else "CUMULATE's windows share their start, so the end tells them apart.",
                hint="Add window_start, window_end to GROUP BY.",
            )


def _bound_columns(options: Any) -> list[str]:
    return [options[bound] for bound in BOUNDS if bound in options]


def all_unmarked(expression: Expression) -> Expression:
    if isinstance(expression, Column):
        return unmarked(expression)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(all_unmarked(a) for a in expression.args), expression.type)
    return expression


def _calls(item: Any, *names: str) -> bool:
    return isinstance(item, exp.Anonymous) and item.name.upper() in names


def _bound_of(item: Any) -> str | None:
    if isinstance(item, exp.Column):
        name = item.name.lower()
        return name if name in (*BOUNDS, WINDOW_ID) else None
    if isinstance(item, exp.Anonymous):
        return BOUND_FUNCTIONS.get(item.name.lower(), ("", None))[1]
    return None


def _check_key_type(expression: Expression, where: Span) -> None:
    if expression.type.name.startswith("MAP<") or expression.type == t.NULL:
        raise LaminarError("LMR0105", f"GROUP BY cannot take {expression.type}", where=where)


def two_windows(where: Span) -> LaminarError:
    return LaminarError(
        "LMR0202", "a query has one window, and this is the second", where=where,
        hint="Make one view for each window.",
    )  # fmt: skip
