"""What a view's options say about its side output: routes by kind, originals, limits, and where routes lead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics.query import (
    KAFKA_ROUTE,
    METRICS_ONLY,
    REINJECT,
    SIDE_OUTPUT_KINDS,
    TABLE,
    Input,
    SideOutput,
    Source,
)
from laminar_dagster.semantics.sinks import APPEND, DROP, FAIL, UPSERT, WAIT, DeclaredSink, Saturation
from laminar_dagster.sql.configuration import is_default, to_add
from laminar_dagster.sql.statements import ViewStatement

PREFIX = "side_output"
BROKERS, PROPERTIES, REINJECT_TO = f"{PREFIX}.brokers", f"{PREFIX}.properties", f"{PREFIX}.reinject_to"
MAX_ROWS = f"{PREFIX}.max_rows_per_epoch"
POLICY, ROUTE_ROWS, ROUTE_BYTES, ROUTE_TIMEOUT = (
    f"{PREFIX}.{name}" for name in ("on_saturation", "route_max_rows", "route_max_bytes", "route_timeout")
)


def side_output_of(view: ViewStatement, values: Mapping[str, Any], inputs: Sequence[Input]) -> SideOutput:
    """The view's side output; LaminarError where routes and options contradict each other."""
    routes = _routes(view, values)
    without = frozenset(kind for kind in SIDE_OUTPUT_KINDS if values.get(_original(kind)) == "false")
    _refuse_what_has_no_effect(view, values, routes)
    sinks = tuple(_sink(view, values, inputs, kind, route) for kind, route in routes.items() if _leads_away(route))
    for kind in (kind for kind, route in routes.items() if route == REINJECT):
        _check_reinjection(view, values, inputs, kind, without)
    return SideOutput(routes, without, values.get(MAX_ROWS), sinks)


def _original(kind: str) -> str:
    return f"{PREFIX}.{kind}.include_original"


def _leads_away(route: str) -> bool:
    return route not in (TABLE, METRICS_ONLY)


def _routes(view: ViewStatement, values: Mapping[str, Any]) -> dict[str, str]:
    routes = {kind: str(values[f"{PREFIX}.{kind}"]) for kind in SIDE_OUTPUT_KINDS if f"{PREFIX}.{kind}" in values}
    if view.clauses.late_data is not None and routes.get("late", TABLE) != TABLE:
        raise LaminarError(
            "LMR0305", "LATE DATA TO and side_output.late say where late rows go, and differ",
            where=_place(view, f"{PREFIX}.late"), hint="Keep one of the two.",
        )  # fmt: skip
    return routes


def _place(view: ViewStatement, option: str) -> Span:
    return view.clauses.options[option].name_where


def _refuse_what_has_no_effect(view: ViewStatement, values: Mapping[str, Any], routes: Mapping[str, str]) -> None:
    """A default for all may mean nothing to a view; what is said of the view itself must mean something."""
    to_topic = any(route.startswith(KAFKA_ROUTE) for route in routes.values())
    needed = {BROKERS: (to_topic, "kafka:topic"), PROPERTIES: (to_topic, "kafka:topic")}
    needed[REINJECT_TO] = (REINJECT in routes.values(), REINJECT)
    leads_away = any(_leads_away(route) for route in routes.values())
    needed |= dict.fromkeys((POLICY, ROUTE_ROWS, ROUTE_BYTES, ROUTE_TIMEOUT), (leads_away, "kafka:topic"))
    for name, (used, route) in needed.items():
        if name in values and not used and not is_default(view.clauses.options[name]):
            raise LaminarError(
                "LMR0310", f"{name} is about the route '{route}', and no kind has such a route",
                where=_place(view, name), hint=f"Leave it out, or add side_output.late = '{route}'.",
            )  # fmt: skip
    for kind, route in routes.items():
        option = view.clauses.options.get(_original(kind))
        if route == METRICS_ONLY and option is not None and not is_default(option):
            raise LaminarError(
                "LMR0310", f"rows of kind {kind} are only counted, so there is no original to include",
                where=option.name_where, hint="Leave one of the two options out.",
            )  # fmt: skip


# --- where a route leads -------------------------------------------------------------------------------------


def _sink(
    view: ViewStatement, values: Mapping[str, Any], inputs: Sequence[Input], kind: str, route: str
) -> DeclaredSink:
    """A route out of the store, as a sink of the entries of one kind."""
    where = _place(view, f"{PREFIX}.{kind}")
    if route == REINJECT:
        connector, options = "files", {"path": _directory(view, values, kind, where)}
    else:
        topic = route[len(KAFKA_ROUTE) :]
        connector, options = "kafka", {"topic": topic, **_cluster(view, values, inputs, kind, topic)}
    name = f"{PREFIX}.{kind}"
    return DeclaredSink(
        name, view.name, connector, APPEND, UPSERT, options=options, entries=kind, where=where,
        saturation=_saturation(view, values, FAIL if route == REINJECT else DROP),
    )  # fmt: skip


def _saturation(view: ViewStatement, values: Mapping[str, Any], default: str) -> Saturation:
    """A directory takes rows or is an error at once; brokers may keep a run waiting, so theirs are dropped."""
    bounds = {"rows": values.get(ROUTE_ROWS), "bytes": values.get(ROUTE_BYTES), "micros": values.get(ROUTE_TIMEOUT)}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    policy = str(values.get(POLICY, default))
    if policy == WAIT and given:
        name = next(option for option in (ROUTE_ROWS, ROUTE_BYTES, ROUTE_TIMEOUT) if option in values)
        raise LaminarError(
            "LMR0310", f"{POLICY} = 'wait' has no bound, and {name} is one", where=_place(view, name),
            hint="Keep one of the two.",
        )  # fmt: skip
    return Saturation(policy, **given)


def _to_add(view: ViewStatement, kind: str, option: str, value: str) -> str:
    return to_add(view.clauses.options[f"{PREFIX}.{kind}"], PREFIX, option.removeprefix(f"{PREFIX}."), value)


def _directory(view: ViewStatement, values: Mapping[str, Any], kind: str, where: Span) -> str:
    if REINJECT_TO not in values:
        raise LaminarError(
            "LMR0310", f"rows of kind {kind} are to be reinjected, and nothing says where to",
            where=where, detail="It is a directory that a source with connector = 'files' reads.",
            hint=_to_add(view, kind, REINJECT_TO, "landing/again"),
        )  # fmt: skip
    return str(values[REINJECT_TO])


def _cluster(
    view: ViewStatement, values: Mapping[str, Any], inputs: Sequence[Input], kind: str, topic: str
) -> dict[str, str]:
    """The brokers that the view names, else those of the first topic that it reads."""
    own = {name.removeprefix(f"{PREFIX}."): str(values[name]) for name in (BROKERS, PROPERTIES) if name in values}
    if BROKERS in values:
        return own
    read = next((entry.source.options for entry in inputs if entry.source.connector == "kafka"), None)
    if read is None:
        raise LaminarError(
            "LMR0310", f'nothing says which brokers have the topic "{topic}"', where=_place(view, f"{PREFIX}.{kind}"),
            detail="The view reads no topic, whose brokers would be taken.",
            hint=_to_add(view, kind, BROKERS, "host:9092"),
        )  # fmt: skip
    return {**{name: read[name] for name in ("brokers", "properties") if name in read}, **own}


# --- what is read again --------------------------------------------------------------------------------------


def _check_reinjection(
    view: ViewStatement, values: Mapping[str, Any], inputs: Sequence[Input], kind: str, without: frozenset[str]
) -> None:
    """What goes back must be whole, and JSON; and it must not come to the view that set it aside."""
    where = _place(view, f"{PREFIX}.{kind}")
    if kind in without:
        raise LaminarError(
            "LMR0310", f"rows of kind {kind} are to be reinjected, and {_original(kind)} = false leaves them out",
            where=where, hint=f"Leave {_original(kind)} out.",
        )  # fmt: skip
    for source in (entry.source for entry in inputs):
        if not _is_json(source):
            raise LaminarError(
                "LMR0310",
                f'rows are reinjected as JSON lines, and source "{source.name}" has format '
                f"'{source.options['format']}'",
                where=where, hint="Use the route 'table' or 'kafka:topic'.",
            )  # fmt: skip
        if _reads(source, str(values[REINJECT_TO])):
            raise own_input(view.name, source.name, kind, where)


def _is_json(source: Source) -> bool:
    """Whether the original of a row is a JSON object: where there is no text, it is made as one."""
    return source.options.get("format", "json") in ("json", "parquet")


def _reads(source: Source, folder: str) -> bool:
    """Whether a source reads a directory, as far as their paths tell; folders below a source's are read too."""
    own = source.options.get("path")
    if own is None:
        return False
    read, written = os.path.normpath(own), os.path.normpath(folder)
    return written == read or written.startswith(f"{read}{os.sep}") or read == "."


def own_input(view: str, source: str, kind: str, where: Span | None) -> LaminarError:
    return LaminarError(
        "LMR0310", f'rows of kind {kind} would come back to view "{view}", by its source "{source}"',
        where=where, detail="The view would set the same rows aside again, run after run.",
        hint="Reinject into a directory that another view reads.",
    )  # fmt: skip
