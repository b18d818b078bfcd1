"""sqlglot's expressions to typed ones. What is not in the tables here is refused, never passed on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from laminar_dagster.errors import LaminarError, NotWiredError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, RowError
from laminar_dagster.semantics.functions import FUNCTIONS, ArgumentTypeError, callable_names, cast_value, castable
from laminar_dagster.sql import literals
from laminar_dagster.sql.calls import CLOCK_FUNCTIONS, TAKE_A_TIME, call_aggregate, call_function, depends_on_the_clock
from laminar_dagster.sql.intervals import fixed, from_node
from laminar_dagster.sql.names import Scope, refuse_extras
from laminar_dagster.sql.nodes import Extract, Plus, TypedLiteral
from laminar_dagster.sql.windows import WindowUse, as_timestamp_hint

if TYPE_CHECKING:
    from laminar_dagster.sql.aggregates import Aggregates


class Spanned(Protocol):
    """A statement that knows where its pieces stand."""

    def span(self, node: exp.Expr) -> Span: ...


@dataclass
class Resolver:
    """Resolves the expressions of one place of a query: WHERE, GROUP BY, an aggregate's argument, SELECT."""

    view: Spanned
    scope: Scope
    place: str
    aggregates: Aggregates | None = None
    window: WindowUse | None = None
    columns_at: dict[str, Span] = field(default_factory=dict)

    def resolve(self, node: exp.Expr) -> Expression:
        entry = _entry(node)
        if entry is None:
            raise self.unsupported(node)
        allowed, handler = entry
        refuse_extras(node, allowed, self.at)
        return handler(self, node)

    def time(self, found: Expression) -> Expression:
        """What a function of time takes: a number that is known to be an event time is the time that it says."""
        return self.scope.times.get(found.name, found) if isinstance(found, Column) else found

    def over(self, scope: Scope, place: str) -> Resolver:
        """The same query's resolver for a place that sees rows, not groups."""
        return Resolver(self.view, scope, place)

    def at(self, node: exp.Expr) -> Span:
        return self.view.span(node)

    def condition(self, node: exp.Expr, what: str) -> Expression:
        found = self.resolve(node)
        if found.type not in (t.BOOLEAN, t.NULL):
            raise LaminarError("LMR0105", f"{what} must be BOOLEAN, not {found.type}", where=self.at(node))
        return found

    def call(self, name: str, args: list[Expression], node: exp.Expr) -> Expression:
        """A function of the table, its types checked."""
        spec = FUNCTIONS[name]
        try:
            type_ = spec.result([argument.type for argument in args])
        except ArgumentTypeError as error:
            prefix = f"{name.upper()}: " if name in callable_names() else ""
            hint = as_timestamp_hint(args[-1]) if name in TAKE_A_TIME else None
            raise LaminarError("LMR0105", f"{prefix}{error}", where=self.at(node), hint=hint) from None
        return Call(name, tuple(args), type_)

    def unsupported(self, node: exp.Expr) -> LaminarError:
        if isinstance(node, exp.Window):
            return NotWiredError(
                "LMR0904",
                "functions with OVER (…) are part of the language, but this version cannot run them yet",
                where=self.at(node),
                hint="Aggregate in a window for now: GROUP BY window_start, window_end, ….",
            )
        word = _WORDS.get(type(node)) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
        return LaminarError(
            "LMR0012", f"{word} is not supported in {self.place}", where=self.at(node), hint=_HINTS.get(type(node))
        )


# --- leaves --------------------------------------------------------------------------------------------------


def _column(r: Resolver, node: Any) -> Expression:
    where = r.at(node)
    if isinstance(node.this, exp.Star):
        raise LaminarError("LMR0012", f"* is not supported in {r.place}", where=where, hint="Name the columns.")
    name, qualifier = node.name, node.text("table") or None
    if qualifier is None and name.lower() in CLOCK_FUNCTIONS and not r.scope.has(name):
        raise depends_on_the_clock(name, where)
    if qualifier is None and name.lower() in r.scope.aliases:
        return r.scope.aliases[name.lower()]
    found = r.scope.find(name, qualifier, where)
    if isinstance(found, Column):
        r.columns_at.setdefault(found.name, where)
    return found


def _literal(r: Resolver, node: Any) -> Expression:
    return Literal(node.name, t.STRING) if node.is_string else _number(r, node.name, node)


def _number(r: Resolver, text: str, node: exp.Expr) -> Expression:
    try:
        return literals.number(text)
    except ValueError:
        raise LaminarError("LMR0106", f"{text} is not a number that a type can hold", where=r.at(node)) from None


def _null(_: Resolver, __: Any) -> Expression:
    return Literal(None, t.NULL)


def _boolean(_: Resolver, node: Any) -> Expression:
    return Literal(bool(node.this), t.BOOLEAN)


def _paren(r: Resolver, node: Any) -> Expression:
    return r.resolve(node.this)


def _interval(r: Resolver, node: Any) -> Expression:
    raise LaminarError(
        "LMR0012", f"INTERVAL is not a value of its own in {r.place}", where=r.at(node),
        hint="Add it to a TIMESTAMP or take it off: ts - INTERVAL '5' MINUTE.",
    )  # fmt: skip


# --- operators -----------------------------------------------------------------------------------------------


def _binary(name: str) -> Callable[[Resolver, Any], Expression]:
    return lambda r, node: r.call(name, [r.resolve(node.this), r.resolve(node.expression)], node)


def _arithmetic(name: str) -> Callable[[Resolver, Any], Expression]:
    return lambda r, node: r.call(name, _exact_literals(r.resolve(node.this), r.resolve(node.expression)), node)


def _exact_literals(*args: Expression) -> list[Expression]:
    """Beside a DECIMAL, Spark gives a whole number only the digits it has, and the result's scale follows from that."""
    if not any(argument.type.is_decimal for argument in args):
        return list(args)
    return [literals.exact(a) if isinstance(a, Literal) and a.type.is_integer else a for a in args]


def _comparison(name: str) -> Callable[[Resolver, Any], Expression]:
    def handler(r: Resolver, node: Any) -> Expression:
        return r.call(name, _aligned(r, [node.this, node.expression]), node)

    return handler


def _aligned(r: Resolver, nodes: list[exp.Expr]) -> list[Expression]:
    """Operands of a comparison: text that is compared with a time is read as one."""
    args = [r.resolve(node) for node in nodes]
    time = next((a.type for a in args if a.type in (t.TIMESTAMP, t.DATE)), None)
    if time is None:
        return args
    return [_as_time(r, a, time, node) for a, node in zip(args, nodes, strict=True)]


def _as_time(r: Resolver, argument: Expression, type_: t.DataType, node: exp.Expr) -> Expression:
    if not isinstance(argument, Literal) or argument.type != t.STRING:
        return argument
    return _cast_literal(r, argument, t.TIMESTAMP if len(argument.value.strip()) > 10 else type_, node)


def _cast_literal(r: Resolver, literal: Literal, type_: t.DataType, node: exp.Expr) -> Literal:
    try:
        return Literal(cast_value(literal.value, literal.type, type_), type_)
    except RowError:
        raise LaminarError("LMR0106", f"'{literal.value}' is not a {type_}", where=r.at(node)) from None


def _sum(name: str, sign: int) -> Callable[[Resolver, Any], Expression]:
    """`+` and `-`, also of a time and an interval."""

    def handler(r: Resolver, node: Any) -> Expression:
        left, right = node.this, node.expression
        if sign > 0 and isinstance(left, exp.Interval):
            left, right = right, left
        written = from_node(right, r.at(right))
        if written is None:
            return _arithmetic(name)(r, node)
        time = r.resolve(left)
        if time.type == t.DATE:
            time = Call("cast", (time,), t.TIMESTAMP)
        micros = sign * fixed(written, "an interval added to a time", "LMR0105")
        return r.call("add_micros", [time, Literal(micros, t.BIGINT)], node)

    return handler


def _negated(r: Resolver, node: Any) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(r, f"-{node.this.name}", node)
    return r.call("negate", [r.resolve(node.this)], node)


def _not(r: Resolver, node: Any) -> Expression:
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return r.call("is_not_null", [r.resolve(node.this.this)], node)
    return r.call("not", [r.resolve(node.this)], node)


def _is(r: Resolver, node: Any) -> Expression:
    operand = r.resolve(node.this)
    if isinstance(node.expression, exp.Null):
        return r.call("is_null", [operand], node)
    if not isinstance(node.expression, exp.Boolean):
        raise r.unsupported(node)
    return r.call("not", [r.call("distinct_from", [operand, _boolean(r, node.expression)], node)], node)


def _not_distinct(r: Resolver, node: Any) -> Expression:
    return r.call("not", [_comparison("distinct_from")(r, node)], node)


def _between(r: Resolver, node: Any) -> Expression:
    low = r.call("ge", _aligned(r, [node.this, node.args["low"]]), node)
    high = r.call("le", _aligned(r, [node.this, node.args["high"]]), node)
    return r.call("and", [low, high], node)


def _in(r: Resolver, node: Any) -> Expression:
    if not node.expressions:
        raise LaminarError(
            "LMR0012", "IN takes a list of values here, not a query", where=r.at(node), hint="Name the values."
        )
    return r.call("in", _aligned(r, [node.this, *node.expressions]), node)


def _like(r: Resolver, node: Any) -> Expression:
    found = _binary("like")(r, node)
    return r.call("not", [found], node) if node.args.get("negate") else found


def _case(r: Resolver, node: Any) -> Expression:
    args: list[Expression] = []
    for branch in node.args["ifs"]:
        args += [_when(r, node.this, branch.this), r.resolve(branch.args["true"])]
    default = node.args.get("default")
    args.append(r.resolve(default) if default is not None else Literal(None, t.NULL))
    return r.call("case", args, node)


def _when(r: Resolver, operand: exp.Expr | None, condition: exp.Expr) -> Expression:
    if operand is None:
        return r.condition(condition, "a condition of CASE")
    return r.call("eq", _aligned(r, [operand, condition]), condition)


def _cast(r: Resolver, node: Any) -> Expression:
    operand, type_ = r.resolve(node.this), _type_of(r, node)
    if operand.type == type_:
        return operand
    if type_ == t.DATE:
        operand = r.time(operand)
    if not castable(operand.type, type_):
        hint = as_timestamp_hint(operand) if type_ == t.DATE else None
        raise LaminarError("LMR0105", f"{operand.type} cannot be cast to {type_}", where=r.at(node), hint=hint)
    if isinstance(operand, Literal):
        return _cast_literal(r, operand, type_, node) if operand.value is not None else Literal(None, type_)
    if type_ == t.DATE and operand.type == t.TIMESTAMP:
        return r.call("date", [operand], node)
    return Call("cast", (operand,), type_)


def named_type(to: Any) -> t.DataType:
    """The type that a cast names; ValueError where it makes none of that name."""
    name = _TYPES.get(to.this)
    sizes = ",".join(parameter.name for parameter in to.expressions) if name == "DECIMAL" else ""
    return t.parse_type(f"{name}({sizes})" if sizes else str(name))


def _type_of(r: Resolver, node: Any) -> t.DataType:
    to = node.args["to"]
    try:
        return named_type(to)
    except ValueError:
        shown = to.sql("spark")
        raise LaminarError(
            "LMR0101", f"CAST cannot make {shown}", where=r.at(node), hint=f"It makes {', '.join(_CASTABLE)}."
        ) from None


_D = exp.DType
_TYPES = {
    _D.TINYINT: "TINYINT", _D.SMALLINT: "SMALLINT", _D.INT: "INT", _D.BIGINT: "BIGINT", _D.FLOAT: "FLOAT",
    _D.DOUBLE: "DOUBLE", _D.DECIMAL: "DECIMAL", _D.BOOLEAN: "BOOLEAN", _D.TEXT: "STRING", _D.VARCHAR: "STRING",
    _D.CHAR: "STRING", _D.DATE: "DATE", _D.TIMESTAMP: "TIMESTAMP", _D.TIMESTAMPTZ: "TIMESTAMP",
    _D.TIMESTAMPLTZ: "TIMESTAMP",
}  # fmt: skip
_CASTABLE = tuple(dict.fromkeys(_TYPES.values()))


def _concatenation(r: Resolver, node: Any) -> Expression:
    args: list[Expression] = []
    for part in (node.this, node.expression):
        found = r.resolve(part)
        flat = isinstance(found, Call) and found.function == "concat" and isinstance(part, exp.DPipe)
        args += found.args if flat and isinstance(found, Call) else [found]
    return r.call("concat", args, node)


# --- the table -----------------------------------------------------------------------------------------------

_TWO = {"this", "expression"}
Handler = Callable[[Resolver, Any], Expression]
NODES: dict[type[exp.Expr], tuple[set[str], Handler]] = {
    exp.Column: ({"this", "table"}, _column),
    exp.Literal: ({"this", "is_string"}, _literal),
    exp.Null: (set(), _null),
    exp.Boolean: ({"this"}, _boolean),
    exp.Paren: ({"this"}, _paren),
    Plus: ({"this"}, _paren),
    exp.Interval: ({"this", "unit"}, _interval),
    exp.Add: (_TWO, _sum("add", 1)),
    exp.Sub: (_TWO, _sum("subtract", -1)),
    exp.Mul: (_TWO, _arithmetic("multiply")),
    exp.Div: (_TWO | {"typed", "safe"}, _arithmetic("divide")),
    exp.Mod: (_TWO, _arithmetic("mod")),
    exp.Neg: ({"this"}, _negated),
    exp.EQ: (_TWO, _comparison("eq")),
    exp.NEQ: (_TWO, _comparison("ne")),
    exp.LT: (_TWO, _comparison("lt")),
    exp.LTE: (_TWO, _comparison("le")),
    exp.GT: (_TWO, _comparison("gt")),
    exp.GTE: (_TWO, _comparison("ge")),
    exp.NullSafeEQ: (_TWO, _not_distinct),
    exp.NullSafeNEQ: (_TWO, _comparison("distinct_from")),
    exp.And: (_TWO, _binary("and")),
    exp.Or: (_TWO, _binary("or")),
    exp.Not: ({"this"}, _not),
    exp.Is: (_TWO, _is),
    exp.Between: ({"this", "low", "high"}, _between),
    exp.In: ({"this", "expressions", "query"}, _in),
    exp.Like: (_TWO | {"negate"}, _like),
    exp.Case: ({"this", "ifs", "default"}, _case),
    exp.Cast: ({"this", "to"}, _cast),
    TypedLiteral: ({"this", "to"}, _cast),
    exp.DPipe: (_TWO | {"safe"}, _concatenation),
    exp.Anonymous: ({"this", "expressions"}, call_function),
    Extract: ({"this", "expressions", "part"}, call_function),
    exp.Filter: (_TWO, call_aggregate),
    exp.WithinGroup: (_TWO, call_aggregate),
}


def _entry(node: exp.Expr) -> tuple[set[str], Handler] | None:
    return NODES.get(type(node))


_WORDS: Mapping[type[exp.Expr], str] = {
    exp.Subquery: "a query in parentheses",
    exp.Select: "a query",
    exp.Exists: "EXISTS",
    exp.Distinct: "DISTINCT",
    exp.Star: "*",
    exp.Bracket: "an element of an array or map",
    exp.Dot: "a field of a STRUCT",
    exp.TryCast: "TRY_CAST",
    exp.Alias: "AS",
    exp.Lambda: "a lambda",
    exp.IntDiv: "DIV",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.Escape: "ESCAPE",
    exp.Tuple: "a list in parentheses",
}
_HINTS: Mapping[type[exp.Expr], str] = {
    exp.TryCast: "CAST sets a row that cannot be cast aside, in the side output.",
    exp.ILike: "Compare LOWER(…) LIKE '…'.",
    exp.Subquery: "Make it a view of its own, or write it in FROM.",
    exp.Star: "Name the columns.",
    exp.IgnoreNulls: "Leave NULL out with FILTER (WHERE … IS NOT NULL).",
}
