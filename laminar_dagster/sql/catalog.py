"""The sources and views that FROM can name, each made into a `Source` when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression, Named
from laminar_dagster.semantics.functions import FUNCTIONS, ArgumentTypeError, castable
from laminar_dagster.semantics.query import IN_SQL, VIEW_CONNECTOR, WINDOW_END, WINDOW_START, Field, Query, Source
from laminar_dagster.semantics.watermark import DEFAULT_FUTURE_SKEW
from laminar_dagster.semantics.windows import longest_window
from laminar_dagster.sql import options as o
from laminar_dagster.sql.clauses import OptionValue
from laminar_dagster.sql.configuration import is_default
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.intervals import IntervalText, fixed
from laminar_dagster.sql.messages import metadata_options
from laminar_dagster.sql.names import Scope, substitute
from laminar_dagster.sql.statements import ColumnStatement, ComputedStatement, Script, SourceStatement
from laminar_dagster.sql.unique_keys import uniqueness
from laminar_dagster.sql.windows import no_timestamp

SchemaOf = Callable[[SourceStatement], tuple[Field, ...]]


@dataclass
class Catalog:
    """`query_of` resolves another view of the script, by name."""

    script: Script
    schema_of: SchemaOf
    query_of: Callable[[str, Span], Query]
    _sources: dict[str, Source] = field(default_factory=dict)

    def faults(self) -> Iterator[tuple[str, LaminarError]]:
        """What can be said of the sources without reading any schema: a name, and what is wrong with it."""
        seen: dict[str, Span] = {}
        declared = [(s.name, s.where) for s in self.script.sources] + [(v.name, v.where) for v in self.script.views]
        declared += [(sink.name, sink.where) for sink in self.script.sinks]
        for name, where in declared:
            if name.lower() in seen:
                yield name, LaminarError("LMR0104", f'"{name}" is declared twice', where=where)
            seen[name.lower()] = where
        for source in self.script.sources:
            try:
                read_source_options(source, self._view_names())
            except LaminarError as error:
                yield source.name, error

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
        source = Source(statement.name, connector, columns, options)
        return _with_time(statement, replace(source, computed=_computed(statement, source)), values)


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
    return Field(column.name, _type(column.type, column.where))


def _type(written: str, where: Span) -> t.DataType:
    try:
        return t.parse_type(written)
    except ValueError:
        raise LaminarError(
            "LMR0101", f'unknown type "{written}"', where=where, hint=did_you_mean(written, t.KNOWN_TYPE_NAMES)
        ) from None


# --- time ----------------------------------------------------------------------------------------------------


def _with_time(statement: SourceStatement, source: Source, values: Mapping[str, Any]) -> Source:
    event_time, lag = _watermark(statement, source, values)
    return replace(
        source,
        event_time=event_time,
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


def _watermark(
    statement: SourceStatement, source: Source, values: Mapping[str, Any]
) -> tuple[Expression | None, int | None]:
    declared, unit = statement.watermark, unit_of(statement.options)
    for name in ("watermark_lag", "event_time"):
        if declared is not None and name in values:
            raise LaminarError(
                "LMR0305", f"WATERMARK FOR and {name} both say what the watermark is",
                where=statement.options[name].name_where, hint="Keep one of the two.",
            )  # fmt: skip
    if declared is None and "event_time" in values:
        time = scope_of(source).find(values["event_time"], None, statement.options["event_time"].where)
        where = statement.options["event_time"].where
        return as_event_time(source, time, unit, where, in_option=True), values.get("watermark_lag")
    if declared is None:
        if unit is not None and not unit.is_default:
            raise unit_without_time(statement.options["event_time_unit"].whole)
        return None, values.get("watermark_lag")
    time = Resolver(statement, scope_of(source), "WATERMARK FOR").resolve(declared.time)
    return as_event_time(source, time, unit, statement.span(declared.time)), lag_of(declared.lag, declared.where)


@dataclass(frozen=True)
class Unit:
    """What a number counts since 1970, and whether it is said of all numbers: a default says nothing of a TIMESTAMP."""

    name: str
    is_default: bool = False


def unit_of(options: Mapping[str, OptionValue]) -> Unit | None:
    given = options.get("event_time_unit")
    return None if given is None else Unit(o.time_unit("event_time_unit", given), is_default(given))


def lag_of(written: IntervalText | None, where: Span) -> int:
    lag = fixed(written, "a watermark's lag", "LMR0004") if written is not None else 0
    if lag < 0:
        raise LaminarError("LMR0004", "a watermark's lag cannot be negative", where=where)
    return lag


def unit_without_time(where: Span, remedy: str = "or WATERMARK FOR") -> LaminarError:
    return LaminarError(
        "LMR0304", "event_time_unit says what a number counts, and no event time is named beside it", where=where,
        hint=f"Add event_time = '…', {remedy}.",
    )  # fmt: skip


def as_event_time(
    source: Source, named: Expression, unit: Unit | None, where: Span, *, in_option: bool = False
) -> Expression:
    """A time over the source's own columns: what was named, or what it says as a number of units since 1970."""
    time = substitute(named, {column.name: column.expression for column in source.computed})
    if unit is None or (unit.is_default and not time.type.is_numeric):
        if time.type != t.TIMESTAMP:
            raise no_timestamp("an event time must be a TIMESTAMP", named, where, in_option=in_option)
        return time
    function = o.TIME_UNITS[unit.name]
    try:
        return Call(function, (time,), FUNCTIONS[function].result([time.type]))
    except ArgumentTypeError:
        kind = "a number" if unit.name == "s" else "a whole number"
        raise LaminarError(
            "LMR0205", f"event_time_unit = '{unit.name}' is for {kind}, and the event time is {time.type}", where=where,
            hint="Leave event_time_unit out." if time.type == t.TIMESTAMP else None,
        ) from None  # fmt: skip


def _computed(statement: SourceStatement, source: Source) -> tuple[Named, ...]:
    """The columns that the declaration adds; each may use those before it."""
    found: list[Named] = []
    for column in statement.computed:
        if any(field.name.lower() == column.name.lower() for field in source.columns):
            raise LaminarError("LMR0104", f'column "{column.name}" is declared twice', where=column.where)
        seen = replace(source, computed=tuple(found))
        expression = Resolver(statement, scope_of(seen), f'column "{column.name}"').resolve(column.node)
        if column.type is not None:
            expression = _of_type(column, expression)
        if expression.type == t.NULL:
            raise LaminarError("LMR0105", f'column "{column.name}" is NULL without a type', where=column.where)
        found.append(Named(column.name, substitute(expression, {named.name: named.expression for named in found})))
    return tuple(found)


def _of_type(column: ComputedStatement, expression: Expression) -> Expression:
    type_ = _type(column.type or "", column.where)
    if expression.type == type_:
        return expression
    if not castable(expression.type, type_):
        raise LaminarError(
            "LMR0105", f'column "{column.name}" is declared {type_}, and its expression is {expression.type}',
            where=column.where,
        )  # fmt: skip
    return Call("cast", (expression,), type_)


def scope_of(source: Source) -> Scope:
    """The names that a declaration, or an option, may use of a source."""
    return Scope(source.fields, frozenset({source.name.lower()}), f'source "{source.name}"')


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
    """Nothing that ends at the watermark less the allowed lateness, or before, can appear or change any more.

    A view that has no watermark itself hands none on.
    """
    if not query.has_watermark:
        return {}
    behind = {options[WINDOW_END]: query.lateness} if WINDOW_END in options else {}
    longest = longest_window(query.window)
    if WINDOW_START in options and longest is not None:
        behind[options[WINDOW_START]] = query.lateness + longest
    return behind


def _is_bound(expression: Expression, bound: str) -> bool:
    return isinstance(expression, Column) and expression.name == bound
