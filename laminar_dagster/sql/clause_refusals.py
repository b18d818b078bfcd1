"""Clauses that SQL has and a view does not: each refused with the reason and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.sql.names import Reason
from laminar_dagster.sql.statements import ViewStatement

SELECT_REASONS = {
    "distinct": Reason("SELECT DISTINCT is not supported", "GROUP BY the columns gives each combination once."),
    "order": Reason("a view is a table, and a table has no order", "Order the rows where you read the view."),
    "limit": Reason("a view is a table, and LIMIT would keep arbitrary rows of it", "Limit where you read the view."),
    "offset": Reason("a view is a table, and OFFSET would skip arbitrary rows of it", "Skip where you read the view."),
    "qualify": Reason("QUALIFY is not supported", "Put the query in FROM and filter with WHERE."),
    "laterals": Reason("LATERAL VIEW is not supported", "Explode the column before it reaches the source."),
    "hint": Reason("hints are not supported", "Leave the comment with + out."),
    "windows": Reason("a WINDOW clause is not supported"),
    "sort": Reason("SORT BY has no meaning for a view", "Leave it out."),
    "cluster": Reason("CLUSTER BY has no meaning for a view", "Leave it out."),
    "distribute": Reason("DISTRIBUTE BY has no meaning for a view", "Leave it out."),
    "into": Reason("INTO has no meaning for a view", "The view's name says where rows go."),
    "kind": Reason("SELECT AS STRUCT is not supported"),
    "pivots": Reason("PIVOT is not supported", "Write one aggregate with FILTER (WHERE …) for each column."),
    "sample": Reason("TABLESAMPLE would give other rows on every run", "Filter with WHERE."),
    "locks": Reason("a lock has no meaning for a view", "Leave it out."),
    "having": Reason("HAVING is not supported here"),
    "group": Reason("GROUP BY is not supported here"),
}
ALIAS_REASONS = {"columns": Reason("columns cannot be named behind the table's name", "Name them with AS in SELECT.")}
TABLE_REASONS = {
    **SELECT_REASONS,
    "db": Reason("a source is named without a schema", "CREATE SOURCE gives it a name of its own."),
    "version": Reason("a view reads what is new, so a version has no meaning", "Leave it out."),
    "when": Reason("a view reads what is new, so a point in time has no meaning", "Leave it out."),
    "joins": Reason("a join is not supported here"),
}


def refuse_joins(select: Any, view: ViewStatement, exists: Callable[[Any], None]) -> None:
    """Joins are part of the language; what they name must still exist."""
    clause = select.args.get("from_")
    joins = [*(select.args.get("joins") or []), *((clause.this.args.get("joins") or []) if clause else [])]
    if not joins:
        return
    for table in [*([clause.this] if clause else []), *(join.this for join in joins)]:
        exists(table)
    raise NotWiredError(
        "LMR0903",
        "joins are part of the language, but this version cannot run them yet",
        where=view.span(joins[0]),
        hint="UNION ALL of two sources, with one GROUP BY over both, works today.",
    )


def refuse_recursive(clause: Any, view: ViewStatement) -> None:
    if clause.args.get("recursive"):
        raise LaminarError("LMR0011", "WITH RECURSIVE is not supported", where=view.span(clause))


def refuse_grouping_sets(group: Any, view: ViewStatement) -> None:
    for name in ("grouping_sets", "cube", "rollup", "totals"):
        if group.args.get(name):
            raise LaminarError(
                "LMR0011", f"{name.replace('_', ' ').upper()} is not supported", where=view.span(group),
                hint="Write one view for each grouping.",
            )  # fmt: skip
    if group.args.get("all") is not None:
        raise LaminarError(
            "LMR0011", "GROUP BY ALL and GROUP BY DISTINCT are not supported", where=view.span(group),
            hint="Name the columns.",
        )  # fmt: skip
