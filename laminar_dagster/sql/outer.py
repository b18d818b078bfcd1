"""The query around one that numbers rows: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS n …) WHERE n <= 3."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Expression, Named, columns_of
from laminar_dagster.semantics.query import RANK, Field, Ranking
from laminar_dagster.sql.clause_refusals import SELECT_REASONS
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.names import Scope, refuse_extras, substitute
from laminar_dagster.sql.ranking import ROW_NUMBER, conjuncts, limited, mentions
from laminar_dagster.sql.selecting import chosen_columns
from laminar_dagster.sql.statements import ViewStatement


@dataclass
class OuterReader:
    """Reads the query around one that numbers rows: it chooses columns and rows, and nothing else."""

    view: ViewStatement
    select: Any
    name: str | None
    columns: tuple[Named, ...]
    ranking: Ranking

    def read(self) -> tuple[tuple[Named, ...], Ranking]:
        for clause in ("group", "having"):
            if self.select.args.get(clause) is not None:
                raise LaminarError(
                    "LMR0011", "a query around row numbers can choose rows and columns, but not aggregate",
                    where=self.view.span(self.select.args[clause]),
                    hint="Make it a view of its own and read from that.",
                )  # fmt: skip
        refuse_extras(self.select, {"expressions", "from_", "where", "with_"}, self.view.span, SELECT_REASONS)
        return self._output(), self._ranking()

    @property
    def _scope(self) -> Scope:
        fields = tuple(Field(named.name, named.type) for named in self.columns)
        return Scope(fields, frozenset({self.name.lower()} if self.name else ()), "the query in FROM")

    def _output(self) -> tuple[Named, ...]:
        chosen = chosen_columns(self.select, Resolver(self.view, self._scope, "SELECT"))
        return tuple(Named(named.name, self._shown(named.expression, place)) for named, place in chosen)

    def _shown(self, expression: Expression, where: Span) -> Expression:
        meaning = substitute(expression, {named.name: named.expression for named in self.columns})
        if RANK in columns_of(meaning) and meaning != ROW_NUMBER:
            raise LaminarError(
                "LMR0221", "a row number can be selected, but not computed with", where=where,
                hint="Select the number itself, and compute where you read the view.",
            )  # fmt: skip
        return meaning

    def _ranking(self) -> Ranking:
        clause = self.select.args.get("where")
        if clause is None:
            return self.ranking
        number = {named.name.lower() for named in self.columns if named.expression == ROW_NUMBER}

        def is_number(node: Any) -> bool:
            return isinstance(node, exp.Column) and node.name.lower() in number

        ranking = limited(self.ranking, clause.this, is_number, self.view.span)
        others = [part for part in conjuncts(clause.this) if not mentions(part, is_number)]
        return replace(ranking, where=self._condition(others))

    def _condition(self, nodes: list[Any]) -> Expression | None:
        r = Resolver(self.view, self._scope, "WHERE")
        meanings = {named.name: named.expression for named in self.columns}
        found: Expression | None = None
        for node in nodes:
            part = substitute(r.condition(node, "WHERE"), meanings)
            found = part if found is None else Call("and", (found, part), t.BOOLEAN)
        return found
