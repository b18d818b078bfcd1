"""Arithmetic and numeric functions: overflow and division by zero are reasons, never wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions.table import (
    ArgumentTypeError,
    Types,
    checked,
    common,
    numbers,
    register,
    widen,
)
from laminar_dagster.semantics.functions.values import fit, order
from laminar_dagster.semantics.types import DataType


def _arithmetic(name: str, symbol: str, compute: Callable[[Any, Any], Any]) -> None:
    def result(types: Types) -> DataType:
        type_ = t.arithmetic_type(name, *types)
        if type_ is None:
            raise ArgumentTypeError(f"there is no {types[0]} {symbol} {types[1]}")
        return type_

    def run(type_: DataType, _: Types, a: Any, b: Any) -> Any:
        if type_.is_float:
            a, b = float(a), float(b)
        elif type_.is_decimal:
            a, b = Decimal(a), Decimal(b)
        if name in ("divide", "mod") and b == 0:
            raise RowError("division_by_zero")
        with localcontext() as context:
            context.prec = 100
            return fit(compute(a, b), type_)

    def spark(type_: DataType, _: Types, a: str, b: str) -> str:
        if type_.is_float and name in ("add", "subtract", "multiply"):
            return f"({a} {symbol} {b})"
        return f"try_{name}({a}, {b})"

    def error(type_: DataType, _: Types, a: str, b: str) -> str | None:
        return _arithmetic_error(name, type_, a, b)

    register(name, 2, result, run, spark, lambda _, a, b: f"({a} {symbol} {b})", error=error)


def _arithmetic_error(name: str, type_: DataType, a: str, b: str) -> str | None:
    missing = f"try_{name}({a}, {b}) IS NULL AND {a} IS NOT NULL AND {b} IS NOT NULL"
    overflow = f"CASE WHEN {missing} THEN 'overflow' END"
    if name not in ("divide", "mod"):
        return None if type_.is_float else overflow
    zero = f"CASE WHEN {b} = 0 AND {a} IS NOT NULL THEN 'division_by_zero' END"
    return f"coalesce({zero}, {overflow})" if type_.is_decimal else zero


def _divide(a: Any, b: Any) -> Any:
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return math.nan if math.isinf(a) else math.fmod(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


_arithmetic("add", "+", lambda a, b: a + b)
_arithmetic("subtract", "-", lambda a, b: a - b)
_arithmetic("multiply", "*", lambda a, b: a * b)
_arithmetic("divide", "/", lambda a, b: _divide(float(a) if isinstance(a, int) else a, b))
_arithmetic("mod", "%", _remainder)


def _same_number(types: Types) -> DataType:
    numbers(types)
    return types[0]


def _smallest_overflows(type_: DataType, _: Types, x: str) -> str | None:
    if not type_.is_integer:
        return None
    smallest = -(1 << (t.INTEGER_BITS[type_.name] - 1))
    return f"CASE WHEN {x} = {smallest + 1} - 1 THEN 'overflow' END"


def _negated(type_: DataType, _: Types, x: Any) -> Any:
    return fit(x.copy_negate() if isinstance(x, Decimal) else -x, type_)


def _absolute(type_: DataType, _: Types, x: Any) -> Any:
    return fit(x.copy_abs() if isinstance(x, Decimal) else abs(x), type_)


def _exponential(_: DataType, __: Types, x: Any) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _power(_: DataType, __: Types, x: Any, y: Any) -> float:
    """As the JVM's pow: NaN and infinities, where Python raises."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, x) if math.fmod(y, 2) in (1, -1) else math.inf
    except ValueError:
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if math.fmod(y, 2) in (1, -1) else math.inf


register(
    "negate", 1, _same_number, _negated,
    lambda _, __, x: f"(-{x})", lambda _, x: f"-{x}", error=_smallest_overflows,
)  # fmt: skip
register("abs", 1, _same_number, _absolute, error=_smallest_overflows)
register("sqrt", 1, checked(numbers, t.DOUBLE), lambda _, __, x: math.sqrt(x) if x >= 0 else math.nan)
register("exp", 1, checked(numbers, t.DOUBLE), _exponential)
register("ln", 1, checked(numbers, t.DOUBLE), lambda _, __, x: None if x <= 0 else math.log(x))
register("power", 2, checked(numbers, t.DOUBLE), _power)
register("sign", 1, checked(numbers, t.DOUBLE), lambda _, __, x: x if x != x else float((x > 0) - (x < 0)))


def _whole(name: str, compute: Callable[[Any], int]) -> None:
    def result(types: Types) -> DataType:
        numbers(types)
        if types[0].is_decimal:
            return t.decimal(min(38, types[0].precision - types[0].scale + 1), 0)
        return t.BIGINT

    def run(type_: DataType, _: Types, x: Any) -> Any:
        if isinstance(x, float) and not math.isfinite(x):
            raise RowError("overflow")
        return fit(compute(x), type_)

    def error(_: DataType, types: Types, x: str) -> str | None:
        """Spark gives the nearest BIGINT, which would be a wrong number; NaN is greater than any number there."""
        if not types[0].is_float:
            return None
        return f"CASE WHEN {x} >= 9.223372036854775807E18D OR {x} < -9.223372036854775808E18D THEN 'overflow' END"

    register(name, 1, result, run, error=error)


_whole("floor", math.floor)
_whole("ceil", math.ceil)


def _round(type_: DataType, _: Types, x: Any, digits: int = 0) -> Any:
    if isinstance(x, float) and (not math.isfinite(x) or (abs(x) >= 2**53 and digits >= 0)):
        return x
    exact = Decimal(repr(x)) if isinstance(x, float) else Decimal(x)
    with localcontext() as context:
        context.prec = 100
        rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return fit(float(rounded) if type_.is_float else rounded, type_)


def _round_type(types: Types) -> DataType:
    numbers(types)
    if types[0].is_decimal:
        raise ArgumentTypeError("ROUND of a DECIMAL is not supported; CAST(… AS DECIMAL(p, s)) rounds half up")
    return types[0]


register("round", (1, 2), _round_type, _round)


def _extreme(name: str, choose: Callable[..., Any]) -> None:
    def compute(type_: DataType, types: Types, *values: Any) -> Any:
        pairs = zip(values, types, strict=True)
        present = [widen(value, from_, type_) for value, from_ in pairs if value is not None]
        return choose(present, key=order) if present else None

    register(name, (2, None), common, compute, takes_null=True)


_extreme("greatest", max)
_extreme("least", min)
