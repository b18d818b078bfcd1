"""The sources and views that FROM can name, each made into a `Source` when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Column, Expression
from laminar_dagster.semantics.query import IN_SQL, VIEW_CONNECTOR, WINDOW_END, WINDOW_START, Field, Query, Source
from laminar_dagster.semantics.watermark import DEFAULT_FUTURE_SKEW
from laminar_dagster.semantics.windows import longest_window
from laminar_dagster.sql import options as o
from laminar_dagster.sql.intervals import fixed
from laminar_dagster.sql.messages import metadata_options
from laminar_dagster.sql.statements import ColumnStatement, Script, SourceStatement
from laminar_dagster.sql.unique_keys import uniqueness

SchemaOf = Callable[[SourceStatement], tuple[Field, ...]]


@dataclass
class Catalog:
    """`query_of` resolves another view of the script, by name."""

    script: Script
    schema_of: SchemaOf
    query_of: Callable[[str, Span], Query]
    _sources: dict[str, Source] = field(default_factory=dict)

    def check(self) -> None:
        """What can be said of the sources without reading any schema."""
        seen: dict[str, Span] = {}
        declared = [(s.name, s.where) for s in self.script.sources] + [(v.name, v.where) for v in self.script.views]
        declared += [(sink.name, sink.where) for sink in self.script.sinks]
        for name, where in declared:
            if name.lower() in seen:
                raise LaminarError("LMR0104", f'"{name}" is declared twice', where=where)
            seen[name.lower()] = where
        for source in self.script.sources:
            read_source_options(source, self._view_names())

    def source(self, name: str, where: Span) -> Source:
        key = name.lower()
        if key not in self._sources:
            self._sources[key] = self._find(name, where)
        return self._sources[key]

    def _view_names(self) -> list[str]:
        return [view.name for view in self.script.views]

    def _find(self, name: str, where: Span) -> Source:
        for statement in self.script.sources:
            if statement.name.lower() == name.lower():
                return self._declared(statement)
        for view in self.script.views:
            if view.name.lower() == name.lower():
                return source_of_view(self.query_of(view.name, where))
        known = [s.name for s in self.script.sources] + self._view_names()
        raise LaminarError(
            "LMR0111", f'source "{name}" does not exist', where=where,
            hint=did_you_mean(name, known, "Declare it: CREATE SOURCE … WITH (connector = '…')."),
        )  # fmt: skip

    def _declared(self, statement: SourceStatement) -> Source:
        connector, values = read_source_options(statement, self._view_names())
        columns = tuple(_field(column) for column in statement.columns)
        if connector not in o.CONNECTORS:
            upstream = source_of_view(self.query_of(connector, statement.options["connector"].where))
            columns = columns or upstream.columns
            options: Mapping[str, str] = upstream.options
            connector = VIEW_CONNECTOR
        else:
            own = {k: v for k, v in values.items() if k not in _TIME_OPTIONS and (k, v) != ("changes", "append")}
            options = {**own, **metadata_options(statement, connector, values)}
        columns = columns or self.schema_of(statement)
        return _with_time(statement, Source(statement.name, connector, columns, options), values)


_TIME_OPTIONS = {option.name for option in o.COMMON_SOURCE_OPTIONS}


def read_source_options(statement: SourceStatement, views: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """The connector (or view) that a source reads, and its options."""
    given = statement.options.get("connector")
    if given is None:
        raise LaminarError(
            "LMR0304", f'source "{statement.name}" has no connector', where=statement.where,
            hint=f"Add WITH (connector = '…'): {', '.join(o.CONNECTORS)}, or the name of a view. Or say it in "
            f"laminar.toml, under [sources.{statement.name}].",
        )  # fmt: skip
    view = next((v for v in views if v.lower() == given.value.lower()), None)
    connector = given.value.lower() if view is None else view
    if view is None and connector not in o.CONNECTORS:
        raise LaminarError(
            "LMR0304", f'unknown connector "{given.value}"', where=given.where,
            hint=did_you_mean(given.value, [*o.CONNECTORS, *views]),
        )  # fmt: skip
    own = o.CONNECTORS.get(connector, ())
    owner = f"connector {connector}" if view is None else f'view "{view}" as a source'
    values = o.read(statement.options, (*o.COMMON_SOURCE_OPTIONS, *own), owner)
    _refuse_options_of_another_format(statement, own, values)
    missing = [option.name for option in own if option.required and option.name not in values]
    if missing:
        raise LaminarError(
            "LMR0304", f'source "{statement.name}" needs the option "{missing[0]}"', where=statement.where,
            hint=f"Add {missing[0]} = '…' to WITH (…).",
        )  # fmt: skip
    return connector, values


def _refuse_options_of_another_format(
    statement: SourceStatement, own: Iterable[o.Option], values: Mapping[str, Any]
) -> None:
    """Nothing that is written is without effect: a CSV option says nothing about JSON."""
    for option in own:
        if option.only_for is not None and option.name in values and values.get("format") != option.only_for:
            raise LaminarError(
                "LMR0301",
                f"option \"{option.name}\" is for format = '{option.only_for}' alone",
                where=statement.options[option.name].whole,
                hint="Leave it out.",
            )


def _field(column: ColumnStatement) -> Field:
    try:
        return Field(column.name, t.parse_type(column.type))
    except ValueError:
        raise LaminarError(
            "LMR0101", f'unknown type "{column.type}"', where=column.where,
            hint=did_you_mean(column.type, t.KNOWN_TYPE_NAMES),
        ) from None  # fmt: skip


# --- time ----------------------------------------------------------------------------------------------------


def _with_time(statement: SourceStatement, source: Source, values: Mapping[str, Any]) -> Source:
    column, lag, where = _watermark(statement, values)
    if column is not None:
        column = timestamp_column(source, column, where)
    return Source(
        source.name, source.connector, source.columns, source.options,
        watermark_column=column,
        watermark_lag=lag,
        idle_timeout=values.get("idle_timeout"),
        max_future_skew=values.get("max_future_skew", DEFAULT_FUTURE_SKEW),
        unique=uniqueness(statement, source, values),
        said=_said(statement),
    )  # fmt: skip


def _said(statement: SourceStatement) -> dict[str, str]:
    """Who said each option about time: the SQL, or a table of the configuration."""
    said = {name: given.table or IN_SQL for name, given in statement.options.items() if name in _TIME_OPTIONS}
    return said if statement.watermark is None else {**said, "event_time": IN_SQL, "watermark_lag": IN_SQL}


def _watermark(statement: SourceStatement, values: Mapping[str, Any]) -> tuple[str | None, int | None, Span]:
    declared = statement.watermark
    for name in ("watermark_lag", "event_time"):
        if declared is not None and name in values:
            raise LaminarError(
                "LMR0305", f"WATERMARK FOR and {name} both say what the watermark is",
                where=statement.options[name].name_where, hint="Keep one of the two.",
            )  # fmt: skip
    if declared is None:
        option = statement.options.get("event_time")
        return values.get("event_time"), values.get("watermark_lag"), option.where if option else statement.where
    lag = fixed(declared.lag, "a watermark's lag", "LMR0004") if declared.lag is not None else 0
    if lag < 0:
        raise LaminarError("LMR0004", "a watermark's lag cannot be negative", where=declared.where)
    return declared.column, lag, declared.where


def timestamp_column(source: Source, name: str, where: Span) -> str:
    found = next((f for f in source.columns if f.name.lower() == name.lower()), None)
    if found is None:
        raise LaminarError(
            "LMR0102", f'column "{name}" does not exist in source "{source.name}"', where=where,
            hint=did_you_mean(name, [f.name for f in source.columns]),
        )  # fmt: skip
    if found.type != t.TIMESTAMP:
        raise LaminarError(
            "LMR0205", f'an event time must be a TIMESTAMP, and "{found.name}" is {found.type}', where=where
        )
    return found.name


# --- views as sources ----------------------------------------------------------------------------------------


def source_of_view(query: Query) -> Source:
    """A view read by another: its output columns, which of them are its window's bounds, and its retractions."""
    options = {"view": query.view}
    for bound in (WINDOW_START, WINDOW_END):
        name = next((named.name for named in query.output if _is_bound(named.expression, bound)), None)
        if name is not None and query.window is not None:
            options[bound] = name
    if not query.only_appends:
        options["changes"] = "changelog"
    columns = tuple(Field(named.name, named.type) for named in query.output)
    return Source(query.view, VIEW_CONNECTOR, columns, options, hands_on=_hands_on(query, options))


def _hands_on(query: Query, options: Mapping[str, str]) -> dict[str, int]:
    """Nothing that ends at the watermark less the allowed lateness, or before, can appear or change any more."""
    behind = {options[WINDOW_END]: query.lateness} if WINDOW_END in options else {}
    longest = longest_window(query.window)
    if WINDOW_START in options and longest is not None:
        behind[options[WINDOW_START]] = query.lateness + longest
    return behind


def _is_bound(expression: Expression, bound: str) -> bool:
    return isinstance(expression, Column) and expression.name == bound
