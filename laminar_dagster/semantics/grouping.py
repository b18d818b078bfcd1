"""Rows in their windows, and what a group of them is worth: recomputed from the rows every time it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics.aggregates import TIME
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.judging import Candidate, Key, holds
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START, AggregateCall, Query
from laminar_dagster.semantics.ranking import values_kept
from laminar_dagster.semantics.windows import Session, Window
from laminar_dagster.semantics.zset import Row, consolidate, identity


@dataclass(frozen=True)
class Placed:
    """A row in one window. A session's rows have none: their window follows from the rows around them."""

    key: Key
    window: Window | None
    event_time: int
    columns: Row
    weight: int


@dataclass(frozen=True)
class Group:
    """The rows of one key in one window; `window` is None in a query without windows."""

    key: Key
    window: Window | None
    rows: tuple[Placed, ...]

    @property
    def remaining(self) -> list[Row]:
        """The rows that retractions have left, each as often as it is there."""
        weighted = consolidate((placed.columns, placed.weight) for placed in self.rows)
        return [row for row, weight in weighted for _ in range(weight)]

    @property
    def remaining_times(self) -> list[int]:
        """The event time of each of the remaining rows: of equal rows, a retraction takes the one of its own time."""
        times: dict[Hashable, Counter[int]] = {}
        for placed in self.rows:
            times.setdefault(identity(placed.columns), Counter())[placed.event_time] += placed.weight
        return [time for row in times.values() for time in _left(row)]


def _left(weights: Counter[int]) -> list[int]:
    """As many times as there is weight, from those that have some."""
    times = sorted((+weights).elements())
    return times[: max(0, weights.total())]


def placed(candidate: Candidate, window: Window | None) -> Placed:
    return Placed(candidate.key, window, candidate.event_time, candidate.columns, candidate.reading.weight)


def groups(query: Query, rows: Sequence[Placed]) -> list[Group]:
    """All rows, by key and window, in the order in which the groups first appear."""
    if isinstance(query.window, Session):
        return _session_groups(query.window, rows)
    found: dict[tuple[Key, Window | None], list[Placed]] = {}
    for row in rows:
        found.setdefault((row.key, row.window), []).append(row)
    return [Group(key, window, tuple(members)) for (key, window), members in found.items()]


def _session_groups(kind: Session, rows: Sequence[Placed]) -> list[Group]:
    by_key: dict[Key, list[Placed]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return [
        Group(key, window, tuple(r for r in members if window.start <= r.event_time < window.end))
        for key, members in by_key.items()
        for window in sessions(kind, members)
    ]


def sessions(kind: Session, rows: Iterable[Placed]) -> list[Window]:
    """The sessions of one key's rows. A row that was retracted holds no session together."""
    weights: dict[int, list[tuple[Row, int]]] = {}
    for row in rows:
        weights.setdefault(row.event_time, []).append((row.columns, row.weight))
    times = [time for time, weighted in weights.items() if any(w > 0 for _, w in consolidate(weighted))]
    return kind.merge([kind.assign(time)[0] for time in times])


def key_columns(query: Query, key: Key) -> dict[str, Any]:
    """A group's key under the names that the query gives its parts."""
    return {named.name: part for named, part in zip(query.keys, key, strict=True)}


def result(query: Query, group: Group) -> Row | None:
    """A group's output row; None where it is empty or HAVING holds it back; RowError where it has no value."""
    known = known_of(query, group)
    return None if known is None else selected(query, known)


def known_of(query: Query, group: Group) -> Row | None:
    """A group's key, bounds and results, that HAVING and SELECT are over; None as for `result`."""
    rows = group.remaining
    if not rows:
        return None
    known = {f"k{position}": part for position, part in enumerate(group.key)}
    known |= bounds(group.window)
    timed = _timed(query, group, rows)
    known |= {call.id: call.kernel.fresh(argument_values(call, timed)) for call in query.aggregates}
    return known if holds(query.having, known) else None


def _timed(query: Query, group: Group, rows: Sequence[Row]) -> list[tuple[Row, Any]]:
    """Rows with their times; where nothing is ever taken back, also with their place among all that came."""
    if not query.goes_by_arrival:
        return list(zip(rows, group.remaining_times, strict=True))
    return [(placed.columns, (placed.event_time, place)) for place, placed in enumerate(group.rows)]


def selected(query: Query, known: Row) -> Row:
    return {named.name: evaluate(named.expression, known) for named in query.output}


def bounds(window: Window | None) -> dict[str, Any]:
    return {} if window is None else {WINDOW_START: window.start, WINDOW_END: window.end}


def argument_values(call: AggregateCall, rows: Iterable[tuple[Row, Any]]) -> list[Any]:
    """What the aggregate sees of rows and their times; arguments are not looked at where FILTER leaves a row out."""
    return [_seen(call, row, time) for row, time in rows if holds(call.filter, row)]


def _seen(call: AggregateCall, row: Row, time: Any) -> Any:
    values: list[Any] = [evaluate(argument, row) for argument in call.arguments] or [True]
    values += [time] if TIME in call.kernel.inputs else []
    return values[0] if len(values) == 1 else tuple(values)


def projected(query: Query, columns: Row, window: Window | None) -> Row:
    """The output row of a query that does not group."""
    return selected(query, {**columns, **bounds(window)})


def trouble_of(query: Query, candidate: Candidate) -> str | None:
    """Why a row that is on time cannot be aggregated (or kept) all the same, or None."""
    if candidate.key_trouble is not None:
        return candidate.key_trouble
    try:
        for call in query.aggregates:
            argument_values(call, [(candidate.columns, candidate.event_time)])
        if not query.is_grouped:
            for value in values_kept(query):
                evaluate(value, candidate.columns)
    except RowError as trouble:
        return trouble.reason
    return None
