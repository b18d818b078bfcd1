"""Calls by name: scalar functions, aggregates with their FILTER, and the names that are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, aggregate_called
from laminar_dagster.semantics.expressions import Expression, Literal
from laminar_dagster.semantics.functions import FUNCTIONS, TRUNCATIONS, callable_names
from laminar_dagster.sql.aggregates import Written
from laminar_dagster.sql.windows import is_window_word

if TYPE_CHECKING:
    from laminar_dagster.sql.expressions import Resolver

FUNCTION_SYNONYMS = {
    "ceiling": "ceil", "char_length": "length", "dayofmonth": "day", "ifnull": "coalesce", "lcase": "lower",
    "len": "length", "nvl": "coalesce", "pow": "power", "substr": "substring", "ucase": "upper",
}  # fmt: skip
CLOCK_FUNCTIONS = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "now", "rand", "random", "randn", "uuid"}
)
# As group keys these are windows, so their last argument may be what a window takes.
TAKE_A_TIME = frozenset({"date", "date_trunc"})
TRUNCATION_UNITS = (*TRUNCATIONS, "MONTH", "QUARTER", "YEAR")


def call_function(r: Resolver, node: Any) -> Expression:
    name = str(node.name).lower()
    if aggregate_called(name) is not None:
        return call_aggregate(r, node)
    if is_window_word(name):
        return _window_word(r, node)
    if name in CLOCK_FUNCTIONS:
        raise depends_on_the_clock(name, r.at(node))
    if name == "if" and len(node.expressions) == 3:
        return _if(r, node)
    name = FUNCTION_SYNONYMS.get(name, name)
    if name not in callable_names():
        raise LaminarError(
            "LMR0107",
            f'unknown function "{node.name}"',
            where=r.at(node),
            hint=_WRITE_INSTEAD.get(name)
            or did_you_mean(name, [*callable_names(), *FUNCTION_SYNONYMS, *AGGREGATES], _FUNCTION_HINT),
        )
    _check_arity(r, name, node)
    args = [r.resolve(argument) for argument in node.expressions]
    if name in TAKE_A_TIME:
        args[-1] = r.time(args[-1])
    if name in _LITERAL_ARGUMENTS:
        args = _LITERAL_ARGUMENTS[name](r, args, node)
    return r.call(name, args, node)


def _window_word(r: Resolver, node: Any) -> Expression:
    if r.window is None:
        raise LaminarError(
            "LMR0203", f"{node.name.upper()} cannot stand in {r.place}", where=r.at(node),
            hint="A window belongs in FROM or in GROUP BY, its bounds in SELECT and HAVING.",
        )  # fmt: skip
    return r.window.resolve(r, node)


_OF_A_NUMBER = "a number becomes a time by timestamp_seconds(…), timestamp_millis(…) or timestamp_micros(…)"
# Functions of other engines whose nearest name here means something else.
_WRITE_INSTEAD = {
    "to_timestamp_ltz": "Write timestamp_millis(…) for a precision of 3, and timestamp_seconds(…) for 0.",
    "to_timestamp_ntz": "Write to_timestamp(…): all times are moments, in UTC.",
    "from_unixtime": f"It makes text of seconds; {_OF_A_NUMBER}.",
    "timestamp": f"Text becomes a time by to_timestamp(…), and {_OF_A_NUMBER}.",
}
_FUNCTION_HINT = "docs/reference/sql.md lists the functions."


def _if(r: Resolver, node: Any) -> Expression:
    condition, then, otherwise = node.expressions
    args = [r.condition(condition, "IF's condition"), r.resolve(then), r.resolve(otherwise)]
    return r.call("case", args, node)


def _check_arity(r: Resolver, name: str, node: Any) -> None:
    spec, given = FUNCTIONS[name], len(node.expressions)
    if given < spec.least or (spec.most is not None and given > spec.most):
        most = "or more" if spec.most is None else f"to {spec.most}" if spec.most != spec.least else ""
        counted = f"{spec.least} {most}".strip()
        raise LaminarError("LMR0107", f"{name.upper()} takes {counted} arguments, not {given}", where=r.at(node))


def _truncation(r: Resolver, args: list[Expression], node: Any) -> list[Expression]:
    unit = args[0]
    if not isinstance(unit, Literal) or unit.type != t.STRING or unit.value.upper() not in TRUNCATION_UNITS:
        written = unit.value if isinstance(unit, Literal) else "an expression"
        raise LaminarError(
            "LMR0107", f"DATE_TRUNC cannot cut to {written}", where=r.at(node.expressions[0]),
            hint=did_you_mean(str(written), TRUNCATION_UNITS, f"Units: {', '.join(TRUNCATION_UNITS)}."),
        )  # fmt: skip
    return [Literal(unit.value.upper(), t.STRING), *args[1:]]


def _rounding(r: Resolver, args: list[Expression], node: Any) -> list[Expression]:
    if len(args) == 2 and not (isinstance(args[1], Literal) and args[1].type == t.INT):
        raise LaminarError("LMR0107", "ROUND takes a whole number as its second argument", where=r.at(node))
    return args


_LITERAL_ARGUMENTS: Mapping[str, Callable[[Resolver, list[Expression], Any], list[Expression]]] = {
    "date_trunc": _truncation,
    "round": _rounding,
}


def call_aggregate(r: Resolver, node: Any) -> Expression:
    """An aggregate, alone or with WITHIN GROUP (ORDER BY …) and FILTER (WHERE …) behind it."""
    call, within, filter_ = node, None, None
    if isinstance(call, exp.Filter):
        call, filter_ = call.this, call.expression.this
    if isinstance(call, exp.WithinGroup):
        call, within = call.this, call.expression
    spec = aggregate_called(call.name) if isinstance(call, exp.Anonymous) else None
    if spec is None:
        clause = "FILTER" if filter_ is not None else "WITHIN GROUP"
        raise LaminarError("LMR0109", f"{clause} belongs to an aggregate", where=r.at(node))
    if r.aggregates is None:
        raise LaminarError(
            "LMR0109",
            f"{call.name.upper()} is an aggregate and cannot stand in {r.place}",
            where=r.at(call),
            hint="Filter on aggregates with HAVING." if r.place == "WHERE" else None,
        )
    return r.aggregates.resolve(r, Written(spec, call, node, within, filter_))


def depends_on_the_clock(name: str, where: Span) -> LaminarError:
    return LaminarError(
        "LMR0108",
        f"{name.upper()} gives another value each time it is called",
        where=where,
        detail="A view's rows follow from its sources alone, so that an epoch can be run again with the same result.",
        hint="Use a column of the source.",
    )
