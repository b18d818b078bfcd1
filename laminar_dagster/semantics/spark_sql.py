"""Expressions as Spark SQL text.

`value_sql` never throws: it is NULL where the row's expression has no value. `error_sql` says why it has none
(overflow, division by zero, a cast that fails), or is None where nothing can go wrong.
"""

from __future__ import annotations

from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal
from laminar_dagster.semantics.functions import FUNCTIONS, cast_to_text, literal_sql
from laminar_dagster.semantics.types import DATE, TIMESTAMP


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def value_sql(expression: Expression) -> str:
    match expression:
        case Column(name):
            return quoted(name)
        case Literal():
            return literal_sql(expression)
        case Call(function, args, type_):
            types = [argument.type for argument in args]
            return FUNCTIONS[function].spark(type_, types, *(value_sql(argument) for argument in args))


def error_sql(expression: Expression) -> str | None:
    """Spark SQL for the reason why the expression has no value (NULL: it has one)."""
    if not isinstance(expression, Call):
        return None
    spec = FUNCTIONS[expression.function]
    if spec.lazy_error is not None:
        return spec.lazy_error(expression.args, value_sql, error_sql)
    reasons = [reason for argument in expression.args if (reason := error_sql(argument))]
    if spec.error is not None:
        types = [argument.type for argument in expression.args]
        own = spec.error(expression.type, types, *(value_sql(argument) for argument in expression.args))
        reasons += [own] if own else []
    return first_reason(reasons)


def first_reason(reasons: list[str]) -> str | None:
    if not reasons:
        return None
    return reasons[0] if len(reasons) == 1 else f"coalesce({', '.join(reasons)})"


def display(expression: Expression) -> str:
    """The expression as a person would write it, for explain and messages."""
    match expression:
        case Column(name):
            return name
        case Literal():
            return _shown(expression)
        case Call(function, args, type_):
            return FUNCTIONS[function].show(type_, *(display(argument) for argument in args))


def _shown(literal: Literal) -> str:
    if literal.value is not None and literal.type in (TIMESTAMP, DATE):
        return f"{literal.type} '{cast_to_text(literal.value, literal.type)}'"
    return str(literal.value) if literal.type.is_numeric and literal.value is not None else literal_sql(literal)
