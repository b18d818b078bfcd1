"""The aggregates of a query, each once: calls that say the same share one accumulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import Aggregate, Constant, Distinct, Kernel, Ordering
from laminar_dagster.semantics.expressions import Column, Expression, Literal
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.sql.names import Scope, grouped, refuse_extras

if TYPE_CHECKING:
    from laminar_dagster.sql.expressions import Resolver


@dataclass(frozen=True)
class Written:
    """A call as it stands in the SQL. `outer` is the whole of it, with WITHIN GROUP and FILTER."""

    spec: Aggregate
    call: Any
    outer: exp.Expr
    within: Any = None
    filter: exp.Expr | None = None

    @property
    def name(self) -> str:
        """As the user calls it."""
        return str(self.call.name).upper()


@dataclass(frozen=True)
class Asked:
    """What the call says, resolved: equal ones are one aggregate."""

    spec: Aggregate
    arguments: tuple[Expression, ...]
    constants: tuple[Any, ...]
    distinct: bool
    order: tuple[Ordering, ...]
    filter: Expression | None

    def kernel(self) -> Kernel:
        types = [argument.type for argument in self.arguments]
        return self.spec.kernel(*types, constants=self.constants, distinct=self.distinct, order=self.order)


@dataclass
class Aggregates:
    """Collects the calls of SELECT and HAVING. `rows` is what their arguments see."""

    rows: Scope
    calls: list[AggregateCall] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    _known: dict[Asked, AggregateCall] = field(default_factory=dict)

    def resolve(self, r: Resolver, written: Written) -> Column:
        """The column in which the call's result will be found."""
        inner = r.over(self.rows, f"the argument of {written.name}")
        condition = None
        if written.filter is not None:
            condition = r.over(self.rows, "FILTER").condition(written.filter, "FILTER's condition")
        asked = CallReader(inner, written).read(condition)
        if asked not in self._known:
            self._known[asked] = self._new(written.name, asked, r.at(written.outer))
        call = self._known[asked]
        return grouped(call.id, call.kernel.result)

    def _new(self, name: str, asked: Asked, where: Span) -> AggregateCall:
        try:
            kernel = asked.kernel()
        except ArgumentTypeError as error:
            raise LaminarError("LMR0105", f"{name}: {error}", where=where) from None
        text = " ".join(where.text[where.start : where.end].split())
        call = AggregateCall(f"a{len(self.calls)}", kernel, asked.arguments, asked.filter, text, asked.distinct)
        self.calls.append(call)
        self.places[f"aggregate:{call.id}"] = where
        return call


@dataclass
class CallReader:
    """Reads one call's arguments, constants, DISTINCT and ORDER BY."""

    r: Resolver
    written: Written

    @property
    def name(self) -> str:
        return self.written.name

    def read(self, condition: Expression | None) -> Asked:
        spec = self.written.spec
        nodes, distinct, order = self._parts()
        if spec.name == "count" and not distinct and len(nodes) == 1 and isinstance(nodes[0], exp.Star):
            return Asked(spec, (), (), False, (), condition)
        self._check_count(nodes, distinct)
        values = len(nodes) if distinct and spec.name == "count" else spec.arguments
        arguments = [self.r.resolve(node) for node in nodes[:values]]
        constants = tuple(self._constant(c, node) for c, node in zip(spec.constants, nodes[values:], strict=False))
        if _counts_rows(spec, arguments, distinct):
            arguments = []
        keys, orderings = self._order(order)
        if distinct and keys:
            self._check_distinct_order(arguments, keys, order)
            keys = []
        return Asked(spec, (*arguments, *keys), constants, distinct, orderings, condition)

    def _parts(self) -> tuple[list[Any], bool, Any]:
        """The nodes of the arguments, whether DISTINCT counts, and the ORDER BY, inside of the call or behind it."""
        nodes, order = list(self.written.call.expressions), self.written.within
        if nodes and isinstance(nodes[-1], exp.Order):
            if order is not None:
                raise LaminarError("LMR0012", f"{self.name} has two ORDER BY", where=self.r.at(order))
            order = nodes.pop()
            refuse_extras(order, {"this", "expressions"}, self.r.at)
            nodes.append(order.this)
        if len(nodes) != 1 or not isinstance(nodes[0], exp.Distinct):
            return nodes, False, order
        if nodes[0].args.get("on") is not None:
            raise self.r.unsupported(nodes[0])
        return list(nodes[0].expressions), self._distinct_counts(), order

    def _distinct_counts(self) -> bool:
        if self.written.spec.distinct is Distinct.REFUSED:
            raise LaminarError(
                "LMR0012", f"DISTINCT is not supported in {self.name}", where=self.r.at(self.written.call),
                hint="COUNT, SUM, AVG, ARRAY_AGG and STRING_AGG take DISTINCT.",
            )  # fmt: skip
        return self.written.spec.distinct is Distinct.OWN

    def _check_count(self, nodes: list[Any], distinct: bool) -> None:
        spec = self.written.spec
        if spec.name == "count" and distinct and nodes:
            return
        least = spec.arguments + sum(constant.required for constant in spec.constants)
        most = spec.arguments + len(spec.constants)
        if not least <= len(nodes) <= most:
            counted = str(least) if least == most else f"{least} to {most}"
            shown = "one argument" if most == 1 else f"{counted} arguments"
            raise LaminarError(
                "LMR0107", f"{self.name} takes {shown}, not {len(nodes)}", where=self.r.at(self.written.call)
            )

    def _constant(self, constant: Constant, node: exp.Expr) -> Any:
        found = None if isinstance(node, exp.Anonymous) else self.r.resolve(node)
        if not isinstance(found, Literal) or found.value is None:
            raise LaminarError(
                "LMR0107", f"the {constant.name} of {self.name} must be a constant", where=self.r.at(node),
                hint="Write a number or a text in quotes: it is the same for all rows.",
            )  # fmt: skip
        try:
            return constant.read(found)
        except ArgumentTypeError as error:
            raise LaminarError("LMR0105", f"{self.name}: {error}", where=self.r.at(node)) from None

    # --- ORDER BY --------------------------------------------------------------------------------------------

    def _order(self, order: Any) -> tuple[list[Expression], tuple[Ordering, ...]]:
        if order is None:
            return [], ()
        if not self.written.spec.ordered:
            raise LaminarError(
                "LMR0012", f"ORDER BY is not supported in {self.name}", where=self.r.at(order),
                hint="ARRAY_AGG and STRING_AGG take it; for the first or last value use MIN_BY or MAX_BY.",
            )  # fmt: skip
        keys = [self._key(item) for item in order.expressions]
        orderings = [Ordering(bool(i.args.get("desc")), bool(i.args.get("nulls_first"))) for i in order.expressions]
        return keys, tuple(orderings)

    def _key(self, item: Any) -> Expression:
        refuse_extras(item, {"this", "desc", "nulls_first"}, self.r.at)
        key = self.r.resolve(item.this)
        if isinstance(key, Literal):
            raise LaminarError("LMR0107", "ORDER BY a constant orders nothing", where=self.r.at(item))
        return key

    def _check_distinct_order(self, arguments: list[Expression], keys: list[Expression], order: Any) -> None:
        if keys != arguments[:1]:
            raise LaminarError(
                "LMR0012", f"{self.name}(DISTINCT …) can be ordered by its argument alone", where=self.r.at(order),
                detail="Equal values may come from rows that stand at different places in another order.",
                hint="ORDER BY the argument, or leave DISTINCT out.",
            )  # fmt: skip


def _counts_rows(spec: Aggregate, arguments: list[Expression], distinct: bool) -> bool:
    """COUNT(1) is COUNT(*); COUNT(NULL) is not."""
    if spec.name != "count" or distinct:
        return False
    return isinstance(arguments[0], Literal) and arguments[0] != Literal(None, t.NULL)
