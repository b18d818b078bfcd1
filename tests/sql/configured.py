"""Scripts together with a laminar.toml, as a project would plan them."""

from __future__ import annotations

import tomllib

from laminar_dagster.plan.build import declared_columns_only
from laminar_dagster.plan.explain import explain
from laminar_dagster.plan.plan import Plan, layout_of
from laminar_dagster.semantics.query import Query
from laminar_dagster.sql.configuration import Configuration, read_configuration
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import parse_script


def configuration(toml: str) -> Configuration:
    return read_configuration(tomllib.loads(toml), toml, "laminar.toml")


def queries(sql: str, toml: str = "") -> tuple[Query, ...]:
    return resolve(parse_script(sql, "views.sql"), declared_columns_only, configuration(toml))


def query(sql: str, toml: str = "") -> Query:
    return queries(sql, toml)[-1]


def explained(sql: str, toml: str = "") -> str:
    found = query(sql, toml)
    return explain(Plan(found, layout_of(found)))
