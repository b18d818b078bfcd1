"""SQL text to plans: parse, resolve, check, lay out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from laminar_dagster.sql.configuration import Configuration
from laminar_dagster.sql.resolve import resolve, resolve_each, upstream_refused
from laminar_dagster.sql.statements import Script, SourceStatement, parse_script


def plan_script(text: str, *, file: str | None = None, schema_of: SchemaOf | None = None) -> tuple[Plan, ...]:
    """The plans of all views in the text, upstream first. Raises the first error of the first view that has one."""
    return plan_statements(parse_script(text, file), schema_of=schema_of)


def plan_statements(script: Script, *, schema_of: SchemaOf | None = None) -> tuple[Plan, ...]:
    """The same for statements that are parsed already; scripts of several files are added with `+`."""
    return tuple(plan_view(query) for query in resolve(script, schema_of or declared_columns_only))


@dataclass(frozen=True)
class Planned:
    """The views that can run, upstream first; and what is refused, by its name, with all that is wrong with it."""

    plans: tuple[Plan, ...] = ()
    refused: Mapping[str, Sequence[LaminarError]] = field(default_factory=dict)


def plan_each(script: Script, *, schema_of: SchemaOf, configuration: Configuration | None = None) -> Planned:
    """Every view that can be planned, whatever is wrong with the others; one falls with the view that it reads."""
    resolved = resolve_each(script, schema_of, configuration)
    refused = {name: [error] for name, error in resolved.refused.items()}
    plans = []
    for query in resolved.queries:
        errors = [*check(query), *_upstream(query, refused)]
        if errors:
            refused[query.view] = errors
        else:
            plans.append(laid_out(query))
    return Planned(tuple(plans), refused)


def _upstream(query: Query, refused: Mapping[str, Sequence[LaminarError]]) -> Iterator[LaminarError]:
    for view in query.views_read:
        if view in refused:
            yield upstream_refused(view, refused[view][0], query.places.get("view"))


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
