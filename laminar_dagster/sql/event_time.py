"""Whose time a row has, decided when a view is planned: the query's, the configuration's, the metadata's, or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Column, Expression, follows_from
from laminar_dagster.semantics.query import (
    IN_METADATA,
    IN_QUERY,
    IN_SQL,
    IN_VIEW,
    PROCESSING_TIME,
    VIEW_CONNECTOR,
    Input,
    Source,
    TimeStep,
)
from laminar_dagster.sql import options as o
from laminar_dagster.sql.catalog import Unit, as_event_time, lag_of, scope_of, unit_of, unit_without_time
from laminar_dagster.sql.clauses import OptionValue
from laminar_dagster.sql.configuration import EVENT_TIME, TIMES, UNIT, VIEWS, Configuration, Options, is_default
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.inputs import Branch, Relation
from laminar_dagster.sql.messages import OPTION, metadata_of
from laminar_dagster.sql.names import substitute
from laminar_dagster.sql.statements import ViewStatement
from laminar_dagster.sql.time_clauses import Watermark
from laminar_dagster.sql.windows import event_time

METADATA_COLUMNS = ("@timestamp", "received_at")
MESSAGE_TIME = "@timestamp"
LAG = "watermark_lag"


def with_event_times(relation: Relation, view: ViewStatement, configuration: Configuration) -> Relation:
    """The relation, each of its sources with the time that the view, the configuration or its metadata gives it."""
    own = {name: option for name, option in view.clauses.options.items() if name in TIMES}
    _refuse_two_times(view, own)
    table = dict(configuration.times_of(view.name))
    if EVENT_TIME in own:
        table.pop(UNIT, None)
    given, default = {**table, **own}, configuration.defaults.get(EVENT_TIME)
    defaults = {UNIT: configuration.defaults[UNIT]} if UNIT in configuration.defaults else {}
    if EVENT_TIME in given:
        given = {**defaults, **given}
    branches = [replace(branch, source=_configured(branch, given)) for branch in relation.branches]
    if default is not None:
        unit = unit_of(defaults)
        branches = [replace(b, source=_by_default(b.source, default, unit)) for b in branches]
    columns = [[*METADATA_COLUMNS, *_message_times(branch.source)] for branch in branches]
    timed = (_found(b.source, names, IN_METADATA) for b, names in zip(branches, columns, strict=True))
    whole = replace(relation, branches=tuple(replace(b, source=s) for b, s in zip(branches, timed, strict=True)))
    return whole if view.time.watermark is None else _declared(whole, view, view.time.watermark)


def input_of(branch: Branch, named: Expression | None) -> Input:
    """A branch of FROM with its event time: what the query names, else what its source has, else processing time."""
    if named is not None:
        time = substitute(named, {column.name: column.expression for column in branch.columns})
        return Input(_overruled(branch.source, time), branch.columns, branch.where, time)
    source = _with_message_time(branch.source)
    if source.event_time is None:
        return Input(source, branch.columns, branch.where, PROCESSING_TIME, TimeStep.PROCESSING_TIME)
    return Input(source, branch.columns, branch.where, source.event_time, _step(source))


def _step(source: Source) -> TimeStep:
    said = source.said.get(EVENT_TIME, IN_SQL)
    if said in (IN_SQL, IN_VIEW, IN_QUERY):
        return TimeStep.QUERY
    return TimeStep.METADATA if said == IN_METADATA else TimeStep.CONFIGURATION


# --- what the view says ----------------------------------------------------------------------------------------


def _refuse_two_times(view: ViewStatement, own: Options) -> None:
    """Nothing that is written is without effect."""
    for name in (EVENT_TIME, LAG):
        if view.time.watermark is not None and name in own:
            raise LaminarError(
                "LMR0305", f"WATERMARK(…) and {name} both say what the watermark is", where=own[name].name_where,
                hint="Keep one of the two.",
            )  # fmt: skip


def require_time_beside_unit(view: ViewStatement, configuration: Configuration) -> None:
    """Before any source is looked at: what a view calls a number's unit is for the time that the view names."""
    given = {**configuration.times_of(view.name), **view.clauses.options}
    if UNIT in given and not is_default(given[UNIT]) and EVENT_TIME not in given:
        raise unit_without_time(
            given[UNIT].whole,
            "say the unit of a source's time in CREATE SOURCE or [sources.NAME], "
            "or write timestamp_millis(…) in WATERMARK(…) or in the window",
        )


def require_effect(view: ViewStatement, inputs: Iterable[Input]) -> None:
    """A view whose options name an event time and whose window names another one says two things."""
    option = view.clauses.options.get(EVENT_TIME)
    if option is not None and any(entry.source.event_time is None for entry in inputs):
        raise LaminarError(
            "LMR0305", "the window and event_time name two different times", where=option.name_where,
            hint="Keep one of the two; watermark_lag holds for what the window names.",
        )  # fmt: skip


def _declared(relation: Relation, view: ViewStatement, clause: Watermark) -> Relation:
    """The relation under a WATERMARK(…) in the query: its time and its lag hold, whatever the sources say."""
    time = event_time(Resolver(view, relation.scope(), "WATERMARK"), clause.time, "WATERMARK")
    lag, said = lag_of(clause.lag, clause.where), {EVENT_TIME: IN_QUERY, LAG: IN_QUERY}
    branches = []
    for branch in relation.branches:
        own = substitute(time, {column.name: column.expression for column in branch.columns})
        source = replace(branch.source, event_time=own, watermark_lag=lag, said={**branch.source.said, **said})
        branches.append(replace(branch, source=source))
    return replace(relation, branches=tuple(branches))


def _configured(branch: Branch, given: Options) -> Source:
    """What a view says of time, in its options or in [views.NAME], goes before what its source says."""
    source = branch.source
    values: dict[str, Any] = o.read(given, o.TIME_OPTIONS, "a view")
    said = {name: given[name].table or IN_VIEW for name in values}
    values.pop(UNIT, None)
    if EVENT_TIME in values:
        time = _event_time(branch, values[EVENT_TIME], unit_of(given), given)
        values[EVENT_TIME] = time
        if time != source.event_time and LAG not in values:
            values[LAG] = source.watermark_lag if source.said.get(LAG, IN_SQL) != IN_SQL else None
    return replace(source, **values, said={**source.said, **said})


def _event_time(branch: Branch, name: str, unit: Unit | None, given: Options) -> Expression:
    """The column of FROM that a view names, else a column of its source, as a time of the source."""
    where = given[EVENT_TIME].where
    source = branch.source
    found = next((column.expression for column in branch.columns if column.name.lower() == name.lower()), None)
    if found is None:
        found = scope_of(source).find(name, None, where)
    return as_event_time(source, found, unit, where, in_option=True)


def _overruled(source: Source, time: Expression) -> Source:
    """What the query names goes before any other time that its source does not declare itself.

    A lag that the view or the configuration says holds for what the query names, too.
    """
    if source.event_time is None or follows_from(time, source.event_time):
        return source
    lag = source.said.get(LAG)
    is_views = lag is not None and (lag == IN_VIEW or lag.startswith(f"[{VIEWS}."))
    if source.said.get(EVENT_TIME, IN_SQL) in (IN_SQL, IN_QUERY) and not is_views:
        return source
    return replace(source, event_time=None, watermark_lag=None if lag is None else source.watermark_lag)


# --- metadata --------------------------------------------------------------------------------------------------


def _found(source: Source, names: list[str], said: str) -> Source:
    """The source with the first of these columns that it has as its time, if nobody has said one yet."""
    if source.event_time is not None or source.connector == VIEW_CONNECTOR:
        return source
    held = {field.name.lower(): Column(field.name, field.type) for field in source.columns}
    times: dict[str, Expression] = {**held, **{named.name.lower(): named.expression for named in source.computed}}
    time = next((found for name in names if (found := times.get(name.lower())) and found.type == t.TIMESTAMP), None)
    if time is None:
        return source
    timed = _timed(source, time, said)
    return replace(timed, watermark_lag=source.watermark_lag or 0) if said == IN_METADATA else timed


def _by_default(source: Source, default: OptionValue, unit: Unit | None) -> Source:
    """The source with the column that a default names, if it has one that is a time, or a number and its unit."""
    said = str(default.table)
    held = next((field for field in source.fields if field.name.lower() == default.value.lower()), None)
    if unit is None or held is None or not held.type.is_numeric:
        return _found(source, [default.value], said)
    if source.event_time is not None or source.connector == VIEW_CONNECTOR:
        return source
    return _timed(source, as_event_time(source, Column(held.name, held.type), unit, default.where), said)


def _timed(source: Source, time: Expression, said: str) -> Source:
    return replace(source, event_time=time, said={**source.said, EVENT_TIME: said})


def _message_times(source: Source) -> list[str]:
    return [column for column, what in metadata_of(source.options).items() if what == "timestamp"]


def _with_message_time(source: Source) -> Source:
    """A message has a time also where no column asks for it: the source then carries it beside its columns."""
    if source.connector != "kafka" or source.event_time is not None:
        return source
    options = {**source.options, f"{OPTION}{MESSAGE_TIME}": "timestamp"}
    timed = _timed(source, Column(MESSAGE_TIME, t.TIMESTAMP), IN_METADATA)
    return replace(timed, options=options, watermark_lag=source.watermark_lag or 0)
