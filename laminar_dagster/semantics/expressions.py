"""Typed expressions over a row: the one form that planning, the reference and Spark all read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics.types import DataType


class RowError(Exception):
    """A row's own expression has no value; `reason` is what the side output says."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Column:
    name: str
    type: DataType


@dataclass(frozen=True)
class Literal:
    """A constant. Timestamps are microseconds, dates are days, decimals are `decimal.Decimal`."""

    value: Any
    type: DataType


@dataclass(frozen=True)
class Call:
    """A function or operator of `functions.FUNCTIONS`, its arguments and the type of its result."""

    function: str
    args: tuple[Expression, ...]
    type: DataType


Expression = Column | Literal | Call


@dataclass(frozen=True)
class Named:
    """An expression with the name under which it is selected."""

    name: str
    expression: Expression

    @property
    def type(self) -> DataType:
        return self.expression.type


def walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Call):
        for argument in expression.args:
            yield from walk(argument)


def columns_of(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Column)}


def follows_from(expression: Expression, part: Expression) -> bool:
    """Whether the expression reads a row by this part of it alone: `ts + INTERVAL '1' HOUR` by `ts`."""
    whole = Column("", part.type)
    return columns_of(replaced(expression, {part: whole})) == {whole.name}


def shifted(expression: Expression) -> tuple[Column, int] | None:
    """The column that a time is a constant number of microseconds away from, and that number."""
    if isinstance(expression, Column):
        return expression, 0
    if not isinstance(expression, Call) or expression.function != "add_micros":
        return None
    time, by = expression.args
    found = shifted(time)
    return (found[0], found[1] + by.value) if found is not None and isinstance(by, Literal) else None


def replaced(expression: Expression, by: Mapping[Expression, Expression]) -> Expression:
    """The expression with whatever part of it `by` knows put in other words."""
    if expression in by:
        return by[expression]
    if isinstance(expression, Call):
        return Call(expression.function, tuple(replaced(argument, by) for argument in expression.args), expression.type)
    return expression
