"""The table itself, and the checks on argument types that its entries share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Expression
from laminar_dagster.semantics.functions.values import fit
from laminar_dagster.semantics.time import DAY
from laminar_dagster.semantics.types import DataType

Types = Sequence[DataType]
Evaluator = Callable[[Expression], Any]
Renderer = Callable[[Expression], str]
ErrorRenderer = Callable[[Expression], "str | None"]


class ArgumentTypeError(Exception):
    """The arguments' types do not fit the function; the message says what would."""


@dataclass(frozen=True)
class ScalarFunction:
    name: str
    least: int
    most: int | None
    result: Callable[[Types], DataType]
    compute: Callable[..., Any]
    spark: Callable[..., str]
    show: Callable[..., str]
    error: Callable[..., str | None] | None = None
    takes_null: bool = False
    lazy: Callable[[tuple[Expression, ...], DataType, Evaluator], Any] | None = None
    lazy_error: Callable[[tuple[Expression, ...], Renderer, ErrorRenderer], str | None] | None = None


FUNCTIONS: dict[str, ScalarFunction] = {}


def register(
    name: str,
    arguments: int | tuple[int, int | None],
    result: Callable[[Types], DataType],
    compute: Callable[..., Any],
    spark: Callable[..., str] | None = None,
    show: Callable[..., str] | None = None,
    **more: Any,
) -> None:
    least, most = (arguments, arguments) if isinstance(arguments, int) else arguments
    FUNCTIONS[name] = ScalarFunction(
        name,
        least,
        most,
        result,
        compute,
        spark or (lambda _, __, *a: f"{name}({', '.join(a)})"),
        show or (lambda _, *a: f"{name.upper()}({', '.join(a)})"),
        **more,
    )


def always(type_: DataType) -> Callable[[Types], DataType]:
    return lambda _: type_


def strings(types: Types) -> None:
    for type_ in types:
        if type_ not in (t.STRING, t.NULL):
            raise ArgumentTypeError(f"it takes STRING, not {type_}; CAST(… AS STRING) makes one")


def numbers(types: Types) -> None:
    for type_ in types:
        if not type_.is_numeric and not type_.is_null:
            raise ArgumentTypeError(f"it takes a number, not {type_}")


def times(types: Types) -> None:
    for type_ in types:
        if type_ not in (t.TIMESTAMP, t.DATE, t.NULL):
            raise ArgumentTypeError(f"it takes a TIMESTAMP or DATE, not {type_}")


def booleans(types: Types) -> DataType:
    for type_ in types:
        if type_ not in (t.BOOLEAN, t.NULL):
            raise ArgumentTypeError(f"it takes BOOLEAN, not {type_}")
    return t.BOOLEAN


def checked(check: Callable[[Types], Any], type_: DataType) -> Callable[[Types], DataType]:
    def result(types: Types) -> DataType:
        check(types)
        return type_

    return result


def comparable(types: Types) -> DataType:
    if t.common_type(list(types)) is None:
        raise ArgumentTypeError(f"{types[0]} and {types[-1]} cannot be compared; CAST one of them")
    return t.BOOLEAN


def common(types: Types) -> DataType:
    type_ = t.common_type(list(types))
    if type_ is None:
        raise ArgumentTypeError(f"the arguments have no common type: {', '.join(map(str, types))}")
    return type_


def aligned(types: Types, a: Any, b: Any) -> tuple[Any, Any]:
    """Both values in the type in which Spark would compare them."""
    if {types[0].name, types[1].name} == {"DATE", "TIMESTAMP"}:
        return (a * DAY, b) if types[0] == t.DATE else (a, b * DAY)
    if types[0].is_float or types[1].is_float:
        return float(a), float(b)
    return a, b


def unused(*_: Any) -> Any:
    raise AssertionError("a lazy function has no strict meaning")


def widen(value: Any, from_: DataType, to: DataType) -> Any:
    if value is not None and from_ == t.DATE and to == t.TIMESTAMP:
        return value * DAY
    return fit(value, to)
