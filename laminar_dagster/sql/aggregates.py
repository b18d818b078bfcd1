"""The aggregates of a query, each once: calls that say the same share one accumulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, Aggregate, Kernel
from laminar_dagster.semantics.expressions import Column, Expression, Literal
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.sql.names import Scope, grouped

if TYPE_CHECKING:
    from laminar_dagster.sql.expressions import Resolver

# What an aggregate that has no kernel yet will give; DOUBLE where it is not listed.
_RESULTS: Mapping[str, Callable[[t.DataType], t.DataType]] = {
    **dict.fromkeys(("first", "last", "min_by", "max_by", "any_value", "mode"), lambda x: x),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "percentile_approx", "approx_percentile"), lambda x: x),
    **dict.fromkeys(("bool_and", "bool_or"), lambda _: t.BOOLEAN),
    **dict.fromkeys(("array_agg", "collect_list", "collect_set", "histogram"), lambda x: t.DataType(f"ARRAY<{x}>")),
    **dict.fromkeys(("string_agg", "listagg"), lambda _: t.STRING),
    "approx_count_distinct": lambda _: t.BIGINT,
}


@dataclass
class Aggregates:
    """Collects the calls of SELECT and HAVING. `rows` is what their arguments see."""

    rows: Scope
    calls: list[AggregateCall] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    _known: dict[tuple[Any, ...], AggregateCall] = field(default_factory=dict)

    def resolve(self, r: Resolver, node: Any, filter_: exp.Expr | None) -> Column:
        """The column in which the call's result will be found."""
        spec = AGGREGATES[node.name.lower()]
        inner = r.over(self.rows, f"the argument of {spec.name.upper()}")
        arguments, distinct = self._arguments(inner, spec, node)
        condition = None
        if filter_ is not None:
            condition = r.over(self.rows, "FILTER").condition(filter_, "FILTER's condition")
        key = (spec.name, tuple(arguments), distinct, condition)
        if key not in self._known:
            self._known[key] = self._new(inner, spec, arguments, distinct, condition, node, filter_)
        call = self._known[key]
        return grouped(call.id, call.kernel.result)

    def _new(
        self, r: Resolver, spec: Aggregate, arguments: list[Expression], distinct: bool,
        condition: Expression | None, node: Any, filter_: exp.Expr | None,
    ) -> AggregateCall:  # fmt: skip
        where = r.at(node.parent if filter_ is not None else node)
        first = arguments[0] if arguments else None
        try:
            kernel = _kernel(spec, first.type if first is not None else None)
        except ArgumentTypeError as error:
            raise LaminarError("LMR0105", f"{spec.name.upper()}: {error}", where=where) from None
        text = " ".join(where.text[where.start : where.end].split())
        call = AggregateCall(f"a{len(self.calls)}", kernel, first, condition, text, distinct)
        self.calls.append(call)
        self.places[f"aggregate:{call.id}"] = where
        return call

    def _arguments(self, r: Resolver, spec: Aggregate, node: Any) -> tuple[list[Expression], bool]:
        nodes, distinct = list(node.expressions), False
        if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
            if nodes[0].args.get("on") is not None:
                raise r.unsupported(nodes[0])
            nodes, distinct = list(nodes[0].expressions), True
        if spec.name == "count" and not distinct and len(nodes) == 1 and isinstance(nodes[0], exp.Star):
            return [], False
        many_distinct = spec.name == "count" and distinct
        least = 1 if spec.name in _OPTIONAL_SECOND else spec.arguments
        if not (least <= len(nodes) <= spec.arguments) and not (many_distinct and nodes):
            counted = "one argument" if spec.arguments == 1 else f"{spec.arguments} arguments"
            raise LaminarError("LMR0107", f"{spec.name.upper()} takes {counted}, not {len(nodes)}", where=r.at(node))
        found = [r.resolve(argument) for argument in nodes]
        is_row_count = spec.name == "count" and not distinct and isinstance(found[0], Literal)
        return ([] if is_row_count and found[0] != Literal(None, t.NULL) else found), distinct


_OPTIONAL_SECOND = ("string_agg", "listagg", "histogram")


def _kernel(spec: Aggregate, argument: t.DataType | None) -> Kernel:
    if spec.wired:
        return spec.kernel(argument)
    result_of = _RESULTS.get(spec.name)
    result = result_of(argument or t.NULL) if result_of is not None else t.DOUBLE
    return Kernel(spec.name, argument, result, (), "", _no_value)


def _no_value(_: Any) -> Any:
    raise AssertionError("planning refuses an aggregate that is not wired")
