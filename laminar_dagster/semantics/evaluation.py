"""What an expression is worth for one row, in plain Python: half of the executable specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal
from laminar_dagster.semantics.functions import FUNCTIONS


def evaluate(expression: Expression, row: Mapping[str, Any]) -> Any:
    """The value of an expression for one row; RowError where it has none."""
    match expression:
        case Column(name):
            return row[name]
        case Literal(value):
            return value
        case Call(function, args, type_):
            spec = FUNCTIONS[function]
            if spec.lazy is not None:
                return spec.lazy(args, type_, lambda argument: evaluate(argument, row))
            values = [evaluate(argument, row) for argument in args]
            if any(value is None for value in values) and not spec.takes_null:
                return None
            return spec.compute(type_, [argument.type for argument in args], *values)
