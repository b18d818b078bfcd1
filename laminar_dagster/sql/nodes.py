"""Nodes of a query that sqlglot does not have, and what is noted on those that it has."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from laminar_dagster.errors import Span

# Keys of a node's notes: the piece of text it came from, and that NOT stood behind IS.
SPAN = "span"
IS_NOT = "is_not"


class TimeZone(exp.Expression):
    """The `TIME ZONE '…'` argument of a window."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    def at(self, where: Span) -> TimeZone:
        self.meta[SPAN] = (where.start, where.end)
        return self


class TypedLiteral(exp.Cast):
    """`DATE '2026-01-01'`, `10L`: a value with its type. It means the cast, and has a name of its own."""


class Extract(exp.Anonymous):
    """`EXTRACT(YEAR FROM t)`: the call `year(t)`, with the part as it was written."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Anonymous.arg_types, "part": True}


class Plus(exp.Unary):
    """`+ v`, which is `v` under another name."""


def is_not_null(node: exp.Not) -> bool:
    """`v IS NOT NULL`, and not `NOT v IS NULL`, which means the same."""
    return bool(node.meta.get(IS_NOT)) and isinstance(node.this.expression, exp.Null)
