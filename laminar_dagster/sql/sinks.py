"""CREATE SINK: its options, the view it is over, and the columns that tell that view's results apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics.emit import SINKS, EmitPolicy
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, Query
from laminar_dagster.semantics.sinks import APPEND, CHANGELOG, UPSERT, DeclaredSink
from laminar_dagster.semantics.windows import Cumulate, Session
from laminar_dagster.sql import options as o
from laminar_dagster.sql.statements import Script, SinkStatement

DEBEZIUM = "debezium"
ANY_STRATEGY = UPSERT


@dataclass(frozen=True)
class ReadSink:
    """A sink as far as its own statement tells."""

    statement: SinkStatement
    sink: DeclaredSink
    key: str | None
    asks_for: EmitPolicy | None
    """The strategy of a view that names none."""


def read_sinks(script: Script, refuse: Callable[[str, LaminarError], None]) -> dict[str, list[ReadSink]]:
    """The sinks of each view, by the view's name. What is wrong with one is handed to `refuse`, by its view's name."""
    names = {view.name.lower(): view.name for view in script.views}
    found: dict[str, list[ReadSink]] = {name: [] for name in names.values()}
    for statement in script.sinks:
        view = names.get(statement.view.lower())
        if view is None:
            refuse(statement.name, _no_view(script, statement))
            continue
        try:
            read = _read(statement, view)
            _refuse_shared_folders([*(entry for entries in found.values() for entry in entries), read])
            found[view].append(read)
        except LaminarError as error:
            refuse(view, error)
    return found


def deciding(sinks: Sequence[ReadSink]) -> ReadSink | None:
    """The sink that decides the strategy of a view that names none; two that ask for different ones are refused."""
    asking = [entry for entry in sinks if entry.asks_for is not None]
    first = next(iter(asking), None)
    for entry in asking:
        if first is not None and entry.asks_for != first.asks_for:
            raise _asked_differently(first, entry)
    return first


def _asked_differently(one: ReadSink, other: ReadSink) -> LaminarError:
    asked = [f'"{entry.sink.name}" for EMIT {entry.asks_for.sql}' for entry in (one, other) if entry.asks_for]
    return LaminarError(
        "LMR0227", f'the sinks of view "{one.sink.view}" ask for different strategies: {", ".join(asked)}',
        where=other.statement.where, detail="The view says no EMIT, so its sinks decide when results leave it.",
        hint="Say EMIT in the view. Every sink takes what only appends: EMIT ON WINDOW CLOSE, EMIT FINAL, of a window.",
    )  # fmt: skip


def with_sinks(query: Query, sinks: Sequence[ReadSink]) -> Query:
    declared = tuple(replace(entry.sink, key=_key(query, entry)) for entry in sinks)
    places = {f"sink:{entry.sink.name}": entry.statement.where for entry in sinks}
    return replace(query, sinks=declared, places={**query.places, **places})


def _no_view(script: Script, statement: SinkStatement) -> LaminarError:
    known = [view.name for view in script.views]
    if any(source.name.lower() == statement.view.lower() for source in script.sources):
        hint = "A sink is over a view: make one of the source's rows, and name that."
    else:
        hint = did_you_mean(statement.view, known) or "Declare it: CREATE MATERIALIZED VIEW … AS SELECT …."
    return LaminarError("LMR0118", f'there is no view "{statement.view}"', where=statement.view_where, hint=hint)


# --- options -------------------------------------------------------------------------------------------------


def _read(statement: SinkStatement, view: str) -> ReadSink:
    connector, values = _options(statement)
    mode = _mode(statement, values)
    key = values.get("key")
    if key is not None and connector == "delta" and mode != UPSERT:
        raise _without_effect(statement, "key", "is for mode = 'upsert' alone")
    options = {name: value for name, value in values.items() if name not in ("connector", "mode", "key")}
    takes = APPEND if mode == APPEND else ANY_STRATEGY
    sink = DeclaredSink(statement.name, view, connector, mode, takes, options=options, where=statement.where)
    return ReadSink(statement, sink, key, SINKS[mode].default)


def _options(statement: SinkStatement) -> tuple[str, dict[str, Any]]:
    given = statement.options.get("connector")
    if given is None:
        raise LaminarError(
            "LMR0304", f'sink "{statement.name}" has no connector', where=statement.where,
            hint=f"Add WITH (connector = '…'): {', '.join(o.SINK_CONNECTORS)}.",
        )  # fmt: skip
    connector = given.value.lower()
    if connector not in o.SINK_CONNECTORS:
        raise LaminarError(
            "LMR0304", f'unknown connector "{given.value}" for a sink', where=given.where,
            hint=did_you_mean(given.value, o.SINK_CONNECTORS),
        )  # fmt: skip
    own = o.SINK_CONNECTORS[connector]
    values = o.read(statement.options, (o.SINK_CONNECTOR, *own), f"a sink with connector {connector}")
    missing = next((option for option in own if option.required and option.name not in values), None)
    if missing is not None:
        raise LaminarError(
            "LMR0304", f'sink "{statement.name}" needs the option "{missing.name}"', where=statement.where,
            detail=f"{missing.name}: {missing.summary}", hint=f"Add {missing.name} = '…' to WITH (…).",
        )  # fmt: skip
    return connector, values


def _mode(statement: SinkStatement, values: Mapping[str, Any]) -> str:
    """What the target gets: envelopes tell every change, everything else appends unless it says otherwise."""
    is_envelope = values.get("format") == DEBEZIUM
    mode = str(values.get("mode", CHANGELOG if is_envelope else APPEND))
    if is_envelope and mode != CHANGELOG:
        raise _without_effect(statement, "mode", "can only be 'changelog' with format = 'debezium'")
    return mode


def _without_effect(statement: SinkStatement, name: str, why: str) -> LaminarError:
    return LaminarError("LMR0301", f'option "{name}" {why}', where=statement.options[name].whole, hint="Leave it out.")


def _refuse_shared_folders(sinks: Sequence[ReadSink]) -> None:
    """Files are named by epochs: of two sinks in one directory each would replace what the other delivered."""
    seen: dict[str, str] = {}
    for entry in sinks:
        path = entry.sink.options.get("path", "").rstrip("/")
        if entry.sink.connector == "files" and path in seen:
            raise LaminarError(
                "LMR0307", f'sinks "{seen[path]}" and "{entry.sink.name}" both write files to "{path}"',
                where=entry.statement.options["path"].whole, hint="Give each sink a directory of its own.",
            )  # fmt: skip
        seen.setdefault(path, entry.sink.name)


# --- keys ----------------------------------------------------------------------------------------------------


def _key(query: Query, entry: ReadSink) -> tuple[str, ...] | None:
    sink = entry.sink
    if sink.mode != UPSERT and sink.connector != "kafka":
        return None
    if entry.key is not None:
        return _given_key(query, entry.key, entry.statement.options["key"].where)
    if sink.mode != UPSERT and not query.is_grouped:
        return None
    return _group_key(query, entry.statement)


def _given_key(query: Query, text: str, where: Span) -> tuple[str, ...]:
    shown = {named.name.lower(): named.name for named in query.output}
    chosen: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if name.lower() not in shown:
            raise LaminarError(
                "LMR0102", f'column "{name}" does not exist in view "{query.view}"', where=where,
                hint=did_you_mean(name, shown.values()),
            )  # fmt: skip
        if shown[name.lower()] in chosen:
            raise LaminarError("LMR0104", f'column "{name}" is in the key twice', where=where)
        chosen.append(shown[name.lower()])
    return tuple(chosen)


def _group_key(query: Query, statement: SinkStatement) -> tuple[str, ...]:
    """The window's bounds and the group keys, under the names that the view shows them by: of one group, none."""
    if not query.is_grouped:
        raise LaminarError(
            "LMR0222", f'the rows of view "{query.view}" are no groups, so nothing tells them apart',
            where=statement.where, hint="Say which columns do: key = '…', or use another mode.",
        )  # fmt: skip
    shown = {n.expression.name: n.name for n in reversed(query.output) if isinstance(n.expression, Column)}
    bounds = [bound for bound in _bounds(query) if bound in shown]
    for bound in _bounds(query) if not _bounds_suffice(query, bounds) else ():
        if bound not in shown:
            raise _not_shown(query, statement, bound)
    keys = [f"k{i}" for i in range(len(query.keys))]
    for name, key in zip(keys, query.keys, strict=True):
        if name not in shown:
            raise _not_shown(query, statement, key.name)
    return tuple(shown[name] for name in (*bounds, *keys))


def _bounds(query: Query) -> tuple[str, ...]:
    """A session is its start and key, since its end may move."""
    if query.window is None:
        return ()
    return (WINDOW_START,) if isinstance(query.window, Session) else (WINDOW_START, WINDOW_END)


def _bounds_suffice(query: Query, shown: Sequence[str]) -> bool:
    """Of windows of one size, one bound tells which window it is."""
    if isinstance(query.window, Cumulate):
        return len(shown) == len(_bounds(query))
    return bool(shown) or query.window is None


def _not_shown(query: Query, statement: SinkStatement, what: str) -> LaminarError:
    return LaminarError(
        "LMR0222",
        f'sink "{statement.name}" needs "{what}" to tell results apart, and view "{query.view}" does not show it',
        where=statement.where,
        detail="A result is known by its window and its group keys.",
        hint=f"Add {what} to the view's SELECT, or say which of its columns are a key: key = '…'.",
    )
