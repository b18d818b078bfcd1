"""What a column of SELECT is called that has no AS: what Spark would call it, `sum(amount)` or `(v + 1)`.

A name follows from the words alone. Where Spark's follows from types too, or where Spark cannot read the expression, it
is another one: docs/reference/sql.md says where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from sqlglot import exp

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions import cast_to_text, cast_value
from laminar_dagster.sql.expressions import named_type
from laminar_dagster.sql.interval_names import interval_name
from laminar_dagster.sql.nodes import Extract, Plus, TypedLiteral, is_not_null

_OPERATORS: dict[type[Any], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_NEGATED = (exp.NEQ, exp.NullSafeNEQ)
# A function that is a cast to the type of its name; Spark shows only what it casts.
_CAST = "date"
_IN_CAPITALS = ("ceil", "exp", "floor", "power", "sqrt")
_CALLED = {"array_agg": "collect_list"}
# What Spark adds to a call with so many arguments.
_ADDED = {
    ("round", 1): "0",
    **dict.fromkeys((("substring", 2), ("substr", 2)), str(2**31 - 1)),
    **dict.fromkeys((("approx_percentile", 2), ("percentile_approx", 2)), "10000"),
    **dict.fromkeys((("listagg", 1), ("string_agg", 1)), "NULL"),
}


def derived_name(node: Any) -> str:
    """The text of an expression as Spark shows it: names as written, functions in small letters.

    A column that is cast keeps its name.
    """
    node = node.unnest()
    cast = _cast_operand(node)
    return str(cast.name) if isinstance(cast, exp.Column) else _shown(node)


def _cast_operand(node: Any) -> Any:
    operand = node.this if isinstance(node, exp.Cast) else _argument_of_cast(node)
    return None if operand is None else operand.unnest()


def _argument_of_cast(node: Any) -> Any:
    is_cast = isinstance(node, exp.Anonymous) and node.name.lower() == _CAST and len(node.expressions) == 1
    return node.expressions[0] if is_cast else None


def _shown(node: Any) -> str:
    shown = _SHOWN.get(type(node))
    if shown is not None:
        return shown(node)
    if type(node) in _OPERATORS:
        pair = f"({_shown(node.this)} {_OPERATORS[type(node)]} {_shown(node.expression)})"
        return f"(NOT {pair})" if isinstance(node, _NEGATED) else pair
    return str(node.sql(dialect="spark"))


# --- literals ------------------------------------------------------------------------------------------------


def _literal(node: Any) -> str:
    return str(node.this) if node.is_string else _number(node.name)


def _number(text: str) -> str:
    """With an exponent it is a DOUBLE, else it has the digits that were written."""
    return cast_to_text(float(text), t.DOUBLE) if "e" in text.lower() else str(Decimal(text))


def _typed_literal(node: Any) -> str:
    """`DATE '…'` shows its type, `10L` does not."""
    type_, text = named_type(node.args["to"]), node.this.name
    if type_.is_numeric:
        return cast_to_text(float(text), t.DOUBLE) if type_.is_float else _number(text)
    with suppress(RowError):
        text = cast_to_text(cast_value(text, t.STRING, type_), type_)
    return f"{type_} '{text}'"


def _negative(node: Any) -> str:
    operand = node.this
    if isinstance(operand, TypedLiteral):
        is_number = named_type(operand.args["to"]).is_numeric
    else:
        is_number = isinstance(operand, exp.Literal) and not operand.is_string
    return f"-{_shown(operand)}" if is_number else f"(- {_shown(operand)})"


# --- times ---------------------------------------------------------------------------------------------------


def _interval(node: Any) -> str:
    unit = node.args.get("unit")
    return interval_name(node.this.name, None if unit is None else unit.name)


def _sum(sign: str) -> Callable[[Any], str]:
    """`+` and `-`; a time and an interval stand without parentheses, the time first."""

    def shown(node: Any) -> str:
        left, right = node.this, node.expression
        if isinstance(left, exp.Interval):
            left, right = right, left
        pair = f"{_shown(left)} {sign} {_shown(right)}"
        return pair if isinstance(right, exp.Interval) else f"({pair})"

    return shown


def _extract(node: Any) -> str:
    return f"extract({node.args['part']} FROM {_shown(node.expressions[0])})"


# --- calls ---------------------------------------------------------------------------------------------------


def _call(node: Any) -> str:
    if _argument_of_cast(node) is not None:
        return _shown(node.expressions[0])
    name = node.name.lower()
    if name == "if":
        return f"(IF({_listed(node.expressions)}))"
    return _called(_CALLED.get(name, name.upper() if name in _IN_CAPITALS else name), node.expressions)


def _called(name: str, arguments: Sequence[Any]) -> str:
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    given = arguments[0].expressions if is_distinct else arguments
    added = _ADDED.get((name, len(given)))
    shown = _listed(given) + (f", {added}" if added else "")
    return f"{name}({'DISTINCT ' if is_distinct else ''}{shown})"


def _listed(nodes: Sequence[Any]) -> str:
    return ", ".join(map(_shown, nodes))


def _within_group(node: Any) -> str:
    """Whatever the aggregate was called, with an order it is `listagg`."""
    return f"{_called('listagg', node.this.expressions)} WITHIN GROUP ({_order(node.expression)})"


def _ordered_argument(node: Any) -> str:
    return f"{_shown(node.this)} {_order(node)}"


def _order(node: Any) -> str:
    return f"ORDER BY {', '.join(map(_sort_key, node.expressions))}"


def _sort_key(node: Any) -> str:
    direction = "DESC" if node.args.get("desc") else "ASC"
    return f"{_shown(node.this)} {direction} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _filtered(node: Any) -> str:
    return f"{_shown(node.this)} FILTER (WHERE {_shown(node.expression.this)})"


# --- conditions ----------------------------------------------------------------------------------------------


def _cast(node: Any) -> str:
    return f"CAST({_shown(node.this)} AS {named_type(node.args['to'])})"


def _case(node: Any) -> str:
    branches = [f"WHEN {_when(node.this, i.this)} THEN {_shown(i.args['true'])}" for i in node.args["ifs"]]
    default = node.args.get("default")
    return " ".join(["CASE", *branches, *([] if default is None else [f"ELSE {_shown(default)}"]), "END"])


def _when(operand: Any, condition: Any) -> str:
    return _shown(condition) if operand is None else f"({_shown(operand)} = {_shown(condition)})"


def _between(node: Any) -> str:
    value, low, high = (_shown(node.args[part]) for part in ("this", "low", "high"))
    return f"between({value}, {low}, {high})"


def _in(node: Any) -> str:
    return f"({_shown(node.this)} IN ({_listed(node.expressions)}))"


def _is(node: Any) -> str:
    """IS TRUE compares; IS NULL is a test of its own."""
    sign = "IS" if isinstance(node.expression, exp.Null) else "<=>"
    return f"({_shown(node.this)} {sign} {_shown(node.expression)})"


def _not(node: Any) -> str:
    if is_not_null(node):
        return f"({_shown(node.this.this)} IS NOT NULL)"
    return f"(NOT {_shown(node.this)})"


def _like(node: Any) -> str:
    shown = f"{_shown(node.this)} LIKE {_shown(node.expression)}"
    return f"(NOT {shown})" if node.args.get("negate") else shown


_SHOWN: dict[type[Any], Callable[[Any], str]] = {
    exp.Column: lambda node: str(node.name),
    exp.Literal: _literal,
    TypedLiteral: _typed_literal,
    exp.Null: lambda _: "NULL",
    exp.Boolean: lambda node: "true" if node.this else "false",
    exp.Star: lambda _: "1",
    exp.Paren: lambda node: _shown(node.this),
    Plus: lambda node: f"(+ {_shown(node.this)})",
    exp.Neg: _negative,
    exp.Interval: _interval,
    exp.Add: _sum("+"),
    exp.Sub: _sum("-"),
    Extract: _extract,
    exp.Anonymous: _call,
    exp.Order: _ordered_argument,
    exp.WithinGroup: _within_group,
    exp.Filter: _filtered,
    exp.Cast: _cast,
    exp.Case: _case,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Not: _not,
    exp.Like: _like,
    exp.DPipe: lambda node: f"concat({_shown(node.this)}, {_shown(node.expression)})",
}
