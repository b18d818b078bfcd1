"""CASE, COALESCE, NULLIF: only the branch that is taken can fail."""

from __future__ import annotations

from typing import Any

from laminar_dagster.semantics.expressions import Expression
from laminar_dagster.semantics.functions.table import (
    ErrorRenderer,
    Evaluator,
    Renderer,
    Types,
    aligned,
    booleans,
    common,
    comparable,
    register,
    unused,
    widen,
)
from laminar_dagster.semantics.functions.values import order
from laminar_dagster.semantics.types import DataType


def _case(args: tuple[Expression, ...], type_: DataType, value: Evaluator) -> Any:
    for condition, result in zip(args[:-1:2], args[1:-1:2], strict=True):
        if value(condition) is True:
            return widen(value(result), result.type, type_)
    return widen(value(args[-1]), args[-1].type, type_)


def _case_type(types: Types) -> DataType:
    booleans(types[:-1:2])
    return common([*types[1:-1:2], types[-1]])


def _case_text(*args: str) -> str:
    branches = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(args[:-1:2], args[1:-1:2], strict=True))
    return f"CASE {branches} ELSE {args[-1]} END"


def _case_error(args: tuple[Expression, ...], value: Renderer, error: ErrorRenderer) -> str | None:
    """The first condition's error, then of the branch that is taken, then of the rest."""
    reason = error(args[-1])
    for condition, result in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        taken, bad_condition = error(result), error(condition)
        if taken or reason:
            reason = f"CASE WHEN {value(condition)} THEN {taken or 'NULL'} ELSE {reason or 'NULL'} END"
        if bad_condition:
            reason = f"coalesce({bad_condition}, {reason})" if reason else bad_condition
    return reason


register(
    "case", (3, None), _case_type, unused, lambda _, __, *a: _case_text(*a), lambda _, *a: _case_text(*a),
    lazy=_case, lazy_error=_case_error,
)  # fmt: skip


def _coalesce(args: tuple[Expression, ...], type_: DataType, value: Evaluator) -> Any:
    for argument in args:
        found = value(argument)
        if found is not None:
            return widen(found, argument.type, type_)
    return None


def _coalesce_error(args: tuple[Expression, ...], value: Renderer, error: ErrorRenderer) -> str | None:
    reason: str | None = None
    for argument in reversed(args):
        own = error(argument)
        if reason is not None:
            reason = f"CASE WHEN {value(argument)} IS NULL THEN {reason} END"
        if own is not None:
            reason = own if reason is None else f"coalesce({own}, {reason})"
    return reason


register("coalesce", (1, None), common, unused, lazy=_coalesce, lazy_error=_coalesce_error)


def _nullif(_: DataType, types: Types, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a
    left, right = aligned(types, a, b)
    return None if order(left) == order(right) else a


def _first_type(types: Types) -> DataType:
    comparable(types)
    return types[0]


register("nullif", 2, _first_type, _nullif, takes_null=True)
