"""SQL text to plans: parse, resolve, check, lay out."""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.plan import Plan, layout_of
from laminar_dagster.plan.projection import counted
from laminar_dagster.plan.pruning import pruned
from laminar_dagster.plan.rules import check
from laminar_dagster.plan.weighting import weighted
from laminar_dagster.plan.window_ids import with_window_ids
from laminar_dagster.semantics.query import Field, Query
from laminar_dagster.sql.catalog import SchemaOf
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import Script, SourceStatement, parse_script


def plan_script(text: str, *, file: str | None = None, schema_of: SchemaOf | None = None) -> tuple[Plan, ...]:
    """The plans of all views in the text, upstream first. Raises the first error of the first view that has one."""
    return plan_statements(parse_script(text, file), schema_of=schema_of)


def plan_statements(script: Script, *, schema_of: SchemaOf | None = None) -> tuple[Plan, ...]:
    """The same for statements that are parsed already; scripts of several files are added with `+`."""
    return tuple(plan_view(query) for query in resolve(script, schema_of or declared_columns_only))


def plan_view(query: Query) -> Plan:
    for error in check(query):
        raise error
    return laid_out(query)


def laid_out(query: Query) -> Plan:
    """The plan of a query that nothing is wrong with."""
    runnable = pruned(weighted(counted(query)))
    plan = Plan(runnable, layout_of(runnable))
    return replace(plan, query=with_window_ids(runnable, fingerprint(plan)))


def declared_columns_only(source: SourceStatement) -> tuple[Field, ...]:
    """For places that can read no table: a source without columns is refused."""
    raise LaminarError(
        "LMR0117",
        f'the columns of source "{source.name}" are not known',
        where=source.where,
        hint=f"Declare them: CREATE SOURCE {source.name} (column TYPE, …) WITH (…).",
    )
