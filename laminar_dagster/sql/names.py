"""What names an expression may use, and what each stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression
from laminar_dagster.semantics.functions.windows import WINDOW_ID, window_id_call
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, Field
from laminar_dagster.sql.dialect import extent

# A column that only exists once rows are grouped: a window's bound or an aggregate's result. The mark keeps it
# apart from a source's column of the same name.
_MARK = "\x00"

BOUNDS = {WINDOW_START: Column(_MARK + WINDOW_START, t.TIMESTAMP), WINDOW_END: Column(_MARK + WINDOW_END, t.TIMESTAMP)}
# The plan's own name is put in once there is a plan (plan/window_ids.py).
_WINDOW_ID = window_id_call("", BOUNDS[WINDOW_START], BOUNDS[WINDOW_END])


def grouped(name: str, type_: t.DataType) -> Column:
    return Column(_MARK + name, type_)


def is_grouped(column: Column) -> bool:
    return column.name.startswith(_MARK)


def unmarked(column: Column) -> Column:
    return Column(column.name.removeprefix(_MARK), column.type)


@dataclass(frozen=True)
class Scope:
    """The columns of FROM, the names under which they may be qualified, and what stands for them in messages.

    `times`: columns of numbers that are known to be event times, and the time that each says.
    """

    fields: tuple[Field, ...]
    qualifiers: frozenset[str]
    described: str
    bounds: bool = False
    hides_bounds: bool = False
    aliases: Mapping[str, Expression] = field(default_factory=dict)
    times: Mapping[str, Expression] = field(default_factory=dict)

    def find(self, name: str, qualifier: str | None, where: Span) -> Expression:
        if qualifier is not None and qualifier.lower() not in self.qualifiers:
            raise LaminarError(
                "LMR0103",
                f'"{qualifier}" is not a table of this query',
                where=where,
                hint=did_you_mean(qualifier, self.qualifiers),
            )
        if self.bounds and name.lower() in BOUNDS:
            return BOUNDS[name.lower()]
        if self.bounds and name.lower() == WINDOW_ID and not self.has(name):
            return _WINDOW_ID
        if self.hides_bounds and (name.lower() in BOUNDS or (name.lower() == WINDOW_ID and not self.has(name))):
            raise LaminarError(
                "LMR0203",
                f'"{name}" is a bound of the window, and rows are looked at before they are in one',
                where=where,
                hint="Filter on it with HAVING. If the source has a column of that name, "
                "give it another one in a query in FROM.",
            )
        matches = [f for f in self.fields if f.name.lower() == name.lower()]
        if len(matches) > 1:
            raise LaminarError("LMR0104", f'column "{name}" is ambiguous', where=where)
        if not matches:
            raise self.missing(name, where)
        return Column(matches[0].name, matches[0].type)

    def has(self, name: str) -> bool:
        return any(f.name.lower() == name.lower() for f in self.fields)

    def missing(self, name: str, where: Span) -> LaminarError:
        if name.lower() in (*BOUNDS, WINDOW_ID):
            return LaminarError(
                "LMR0203",
                f'"{name}" exists only in a query with a window',
                where=where,
                hint="Read from TUMBLE(source, event_time, INTERVAL '…'), or put a window in GROUP BY.",
            )
        known = [f.name for f in self.fields] + list(self.aliases) + (list(BOUNDS) if self.bounds else [])
        return LaminarError(
            "LMR0102", f'column "{name}" does not exist in {self.described}', where=where,
            hint=did_you_mean(name, known),
        )  # fmt: skip


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with its columns replaced by what they stand for."""
    if isinstance(expression, Column):
        return columns.get(expression.name, expression)
    if isinstance(expression, Call):
        args = tuple(substitute(argument, columns) for argument in expression.args)
        return Call(expression.function, args, expression.type)
    return expression


@dataclass(frozen=True)
class Reason:
    """Why a clause is refused, and what to write instead."""

    problem: str
    hint: str | None = None


def refuse_extras(
    node: exp.Expr, allowed: set[str], at: Callable[[exp.Expr], Span], reasons: Mapping[str, Reason] | None = None
) -> None:
    """Nothing that was written is left unread: an argument outside `allowed` refuses the query."""
    for name, value in node.args.items():
        if name in allowed or value is None or value is False or value == []:
            continue
        word = name.rstrip("_").replace("_", " ").upper()
        reason = (reasons or {}).get(name, Reason(f"{word} is not supported here"))
        raise LaminarError("LMR0011", reason.problem, where=_place_of(node, value, at), hint=reason.hint)


def _place_of(node: exp.Expr, value: object, at: Callable[[exp.Expr], Span]) -> Span:
    """The clause itself if it kept its place, else the first word of what it belongs to."""
    clause = value[0] if isinstance(value, list) else value
    if isinstance(clause, exp.Expr) and not isinstance(clause, exp.Hint) and extent(clause) is not None:
        return at(clause)
    whole = at(node)
    first_word = whole.text[whole.start : whole.end].split(maxsplit=1)[0]
    return replace(whole, end=whole.start + len(first_word))
