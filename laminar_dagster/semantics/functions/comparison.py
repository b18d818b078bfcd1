"""Comparison and logic. AND and OR do not look at the right side where the left side decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Expression
from laminar_dagster.semantics.functions.table import (
    ErrorRenderer,
    Evaluator,
    Renderer,
    Types,
    aligned,
    always,
    booleans,
    checked,
    comparable,
    register,
    strings,
    unused,
)
from laminar_dagster.semantics.functions.values import order
from laminar_dagster.semantics.types import DataType


def _comparison(name: str, symbol: str, compute: Callable[[Any, Any], bool]) -> None:
    def run(_: DataType, types: Types, a: Any, b: Any) -> bool:
        left, right = aligned(types, a, b)
        return compute(order(left), order(right))

    def text(_: Any, *args: Any) -> str:
        return f"({args[-2]} {symbol} {args[-1]})"

    register(name, 2, comparable, run, text, text)


_comparison("eq", "=", lambda a, b: a == b)
_comparison("ne", "<>", lambda a, b: a != b)
_comparison("lt", "<", lambda a, b: a < b)
_comparison("le", "<=", lambda a, b: a <= b)
_comparison("gt", ">", lambda a, b: a > b)
_comparison("ge", ">=", lambda a, b: a >= b)


def _distinct(_: DataType, types: Types, a: Any, b: Any) -> bool:
    if a is None or b is None:
        return (a is None) != (b is None)
    left, right = aligned(types, a, b)
    return order(left) != order(right)


register(
    "distinct_from", 2, comparable, _distinct, lambda _, __, a, b: f"(NOT ({a} <=> {b}))",
    lambda _, a, b: f"({a} IS DISTINCT FROM {b})", takes_null=True,
)  # fmt: skip
register(
    "is_null", 1, always(t.BOOLEAN), lambda _, __, x: x is None, lambda _, __, x: f"({x} IS NULL)",
    lambda _, x: f"({x} IS NULL)", takes_null=True,
)  # fmt: skip
register(
    "is_not_null", 1, always(t.BOOLEAN), lambda _, __, x: x is not None, lambda _, __, x: f"({x} IS NOT NULL)",
    lambda _, x: f"({x} IS NOT NULL)", takes_null=True,
)  # fmt: skip
register("not", 1, booleans, lambda _, __, x: not x, lambda _, __, x: f"(NOT {x})", lambda _, x: f"(NOT {x})")


def _logical(name: str, decides: bool) -> None:
    """AND and OR: the right side is not looked at where the left side decides."""
    word = name.upper()

    def lazy(args: tuple[Expression, ...], _: DataType, value: Evaluator) -> bool | None:
        left = value(args[0])
        if left is decides:
            return bool(decides)
        right = value(args[1])
        if right is decides:
            return bool(decides)
        return None if None in (left, right) else not decides

    def lazy_error(args: tuple[Expression, ...], value: Renderer, error: ErrorRenderer) -> str | None:
        left, right = error(args[0]), error(args[1])
        if right is None:
            return left
        guarded = f"CASE WHEN NOT ({value(args[0])} <=> {str(decides).lower()}) THEN {right} END"
        return guarded if left is None else f"coalesce({left}, {guarded})"

    def text(_: Any, *args: Any) -> str:
        return f"({args[-2]} {word} {args[-1]})"

    register(name, 2, booleans, unused, text, text, lazy=lazy, lazy_error=lazy_error)


_logical("and", decides=False)
_logical("or", decides=True)


def _in(_: DataType, types: Types, x: Any, *values: Any) -> bool | None:
    if x is None:
        return None
    matches = [
        None if v is None else aligned((types[0], type_), x, v) for v, type_ in zip(values, types[1:], strict=True)
    ]
    if any(pair is not None and order(pair[0]) == order(pair[1]) for pair in matches):
        return True
    return None if None in matches else False


register(
    "in", (2, None), comparable, _in, lambda _, __, x, *v: f"({x} IN ({', '.join(v)}))",
    lambda _, x, *v: f"({x} IN ({', '.join(v)}))", takes_null=True,
)  # fmt: skip


def _like(_: DataType, __: Types, text: str, pattern: str) -> bool:
    out, escaped = [], False
    for char in pattern:
        if escaped:
            out.append(re.escape(char))
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            out.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
    return re.fullmatch("".join(out), text, re.DOTALL) is not None


register(
    "like", 2, checked(strings, t.BOOLEAN), _like, lambda _, __, a, b: f"({a} LIKE {b})",
    lambda _, a, b: f"({a} LIKE {b})",
)  # fmt: skip
