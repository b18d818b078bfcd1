"""Whose time a row has, decided when a view is planned: the query's, the configuration's, the metadata's, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Column, Expression, columns_of
from laminar_dagster.semantics.judging import PROCESSING_TIME
from laminar_dagster.semantics.query import IN_METADATA, IN_SQL, VIEW_CONNECTOR, Input, Source, TimeStep
from laminar_dagster.sql import options as o
from laminar_dagster.sql.catalog import timestamp_column
from laminar_dagster.sql.configuration import EVENT_TIME, Configuration, Options
from laminar_dagster.sql.inputs import Branch, Relation
from laminar_dagster.sql.messages import OPTION, metadata_of
from laminar_dagster.sql.names import substitute

METADATA_COLUMNS = ("@timestamp", "received_at")
MESSAGE_TIME = "@timestamp"
_FIELDS = {EVENT_TIME: "watermark_column"}


def with_event_times(relation: Relation, view: str, configuration: Configuration) -> Relation:
    """The relation, each of its sources with the time that the configuration or the source's metadata gives it."""
    own, default = configuration.times_of(view), configuration.defaults.get(EVENT_TIME)
    branches = [replace(branch, source=_configured(branch, own)) for branch in relation.branches]
    if default is not None:
        branches = [replace(b, source=_found(b.source, [default.value], str(default.table))) for b in branches]
    columns = [[*METADATA_COLUMNS, *_message_times(branch.source)] for branch in branches]
    timed = (_found(b.source, names, IN_METADATA) for b, names in zip(branches, columns, strict=True))
    return replace(relation, branches=tuple(replace(b, source=s) for b, s in zip(branches, timed, strict=True)))


def input_of(branch: Branch, named: Expression | None) -> Input:
    """A branch of FROM with its event time: what the query names, else what its source has, else processing time."""
    if named is not None:
        event_time = substitute(named, {column.name: column.expression for column in branch.columns})
        return Input(_overruled(branch.source, event_time), branch.columns, branch.where, event_time)
    source = _with_message_time(branch.source)
    if source.watermark_column is None:
        return Input(source, branch.columns, branch.where, PROCESSING_TIME, TimeStep.PROCESSING_TIME)
    event_time = Column(source.watermark_column, t.TIMESTAMP)
    return Input(source, branch.columns, branch.where, event_time, _step(source))


def _step(source: Source) -> TimeStep:
    said = source.said.get(EVENT_TIME, IN_SQL)
    if said == IN_SQL:
        return TimeStep.QUERY
    return TimeStep.METADATA if said == IN_METADATA else TimeStep.CONFIGURATION


# --- configuration ---------------------------------------------------------------------------------------------


def _configured(branch: Branch, given: Options) -> Source:
    """A view's own configuration goes before its sources', and behind the SQL of either."""
    source = branch.source
    values = o.read(given, o.TIME_OPTIONS, "a view")
    chosen = {name: value for name, value in values.items() if source.said.get(name) != IN_SQL}
    if EVENT_TIME in chosen:
        name = _source_column(branch, chosen[EVENT_TIME])
        chosen[EVENT_TIME] = timestamp_column(source, name, given[EVENT_TIME].where)
    return _with(source, chosen, {name: str(given[name].table) for name in chosen})


def _with(source: Source, values: Mapping[str, Any], said: Mapping[str, str]) -> Source:
    fields = {_FIELDS.get(name, name): value for name, value in values.items()}
    return replace(source, **fields, said={**source.said, **said})


def _source_column(branch: Branch, name: str) -> str:
    """What a column of FROM is called in its source."""
    found = next((column.expression for column in branch.columns if column.name.lower() == name.lower()), None)
    return found.name if isinstance(found, Column) else name


# --- metadata --------------------------------------------------------------------------------------------------


def _found(source: Source, names: list[str], said: str) -> Source:
    """The source with the first of these columns that it has as its time, if nobody has said one yet."""
    if source.watermark_column is not None or source.connector == VIEW_CONNECTOR:
        return source
    times = {field.name.lower(): field.name for field in source.columns if field.type == t.TIMESTAMP}
    column = next((times[name.lower()] for name in names if name.lower() in times), None)
    if column is None:
        return source
    timed = _with(source, {EVENT_TIME: column}, {EVENT_TIME: said})
    return replace(timed, watermark_lag=source.watermark_lag or 0) if said == IN_METADATA else timed


def _message_times(source: Source) -> list[str]:
    return [column for column, what in metadata_of(source.options).items() if what == "timestamp"]


def _with_message_time(source: Source) -> Source:
    """A message has a time also where no column asks for it: the source then carries it beside its columns."""
    if source.connector != "kafka" or source.watermark_column is not None:
        return source
    options = {**source.options, f"{OPTION}{MESSAGE_TIME}": "timestamp"}
    timed = _with(source, {EVENT_TIME: MESSAGE_TIME}, {EVENT_TIME: IN_METADATA})
    return replace(timed, options=options, watermark_lag=source.watermark_lag or 0)


def _overruled(source: Source, event_time: Expression) -> Source:
    """What the query names goes before any column that its SQL does not declare; a configured lag holds for it."""
    if source.said.get(EVENT_TIME, IN_SQL) == IN_SQL or columns_of(event_time) == {source.watermark_column}:
        return source
    lag = source.watermark_lag if "watermark_lag" in source.said else None
    return replace(source, watermark_column=None, watermark_lag=lag)
