"""What a column of SELECT is called that has no AS: what Spark would call it, `sum(amount)` or `(v + 1)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

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
}


# Functions that are casts to the type of their name; Spark shows only what they cast.
_CASTS = (
    *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("boolean", "string", "binary", "date", "timestamp"),
)


def derived_name(node: Any) -> str:
    """The text of an expression as Spark shows it: names as written, functions in small letters.

    A column that is cast keeps its name.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    cast = node.this if isinstance(node, exp.Cast) else _argument_of_cast(node)
    return str(cast.name) if isinstance(cast, exp.Column) else _shown(node)


def _argument_of_cast(node: Any) -> Any:
    is_cast = isinstance(node, exp.Anonymous) and node.name.lower() in _CASTS and len(node.expressions) == 1
    return node.expressions[0] if is_cast else None


def _shown(node: Any) -> str:
    shown = _SHOWN.get(type(node))
    if shown is not None:
        return shown(node)
    if type(node) in _OPERATORS:
        pair = f"({_shown(node.this)} {_OPERATORS[type(node)]} {_shown(node.expression)})"
        return f"(NOT {pair})" if isinstance(node, exp.NEQ) else pair
    return str(node.sql(dialect="spark"))


def _call(node: Any) -> str:
    if _argument_of_cast(node) is not None:
        return _shown(node.expressions[0])
    arguments = ", ".join(map(_shown, node.expressions))
    return f"(IF({arguments}))" if node.name.lower() == "if" else f"{node.name.lower()}({arguments})"


def _filtered(node: Any) -> str:
    return f"{_shown(node.this)} FILTER (WHERE {_shown(node.expression.this)})"


def _cast(node: Any) -> str:
    return f"CAST({_shown(node.this)} AS {node.args['to'].sql(dialect='spark')})"


def _case(node: Any) -> str:
    branches = [f"WHEN {_shown(i.this)} THEN {_shown(i.args['true'])}" for i in node.args["ifs"]]
    default = node.args.get("default")
    return " ".join(["CASE", *branches, *([] if default is None else [f"ELSE {_shown(default)}"]), "END"])


def _between(node: Any) -> str:
    value, low, high = (_shown(node.args[part]) for part in ("this", "low", "high"))
    return f"between({value}, {low}, {high})"


def _in(node: Any) -> str:
    return f"({_shown(node.this)} IN ({', '.join(map(_shown, node.expressions))}))"


def _is(node: Any) -> str:
    return f"({_shown(node.this)} IS {_shown(node.expression)})"


def _not(node: Any) -> str:
    inner = node.this
    if isinstance(inner, exp.Is):
        return f"({_shown(inner.this)} IS NOT {_shown(inner.expression)})"
    return f"(NOT {_shown(inner)})"


_SHOWN: dict[type[Any], Callable[[Any], str]] = {
    exp.Column: lambda node: str(node.name),
    exp.Literal: lambda node: str(node.this),
    exp.Null: lambda _: "NULL",
    exp.Boolean: lambda node: "true" if node.this else "false",
    exp.Star: lambda _: "1",
    exp.Paren: lambda node: _shown(node.this),
    exp.Anonymous: _call,
    exp.Distinct: lambda node: f"DISTINCT {', '.join(map(_shown, node.expressions))}",
    exp.Filter: _filtered,
    exp.Cast: _cast,
    exp.Case: _case,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Not: _not,
    exp.Neg: lambda node: f"(- {_shown(node.this)})",
    exp.DPipe: lambda node: f"concat({_shown(node.this)}, {_shown(node.expression)})",
    exp.Like: lambda node: f"{_shown(node.this)} LIKE {_shown(node.expression)}",
}
