"""The table of scalar functions and operators: result type, Python meaning, Spark SQL, and how each can fail.

A function that is not in this table is refused when the view is planned, so every expression that runs on
Spark also runs in the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Expression, Literal, RowError
from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, SECOND, WEEK, to_datetime
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

OPERATORS = frozenset({
    "add", "subtract", "multiply", "divide", "mod", "negate", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
    "is_null", "is_not_null", "in", "like", "cast", "case", "distinct_from", "add_micros",
})  # fmt: skip


def callable_names() -> list[str]:
    """The functions that a user calls by name."""
    return sorted(set(FUNCTIONS) - OPERATORS)


# --- values -------------------------------------------------------------------------------------------------


def fit(value: Any, type_: DataType) -> Any:
    """The value in the range of its type; RowError if it does not fit."""
    if value is None:
        return None
    if type_.is_integer:
        bits = t.INTEGER_BITS[type_.name]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise RowError("overflow")
        return int(value)
    if type_.is_decimal:
        return _fit_decimal(value, type_)
    return float(value) if type_.is_float else value


def _fit_decimal(value: Any, type_: DataType) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        exact = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
        rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP)
        limit = Decimal(1).scaleb(type_.precision - type_.scale)
    if rounded.copy_abs() >= limit:
        raise RowError("overflow")
    return rounded


def order(value: Any) -> tuple[bool, Any]:
    """What Spark orders and compares by: NaN equals NaN and is greater than any number."""
    not_a_number = isinstance(value, float) and math.isnan(value)
    return (not_a_number, 0.0 if not_a_number else value)


def literal_sql(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL"
    if type_ == t.BOOLEAN:
        return "true" if value else "false"
    if type_ == t.STRING:
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type_ == t.TIMESTAMP:
        return f"timestamp_micros({value})"
    if type_ == t.DATE:
        return f"date_from_unix_date({value})"
    if type_.is_decimal:
        return f"{value:f}BD"
    if type_.is_float:
        return f"{value!r}D"
    return f"{value}L" if type_ == t.BIGINT else str(value)


# --- registering ---------------------------------------------------------------------------------------------


def _register(
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


def _always(type_: DataType) -> Callable[[Types], DataType]:
    return lambda _: type_


def _strings(types: Types) -> None:
    for type_ in types:
        if type_ not in (t.STRING, t.NULL):
            raise ArgumentTypeError(f"it takes STRING, not {type_}; CAST(… AS STRING) makes one")


def _numbers(types: Types) -> None:
    for type_ in types:
        if not type_.is_numeric and not type_.is_null:
            raise ArgumentTypeError(f"it takes a number, not {type_}")


def _times(types: Types) -> None:
    for type_ in types:
        if type_ not in (t.TIMESTAMP, t.DATE, t.NULL):
            raise ArgumentTypeError(f"it takes a TIMESTAMP or DATE, not {type_}")


def _booleans(types: Types) -> DataType:
    for type_ in types:
        if type_ not in (t.BOOLEAN, t.NULL):
            raise ArgumentTypeError(f"it takes BOOLEAN, not {type_}")
    return t.BOOLEAN


def _checked(check: Callable[[Types], Any], type_: DataType) -> Callable[[Types], DataType]:
    def result(types: Types) -> DataType:
        check(types)
        return type_

    return result


# --- arithmetic ----------------------------------------------------------------------------------------------


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

    _register(name, 2, result, run, spark, lambda _, a, b: f"({a} {symbol} {b})", error=error)


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
    _numbers(types)
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


_register(
    "negate", 1, _same_number, _negated,
    lambda _, __, x: f"(-{x})", lambda _, x: f"-{x}", error=_smallest_overflows,
)  # fmt: skip
_register("abs", 1, _same_number, _absolute, error=_smallest_overflows)
_register("sqrt", 1, _checked(_numbers, t.DOUBLE), lambda _, __, x: math.sqrt(x) if x >= 0 else math.nan)
_register("exp", 1, _checked(_numbers, t.DOUBLE), _exponential)
_register("ln", 1, _checked(_numbers, t.DOUBLE), lambda _, __, x: None if x <= 0 else math.log(x))
_register("power", 2, _checked(_numbers, t.DOUBLE), _power)
_register("sign", 1, _checked(_numbers, t.DOUBLE), lambda _, __, x: x if x != x else float((x > 0) - (x < 0)))


def _whole(name: str, compute: Callable[[Any], int]) -> None:
    def result(types: Types) -> DataType:
        _numbers(types)
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

    _register(name, 1, result, run, error=error)


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
    _numbers(types)
    if types[0].is_decimal:
        raise ArgumentTypeError("ROUND of a DECIMAL is not supported; CAST(… AS DECIMAL(p, s)) rounds half up")
    return types[0]


_register("round", (1, 2), _round_type, _round)


def _common(types: Types) -> DataType:
    type_ = t.common_type(list(types))
    if type_ is None:
        raise ArgumentTypeError(f"the arguments have no common type: {', '.join(map(str, types))}")
    return type_


def _extreme(name: str, choose: Callable[..., Any]) -> None:
    def compute(type_: DataType, types: Types, *values: Any) -> Any:
        pairs = zip(values, types, strict=True)
        present = [_widen(value, from_, type_) for value, from_ in pairs if value is not None]
        return choose(present, key=order) if present else None

    _register(name, (2, None), _common, compute, takes_null=True)


_extreme("greatest", max)
_extreme("least", min)


# --- comparison and logic ------------------------------------------------------------------------------------


def _comparable(types: Types) -> DataType:
    if t.common_type(list(types)) is None:
        raise ArgumentTypeError(f"{types[0]} and {types[-1]} cannot be compared; CAST one of them")
    return t.BOOLEAN


def _comparison(name: str, symbol: str, compute: Callable[[Any, Any], bool]) -> None:
    def run(_: DataType, types: Types, a: Any, b: Any) -> bool:
        left, right = _aligned(types, a, b)
        return compute(order(left), order(right))

    def text(_: Any, *args: Any) -> str:
        return f"({args[-2]} {symbol} {args[-1]})"

    _register(name, 2, _comparable, run, text, text)


def _aligned(types: Types, a: Any, b: Any) -> tuple[Any, Any]:
    """Both values in the type in which Spark would compare them."""
    if {types[0].name, types[1].name} == {"DATE", "TIMESTAMP"}:
        return (a * DAY, b) if types[0] == t.DATE else (a, b * DAY)
    if types[0].is_float or types[1].is_float:
        return float(a), float(b)
    return a, b


_comparison("eq", "=", lambda a, b: a == b)
_comparison("ne", "<>", lambda a, b: a != b)
_comparison("lt", "<", lambda a, b: a < b)
_comparison("le", "<=", lambda a, b: a <= b)
_comparison("gt", ">", lambda a, b: a > b)
_comparison("ge", ">=", lambda a, b: a >= b)


def _distinct(_: DataType, types: Types, a: Any, b: Any) -> bool:
    if a is None or b is None:
        return (a is None) != (b is None)
    left, right = _aligned(types, a, b)
    return order(left) != order(right)


_register(
    "distinct_from", 2, _comparable, _distinct, lambda _, __, a, b: f"(NOT ({a} <=> {b}))",
    lambda _, a, b: f"({a} IS DISTINCT FROM {b})", takes_null=True,
)  # fmt: skip
_register(
    "is_null", 1, _always(t.BOOLEAN), lambda _, __, x: x is None, lambda _, __, x: f"({x} IS NULL)",
    lambda _, x: f"({x} IS NULL)", takes_null=True,
)  # fmt: skip
_register(
    "is_not_null", 1, _always(t.BOOLEAN), lambda _, __, x: x is not None, lambda _, __, x: f"({x} IS NOT NULL)",
    lambda _, x: f"({x} IS NOT NULL)", takes_null=True,
)  # fmt: skip
_register("not", 1, _booleans, lambda _, __, x: not x, lambda _, __, x: f"(NOT {x})", lambda _, x: f"(NOT {x})")


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

    _register(name, 2, _booleans, _unused, text, text, lazy=lazy, lazy_error=lazy_error)


def _unused(*_: Any) -> Any:
    raise AssertionError("a lazy function has no strict meaning")


_logical("and", decides=False)
_logical("or", decides=True)


def _in(_: DataType, types: Types, x: Any, *values: Any) -> bool | None:
    if x is None:
        return None
    matches = [
        None if v is None else _aligned((types[0], type_), x, v) for v, type_ in zip(values, types[1:], strict=True)
    ]
    if any(pair is not None and order(pair[0]) == order(pair[1]) for pair in matches):
        return True
    return None if None in matches else False


_register(
    "in", (2, None), _comparable, _in, lambda _, __, x, *v: f"({x} IN ({', '.join(v)}))",
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


_register(
    "like", 2, _checked(_strings, t.BOOLEAN), _like, lambda _, __, a, b: f"({a} LIKE {b})",
    lambda _, a, b: f"({a} LIKE {b})",
)  # fmt: skip


# --- conditionals --------------------------------------------------------------------------------------------


def _case(args: tuple[Expression, ...], type_: DataType, value: Evaluator) -> Any:
    for condition, result in zip(args[:-1:2], args[1:-1:2], strict=True):
        if value(condition) is True:
            return _widen(value(result), result.type, type_)
    return _widen(value(args[-1]), args[-1].type, type_)


def _widen(value: Any, from_: DataType, to: DataType) -> Any:
    if value is not None and from_ == t.DATE and to == t.TIMESTAMP:
        return value * DAY
    return fit(value, to)


def _case_type(types: Types) -> DataType:
    _booleans(types[:-1:2])
    return _common([*types[1:-1:2], types[-1]])


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


_register(
    "case", (3, None), _case_type, _unused, lambda _, __, *a: _case_text(*a), lambda _, *a: _case_text(*a),
    lazy=_case, lazy_error=_case_error,
)  # fmt: skip


def _coalesce(args: tuple[Expression, ...], type_: DataType, value: Evaluator) -> Any:
    for argument in args:
        found = value(argument)
        if found is not None:
            return _widen(found, argument.type, type_)
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


_register("coalesce", (1, None), _common, _unused, lazy=_coalesce, lazy_error=_coalesce_error)


def _nullif(_: DataType, types: Types, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a
    left, right = _aligned(types, a, b)
    return None if order(left) == order(right) else a


def _first_type(types: Types) -> DataType:
    _comparable(types)
    return types[0]


_register("nullif", 2, _first_type, _nullif, takes_null=True)


# --- casts ---------------------------------------------------------------------------------------------------

CASTS = {
    "BOOLEAN": {"BOOLEAN", "STRING"},
    "STRING": {"BOOLEAN", "STRING", "number", "DATE", "TIMESTAMP"},
    "DATE": {"DATE", "TIMESTAMP", "STRING"},
    "TIMESTAMP": {"DATE", "TIMESTAMP", "STRING"},
    "number": {"number", "STRING"},
}


def _family(type_: DataType) -> str:
    return "number" if type_.is_numeric else type_.name


def castable(from_: DataType, to: DataType) -> bool:
    return from_.is_null or _family(to) in CASTS.get(_family(from_), set())


def cast_value(value: Any, from_: DataType, to: DataType) -> Any:
    try:
        return _cast(value, from_, to)
    except (ValueError, InvalidOperation):
        raise RowError("invalid_cast" if from_ == t.STRING else "overflow") from None


def _cast(value: Any, from_: DataType, to: DataType) -> Any:
    if from_ == to:
        return value
    if to == t.STRING:
        return cast_to_text(value, from_)
    if to == t.BOOLEAN:
        return _boolean_from_text(value)
    if to in (t.DATE, t.TIMESTAMP):
        return _cast_to_time(value, from_, to)
    if from_ == t.STRING:
        return _number_from_text(value, to)
    if from_.is_float and not to.is_float and not math.isfinite(value):
        raise RowError("overflow")
    return fit(math.trunc(value) if to.is_integer else value, to)


def _boolean_from_text(text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "t", "yes", "y", "1"):
        return True
    if word in ("false", "f", "no", "n", "0"):
        return False
    raise ValueError(text)


def _number_from_text(text: str, to: DataType) -> Any:
    trimmed = text.strip()
    if "_" in trimmed:
        raise ValueError(text)
    if to.is_float:
        return float(trimmed)
    if to.is_integer and not re.fullmatch(r"[+-]?[0-9]+", trimmed):
        raise ValueError(text)
    exact = Decimal(trimmed)
    if not exact.is_finite():
        raise ValueError(text)
    try:
        return fit(exact, to)
    except RowError:
        raise ValueError(text) from None


def _cast_to_time(value: Any, from_: DataType, to: DataType) -> int:
    if from_ == t.STRING:
        moment = datetime.fromisoformat(value.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    else:
        micros = value * DAY if from_ == t.DATE else value
    return micros // DAY if to == t.DATE else micros


def cast_to_text(value: Any, from_: DataType) -> str:
    if from_ == t.BOOLEAN:
        return "true" if value else "false"
    if from_ == t.DATE:
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if from_ == t.TIMESTAMP:
        return _timestamp_text(value)
    if from_.is_float:
        return _double_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _timestamp_text(micros: int) -> str:
    moment = to_datetime(micros)
    text = moment.replace(microsecond=0, tzinfo=None).isoformat(" ")
    return f"{text}.{moment.microsecond:06d}".rstrip("0") if moment.microsecond else text


def _double_text(value: float) -> str:
    """As the JVM prints a double."""
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, exponent = f"{Decimal(repr(value)):E}".split("E")
    digits = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


_DATED = "'^ *[0-9]{4}-[0-9]{2}-[0-9]{2}'"


def _cast_sql(type_: DataType, types: Types, x: str) -> str:
    """Text becomes a time only if it begins with a date: Spark would complete `12:00` with today's."""
    if types[0] == t.STRING and type_ in (t.DATE, t.TIMESTAMP):
        return f"try_cast(CASE WHEN rlike({x}, {_DATED}) THEN {x} END AS {type_})"
    return f"try_cast({x} AS {type_})"


def _cast_error(type_: DataType, types: Types, x: str) -> str | None:
    if types[0] == type_ or type_ == t.STRING:
        return None
    reason = "invalid_cast" if types[0] == t.STRING else "overflow"
    return f"CASE WHEN {x} IS NOT NULL AND {_cast_sql(type_, types, x)} IS NULL THEN '{reason}' END"


_register(
    "cast", 1, _always(t.NULL), lambda type_, types, x: cast_value(x, types[0], type_), _cast_sql,
    lambda type_, x: f"CAST({x} AS {type_})", error=_cast_error,
)  # fmt: skip


# --- text ----------------------------------------------------------------------------------------------------


def _text(name: str, arguments: int, compute: Callable[..., Any], result: DataType = t.STRING) -> None:
    _register(name, arguments, _checked(_strings, result), lambda _, __, *a: compute(*a))


_text("upper", 1, str.upper)
_text("lower", 1, str.lower)
_text("trim", 1, lambda s: s.strip(" "))
_text("ltrim", 1, lambda s: s.lstrip(" "))
_text("rtrim", 1, lambda s: s.rstrip(" "))
_text("reverse", 1, lambda s: s[::-1])
_text("length", 1, len, t.INT)
_text("replace", 3, lambda s, old, new: s.replace(old, new) if old else s)
_text("startswith", 2, str.startswith, t.BOOLEAN)
_text("endswith", 2, str.endswith, t.BOOLEAN)
_text("contains", 2, lambda s, part: part in s, t.BOOLEAN)
_register("concat", (1, None), _checked(_strings, t.STRING), lambda _, __, *a: "".join(a))


def _substring(_: DataType, __: Types, text: str, start: int, length: int | None = None) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _substring_type(types: Types) -> DataType:
    _strings(types[:1])
    for type_ in types[1:]:
        if not type_.is_integer and not type_.is_null:
            raise ArgumentTypeError(f"it takes a whole number, not {type_}")
    return t.STRING


_register("substring", (2, 3), _substring_type, _substring)
_register("left", 2, _substring_type, lambda _, __, s, n: s[: max(n, 0)])
_register("right", 2, _substring_type, lambda _, __, s, n: s[-n:] if n > 0 else "")


# --- time ----------------------------------------------------------------------------------------------------


def _moment(types: Types, value: int) -> datetime:
    return to_datetime(value * DAY if types[0] == t.DATE else value)


def _part(name: str, compute: Callable[[datetime], int]) -> None:
    _register(name, 1, _checked(_times, t.INT), lambda _, types, x: compute(_moment(types, x)))


_part("year", lambda m: m.year)
_part("quarter", lambda m: (m.month + 2) // 3)
_part("month", lambda m: m.month)
_part("day", lambda m: m.day)
_part("hour", lambda m: m.hour)
_part("minute", lambda m: m.minute)
_part("second", lambda m: m.second)
_part("dayofweek", lambda m: m.isoweekday() % 7 + 1)
_part("weekofyear", lambda m: m.isocalendar().week)

_register(
    "date", 1, _checked(_times, t.DATE), lambda _, types, x: x if types[0] == t.DATE else x // DAY,
    lambda _, __, x: f"CAST({x} AS DATE)",
)  # fmt: skip
_register(
    "unix_micros", 1, _checked(_times, t.BIGINT), lambda _, types, x: x * DAY if types[0] == t.DATE else x,
    lambda _, __, x: f"unix_micros(CAST({x} AS TIMESTAMP))",
)  # fmt: skip

TRUNCATIONS = {"SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR, "DAY": DAY, "WEEK": WEEK}
_MONDAY_OFFSET = 4 * DAY


def _truncated(_: DataType, types: Types, unit: str, value: int) -> int:
    micros = value * DAY if types[1] == t.DATE else value
    word = unit.upper()
    if word in TRUNCATIONS:
        offset = _MONDAY_OFFSET if word == "WEEK" else 0
        return micros - (micros - offset) % TRUNCATIONS[word]
    moment = to_datetime(micros)
    month = {"MONTH": moment.month, "QUARTER": (moment.month - 1) // 3 * 3 + 1, "YEAR": 1}[word]
    first = datetime(moment.year, month, 1, tzinfo=UTC)
    return (first - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _truncated_type(types: Types) -> DataType:
    _strings(types[:1])
    _times(types[1:])
    return t.TIMESTAMP


_register("date_trunc", 2, _truncated_type, _truncated)


def _shift_type(types: Types) -> DataType:
    _times(types[:1])
    return t.TIMESTAMP


_register(
    "add_micros", 2, _shift_type, lambda _, __, x, micros: x + micros,
    lambda _, __, x, micros: f"timestamp_micros(unix_micros({x}) + {micros})",
    lambda _, x, micros: f"({x} {'-' if micros.startswith('-') else '+'} {micros.lstrip('-')} microseconds)",
)  # fmt: skip
