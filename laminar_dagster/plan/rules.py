"""What a view may not say: mistakes first, then what this version cannot run yet. Each rule is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from laminar_dagster.errors import LaminarError, NotWiredError, Span
from laminar_dagster.semantics.emit import FINAL, ON_WINDOW_CLOSE, SINKS, EmitPolicy
from laminar_dagster.semantics.expressions import Column, columns_of
from laminar_dagster.semantics.grouping import is_grouped
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, Input, Query, Source
from laminar_dagster.semantics.windows import Calendar, Session, Tumble

Rule = Callable[[Query], Iterator[LaminarError]]


def place(query: Query, *keys: str) -> Span | None:
    """The first of these parts that stands in the SQL, else the view's name."""
    return next((query.places[key] for key in (*keys, "view") if key in query.places), None)


# --- mistakes ------------------------------------------------------------------------------------------------


def aggregates_take_retractions(query: Query) -> Iterator[LaminarError]:
    """An aggregate that cannot take a retraction is refused over a source that sends them."""
    source = next((entry.source for entry in query.inputs if entry.source.takes_retractions), None)
    if source is None:
        return
    for call in query.aggregates:
        if not call.kernel.accepts_retraction:
            yield LaminarError(
                "LMR0209",
                f'{call.kernel.aggregate.upper()} cannot retract a row, and source "{source.name}" sends retractions',
                where=place(query, f"aggregate:{call.id}"),
                hint="Use an aggregate that can (COUNT, SUM, AVG, MIN, MAX, COUNT DISTINCT), or a source that appends.",
            )


def waiting_needs_a_window(query: Query) -> Iterator[LaminarError]:
    """A strategy that waits for a window's end never emits without a window."""
    if query.window is None and query.emit.needs_window:
        came_from = "" if query.explicit_emit else f", which the {query.sink} sink asks for,"
        yield LaminarError(
            "LMR0210",
            f"EMIT {query.emit.sql}{came_from} needs a window, and this query has none",
            where=place(query, "emit", "sink"),
            detail="Without a window nothing ever closes, so no row would ever be emitted.",
            hint="Group by a window of the source's event time (the column with a WATERMARK), or use EMIT CHANGES.",
        )


def sink_accepts_the_strategy(query: Query) -> Iterator[LaminarError]:
    sink = SINKS[query.sink]
    if query.emit not in sink.accepts:
        accepted = " or ".join(f"EMIT {policy.sql}" for policy in sink.accepts)
        yield LaminarError(
            "LMR0211",
            f"sink '{sink.name}' cannot take EMIT {query.emit.sql}",
            where=place(query, "emit", "sink"),
            detail="An append-only table cannot take back a row that was corrected."
            if sink.name == "append"
            else "A changelog is written for every change, not for the changed results alone.",
            hint=f"Write {accepted}, or sink = 'upsert'.",
        )


def waiting_needs_a_watermark(query: Query) -> Iterator[LaminarError]:
    """The window's time must be the time that a watermark is declared for."""
    if query.window is None:
        return
    for entry in query.inputs:
        if not _has_watermark(entry) and (query.emit.needs_window or entry.source.watermark_column is not None):
            yield _no_watermark(query, entry)


def _has_watermark(entry: Input) -> bool:
    source, used = entry.source, columns_of(entry.event_time)
    if source.watermark_column is not None:
        return used == {source.watermark_column} and source.watermark_lag is not None
    if source.watermark_lag is not None:
        return True
    handed_on = {source.options[bound] for bound in (WINDOW_START, WINDOW_END) if bound in source.options}
    return len(used) == 1 and used <= handed_on


def _no_watermark(query: Query, entry: Input) -> LaminarError:
    source = entry.source
    column = entry.event_time.name if isinstance(entry.event_time, Column) else None
    shown = f'"{column}"' if column is not None else "this expression"
    declared = source.watermark_column
    detail = f'Its watermark is for "{declared}".' if declared not in (None, column) else None
    remedy = f"Add WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND to CREATE SOURCE {source.name}."
    if column is None or declared not in (None, column):
        remedy = "Put the window over the column that has the watermark, or give the source the option watermark_lag."
    return LaminarError(
        "LMR0212",
        f'source "{source.name}" declares no watermark for {shown}, so its windows would never close',
        where=place(query, "window"),
        detail=detail,
        hint=remedy,
    )


_NEED_A_WINDOW = (
    ("ALLOW LATENESS", "lateness", lambda q: q.allowed_lateness > 0),
    ("GAP FILL", "gap_fill", lambda q: q.gap_fill is not None),
    ("max_groups_per_window", "option:max_groups_per_window", lambda q: q.max_groups_per_window is not None),
    ("max_windows_per_group", "option:max_windows_per_group", lambda q: q.max_windows_per_group is not None),
)


def clauses_need_a_window(query: Query) -> Iterator[LaminarError]:
    """Nothing that is written is without effect."""
    if query.window is not None:
        return
    for clause, key, holds in _NEED_A_WINDOW:
        if holds(query):
            yield LaminarError(
                "LMR0213", f"{clause} has no meaning without a window", where=place(query, key), hint="Leave it out."
            )


def gap_fill_needs_tumbling_windows(query: Query) -> Iterator[LaminarError]:
    if query.gap_fill is not None and not isinstance(query.window, (Tumble, Calendar, type(None))):
        yield LaminarError(
            "LMR0214",
            f"GAP FILL works for tumbling windows, and this is {query.window}",
            where=place(query, "gap_fill"),
            hint="Use TUMBLE, or leave GAP FILL out.",
        )


MISTAKES: tuple[Rule, ...] = (
    aggregates_take_retractions,
    waiting_needs_a_window,
    sink_accepts_the_strategy,
    waiting_needs_a_watermark,
    clauses_need_a_window,
    gap_fill_needs_tumbling_windows,
)


# --- not wired yet -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotWired:
    """A part of the language that the engine cannot run yet. Delete the line when it can."""

    code: str
    what: str | Callable[[Query], str]
    found: Callable[[Query], str | None]
    hint: str | None = None


def _when(key: str, holds: Callable[[Query], bool]) -> Callable[[Query], str | None]:
    return lambda query: key if holds(query) else None


def _limited(option: str) -> Callable[[Query], str | None]:
    return _when(f"option:{option}", lambda query: getattr(query, option) is not None)


def _source_with(option: str, holds: Callable[[Source], bool]) -> Callable[[Query], str | None]:
    def found(query: Query) -> str | None:
        source = next((entry.source for entry in query.inputs if holds(entry.source)), None)
        if source is None:
            return None
        exact = f"source:{source.name}.{option}"
        return exact if exact in query.places else f"input:{source.name}"

    return found


def _other_route(query: Query) -> str | None:
    wired = ("table", "metrics_only")
    return next((f"option:side_output.{k}" for k, v in query.side_output.routes.items() if v not in wired), None)


def _falls_back(query: Query) -> str | None:
    return "option:on_null_event_time" if query.null_event_time == "fallback" else None


def _emits(query: Query, *policies: EmitPolicy) -> bool:
    return query.window is None or query.emit in policies


def _session_of_rows(query: Query) -> str | None:
    return "window" if isinstance(query.window, Session) and not is_grouped(query) else None


def _is_unwindowed(query: Query) -> bool:
    return query.window is None and not query.not_wired


def _emit_clause(query: Query) -> str:
    return f"EMIT {query.emit.sql}" + ("" if query.explicit_emit else ", the strategy of a view that names none,")


_TUMBLE = "TUMBLE, HOP, CUMULATE, SESSION and calendar windows work today."
_APPEND = "sink = 'append' works today."
_CLOSE = "EMIT ON WINDOW CLOSE and EMIT FINAL work today."

NOT_WIRED: tuple[NotWired, ...] = (
    NotWired("LMR0906", "a view that reads another view", _source_with("connector", lambda s: s.connector == "view")),
    NotWired("LMR0906", "connector 'kafka'", _source_with("connector", lambda s: s.connector == "kafka")),
    NotWired("LMR0906", "changes = 'cdf'", _source_with("changes", lambda s: s.takes_retractions)),
    NotWired("LMR0905", _emit_clause, _when("emit", lambda q: not _emits(q, ON_WINDOW_CLOSE, FINAL)), _CLOSE),
    NotWired("LMR0902", "a query without an aggregate over SESSION", _session_of_rows),
    NotWired("LMR0902", "GROUP BY without a window", _when("emit", _is_unwindowed), _TUMBLE),
    NotWired("LMR0908", "GAP FILL", _when("gap_fill", lambda q: q.gap_fill is not None)),
    NotWired("LMR0908", "max_groups_per_window", _limited("max_groups_per_window")),
    NotWired("LMR0908", "max_windows_per_group", _limited("max_windows_per_group")),
    NotWired("LMR0908", "max_state_rows", _limited("max_state_rows")),
    NotWired("LMR0908", "this route of the side output", _other_route, "'table' and 'metrics_only' work today."),
    NotWired("LMR0908", "on_null_event_time = 'fallback'", _falls_back),
    NotWired("LMR0908", lambda q: f"sink = '{q.sink}'", _when("sink", lambda q: q.sink != "append"), _APPEND),
)


def everything_is_wired(query: Query) -> Iterator[LaminarError]:
    yield from query.not_wired
    for entry in NOT_WIRED:
        key = entry.found(query)
        if key is not None:
            what = entry.what if isinstance(entry.what, str) else entry.what(query)
            yield NotWiredError(
                entry.code,
                f"{what} is part of the language, but this version cannot run it yet",
                where=place(query, key),
                hint=entry.hint,
            )


RULES: tuple[Rule, ...] = (*MISTAKES, everything_is_wired)


def check(query: Query) -> Iterator[LaminarError]:
    """Everything that is wrong with a view, mistakes first."""
    for rule in RULES:
        yield from rule(query)
