"""What a view may not say: mistakes first, then what this version cannot run yet. Each rule is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from laminar_dagster.errors import LaminarError, NotWiredError, Span
from laminar_dagster.plan.bounds import unbounded
from laminar_dagster.semantics.aggregates import TIME
from laminar_dagster.semantics.emit import CHANGES, SINKS, Early
from laminar_dagster.semantics.expressions import Column, columns_of
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import (
    IN_QUERY,
    IN_SQL,
    PROCESSING_TIME,
    VIEW_CONNECTOR,
    AggregateCall,
    Input,
    Query,
    Source,
)
from laminar_dagster.semantics.quotas import pointless
from laminar_dagster.semantics.spark_sql import display
from laminar_dagster.semantics.time import format_micros
from laminar_dagster.semantics.windows import Calendar, Tumble

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


def event_times_are_retracted_with_their_rows(query: Query) -> Iterator[LaminarError]:
    """What tells rows apart by event time never meets the rows again if that time is when each was read."""
    source = next((e.source for e in query.inputs if e.source.takes_retractions and _reads_at_any_time(query, e)), None)
    if source is None:
        return
    if query.window is not None:
        yield _retracted_elsewhere(query, source, "a window", "option:on_null_event_time", "window")
    for call in query.aggregates:
        if call.kernel.weighted is not None and TIME in call.kernel.weighted.inputs:
            name = call.kernel.aggregate.upper()
            yield _retracted_elsewhere(query, source, name, f"aggregate:{call.id}", instead=_without_time(call))


def _reads_at_any_time(query: Query, entry: Input) -> bool:
    """Whether rows of this input may have the time at which they were read."""
    return entry.event_time == PROCESSING_TIME or query.null_event_time == FALLBACK


def _retracted_elsewhere(query: Query, source: Source, what: str, *places: str, instead: str = "") -> LaminarError:
    falls_back = query.null_event_time == FALLBACK
    return LaminarError(
        "LMR0209",
        f'{what} goes by event time, and source "{source.name}", which sends retractions, '
        f"{'may have rows without one' if falls_back else 'has none'}",
        where=place(query, *places),
        detail="Rows would have the time at which they were read, and a row that is taken back another one.",
        hint="Leave on_null_event_time = 'fallback' out."
        if falls_back
        else f"Give the source its event time (WATERMARK FOR …){instead}.",
    )


def _without_time(call: AggregateCall) -> str:
    """What is nearest to an aggregate and does not look at event times."""
    if call.kernel.aggregate in ("first", "last"):
        return f", or use {'MIN_BY' if call.kernel.aggregate == 'first' else 'MAX_BY'}(x, y) with a column to go by"
    return ", or write DISTINCT, which goes by value"


def waiting_needs_a_window(query: Query) -> Iterator[LaminarError]:
    """A strategy that waits for a window's end never emits without a window."""
    if query.window is None and query.emit.needs_window:
        asking = f"the {query.sink} sink" if query.emit_for is None else f'sink "{query.emit_for}"'
        came_from = "" if query.explicit_emit else f", which {asking} asks for,"
        yield LaminarError(
            "LMR0210",
            f"EMIT {query.emit.sql}{came_from} needs a window, and this query has none",
            where=place(query, "emit", "sink", f"sink:{query.emit_for}"),
            detail="Without a window nothing ever closes, so no row would ever be emitted.",
            hint="Group by a window of the source's event time (the column with a WATERMARK), or use EMIT CHANGES"
            f"{_where_changes_go(query)}.",
        )


def _where_changes_go(query: Query) -> str:
    if "sink" in query.places and CHANGES not in SINKS[query.sink].accepts:
        return " with sink = 'upsert'"
    appends = next((sink for sink in query.sinks if not sink.accepts(CHANGES)), None)
    return "" if appends is None else f' with {_INSTEAD[appends.connector]} in sink "{appends.name}"'


def sink_accepts_the_strategy(query: Query) -> Iterator[LaminarError]:
    sink = SINKS[query.sink]
    if query.emit not in sink.accepts and not query.only_appends:
        possible = [policy for policy in sink.accepts if query.window is not None or not policy.needs_window]
        remedies = [*(f"EMIT {policy.sql}" for policy in possible), "sink = 'upsert'"]
        yield LaminarError(
            "LMR0211",
            f"sink '{sink.name}' cannot take EMIT {query.emit.sql}",
            where=place(query, "emit", "sink"),
            detail="An append-only table cannot take back a row that was corrected."
            if sink.name == "append"
            else "A changelog is written for every change, not for the changed results alone.",
            hint=f"Write {' or '.join(remedies)}.",
        )


def declared_sinks_accept_the_strategy(query: Query) -> Iterator[LaminarError]:
    """What was appended somewhere else cannot be taken back."""
    for sink in query.sinks:
        if not sink.accepts(query.emit) and not query.only_appends:
            accepted = " or ".join(f"EMIT {policy.sql}" for policy in SINKS[sink.takes].accepts)
            instead = f"{_INSTEAD[sink.connector]} in the sink"
            yield LaminarError(
                "LMR0211",
                f'sink "{sink.name}" appends rows, and view "{query.view}" (EMIT {query.emit.sql}) takes rows back',
                where=sink.where,
                detail="Results that were shown are corrected, and what was appended stays.",
                hint=f"Write {instead}." if query.window is None else f"Write {accepted} in the view, or {instead}.",
            )


_INSTEAD = {
    "delta": "mode = 'upsert' or 'changelog'",
    "files": "mode = 'changelog' or format = 'debezium'",
    "kafka": "mode = 'upsert' or 'changelog'",
}


def rows_that_pass_are_not_kept(query: Query) -> Iterator[LaminarError]:
    """What is not kept cannot wait for a period, and to be found again it must be comparable."""
    if not query.passes_rows:
        return
    if query.emit.early is Early.EACH_PERIOD:
        yield LaminarError(
            "LMR0217",
            "EMIT EVERY needs results that are kept, and rows without a window or a GROUP BY pass through",
            where=place(query, "emit"),
            hint="Use EMIT CHANGES, and run the view once per period.",
        )
    for named in query.output if query.takes_retractions else ():
        if named.type.name.startswith("MAP<"):
            yield LaminarError(
                "LMR0217",
                f'column "{named.name}" is a MAP, by which a row that is taken back cannot be found',
                where=place(query, "view"),
                hint="Select parts of the map, or leave the column out.",
            )


def waiting_needs_a_watermark(query: Query) -> Iterator[LaminarError]:
    """The window's time must be the time that a watermark is declared for, where something waits for it.

    A view that shows changes may do without one: no row is late then, and no window closes.
    """
    waits = query.waits_for_close or query.emit.needs_window or query.allowed_lateness > 0 or query.gap_fill is not None
    for entry in query.inputs if query.window is not None else ():
        if not entry.has_watermark and (waits or entry.source.event_time is not None):
            yield _no_watermark(query, entry)


def _no_watermark(query: Query, entry: Input) -> LaminarError:
    source = entry.source
    column = entry.event_time.name if isinstance(entry.event_time, Column) else None
    declared = None if source.event_time is None else display(source.event_time)
    if entry.event_time == source.event_time:  # of a number, people know the column that the time is made of
        column = declared = next(iter(columns_of(entry.event_time)), declared)
    shown = f'"{column}"' if column is not None else "this expression"
    detail = f'Its watermark is for "{declared}".' if declared not in (None, column) else None
    remedy = f"Add WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND to CREATE SOURCE {source.name}."
    if source.connector == VIEW_CONNECTOR and source.event_time is None:
        remedy = f'Declare one in the sources of view "{source.name}", which hands it on, or say watermark_lag here.'
    elif source.said.get("event_time") == IN_QUERY:
        remedy = "Name the same time in WATERMARK(…) and in the window."
    elif column is None or declared not in (None, column):
        remedy = "Put the window over the time that has the watermark, or say the lag in the view: watermark_lag = '…'."
    elif source.said.get("event_time", IN_SQL) != IN_SQL:
        remedy = f'Add watermark_lag = "5 seconds" to {source.said["event_time"]}, beside event_time.'
    elif declared is not None:
        remedy = f"Add watermark_lag = '5 seconds' to CREATE SOURCE {source.name}, beside event_time."
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


def limits_have_a_meaning(query: Query) -> Iterator[LaminarError]:
    for entry in pointless(query):
        yield LaminarError(
            "LMR0226",
            f"this view cannot have {entry.limit.option}: {entry.why}",
            where=place(query, f"option:{entry.limit.option}"),
            hint=entry.hint,
        )


def gap_fill_needs_tumbling_windows(query: Query) -> Iterator[LaminarError]:
    if query.gap_fill is not None and not isinstance(query.window, (Tumble, Calendar, type(None))):
        yield LaminarError(
            "LMR0214",
            f"GAP FILL works for tumbling windows, and this is {query.window}",
            where=place(query, "gap_fill"),
            hint="Use TUMBLE, or leave GAP FILL out.",
        )


def gap_fill_needs_aggregates(query: Query) -> Iterator[LaminarError]:
    """What stands in a filled row is made of the results beside the gap; rows themselves are not made up."""
    if query.gap_fill is not None and (not query.aggregates or query.ranking is not None):
        what = "numbers rows" if query.ranking is not None else "has no aggregate"
        yield LaminarError(
            "LMR0215",
            f"GAP FILL fills results of aggregates, and this query {what}",
            where=place(query, "gap_fill"),
            hint="Group by the window and aggregate, or leave GAP FILL out.",
        )


def a_line_needs_numbers(query: Query) -> Iterator[LaminarError]:
    if query.gap_fill != "LINEAR":
        return
    for call in query.aggregates:
        if not call.kernel.result.is_numeric:
            yield LaminarError(
                "LMR0216",
                f"GAP FILL LINEAR needs numbers, and {call.text} is {call.kernel.result}",
                where=place(query, f"aggregate:{call.id}", "gap_fill"),
                hint="Use GAP FILL LOCF or GAP FILL NULL, or leave this aggregate out.",
            )


def max_gap_has_an_effect(query: Query) -> Iterator[LaminarError]:
    if query.max_gap is None:
        return
    where = place(query, "option:max_gap")
    if query.gap_fill is None:
        yield LaminarError(
            "LMR0306", "max_gap limits GAP FILL, and this view has none", where=where,
            hint="Add GAP FILL NULL, LOCF or LINEAR before EMIT, or leave max_gap out.",
        )  # fmt: skip
    elif isinstance(query.window, Tumble) and query.max_gap < query.window.size:
        yield LaminarError(
            "LMR0306", "max_gap is shorter than the window, so no gap would ever be filled", where=where,
            hint=f"Give at least '{format_micros(query.window.size)}', or leave GAP FILL out.",
        )  # fmt: skip


def state_is_bounded_where_it_must_be(query: Query) -> Iterator[LaminarError]:
    """A project may refuse views whose state can grow without end."""
    reasons = unbounded(query) if query.unbounded_state == "refuse" else ()
    for entry in reasons[:1]:
        said = place(query, "option:unbounded_state")
        by_whom = "" if said is None else f" ({said.file or '<sql>'}, line {said.line})"
        yield LaminarError(
            "LMR0225",
            "nothing bounds the state of this view",
            where=place(query, *entry.places),
            detail=f"{entry.why[0].upper()}{entry.why[1:]}; unbounded_state = 'refuse' forbids that{by_whom}.",
            hint=f"{entry.remedy}, or say unbounded_state = 'allow' for this view.",
        )


MISTAKES: tuple[Rule, ...] = (
    aggregates_take_retractions,
    event_times_are_retracted_with_their_rows,
    waiting_needs_a_window,
    sink_accepts_the_strategy,
    declared_sinks_accept_the_strategy,
    rows_that_pass_are_not_kept,
    waiting_needs_a_watermark,
    clauses_need_a_window,
    limits_have_a_meaning,
    gap_fill_needs_tumbling_windows,
    gap_fill_needs_aggregates,
    a_line_needs_numbers,
    max_gap_has_an_effect,
    state_is_bounded_where_it_must_be,
)


# --- not wired yet -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotWired:
    """A part of the language that the engine cannot run yet. Delete the line when it can."""

    code: str
    what: str
    found: Callable[[Query], str | None]
    hint: str | None = None


def _when(key: str, holds: Callable[[Query], bool]) -> Callable[[Query], str | None]:
    return lambda query: key if holds(query) else None


def _fills_what_changes(query: Query) -> bool:
    return query.gap_fill is not None and not query.emit.append_only


def _fills_what_is_taken_back(query: Query) -> bool:
    return query.gap_fill is not None and query.takes_retractions


_FILLED = "Write EMIT ON WINDOW CLOSE or EMIT FINAL: gaps are filled when a window closes."
_KEPT = "Over sources that only append it works today."

NOT_WIRED: tuple[NotWired, ...] = (
    NotWired("LMR0908", "GAP FILL of results that are shown early", _when("gap_fill", _fills_what_changes), _FILLED),
    NotWired("LMR0908", "GAP FILL over retractions", _when("gap_fill", _fills_what_is_taken_back), _KEPT),
)


def everything_is_wired(query: Query) -> Iterator[LaminarError]:
    for entry in NOT_WIRED:
        key = entry.found(query)
        if key is not None:
            yield NotWiredError(
                entry.code,
                f"{entry.what} is part of the language, but this version cannot run it yet",
                where=place(query, key),
                hint=entry.hint,
            )


RULES: tuple[Rule, ...] = (*MISTAKES, everything_is_wired)


def check(query: Query) -> Iterator[LaminarError]:
    """Everything that is wrong with a view, mistakes first."""
    for rule in RULES:
        yield from rule(query)
