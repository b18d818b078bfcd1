"""Limits on what a view keeps open, and who is evicted when they are reached.

A place is a (window, group) that has rows, as long as its window is open. A row whose place is held enters. Rows that
would open places get them commit by commit, and within a commit by window, then key, as far as the limits leave room.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.grouping import Placed, placed, sessions
from laminar_dagster.semantics.judging import Key
from laminar_dagster.semantics.lateness import Judged
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.ranking import values_kept
from laminar_dagster.semantics.windows import Session, Window
from laminar_dagster.semantics.zset import canonical


class Place(NamedTuple):
    """An accumulator: one group in one window. In a view without windows `window` is None."""

    window: Window | None
    key: Key


@dataclass(frozen=True)
class Limit:
    """An option, the reason it evicts for, and which places it counts together: of one window, one group, or all."""

    option: str
    reason: str
    of_window: bool = False
    of_group: bool = False

    def most(self, query: Query) -> int | None:
        value: int | None = getattr(query, self.option)
        return value

    def counted_with(self, place: Place) -> Place:
        return Place(place.window if self.of_window else None, place.key if self.of_group else ())


MAX_GROUPS = Limit("max_groups_per_window", "max_groups", of_window=True)
MAX_WINDOWS = Limit("max_windows_per_group", "max_windows", of_group=True)
MAX_STATE_ROWS = Limit("max_state_rows", "max_state_rows")
# In this order: each counts the places that are held, and the new ones that the limits before it let through.
LIMITS = (MAX_GROUPS, MAX_WINDOWS, MAX_STATE_ROWS)


def limits_of(query: Query) -> tuple[Limit, ...]:
    """The limits that a view has, in the order in which they are judged."""
    own = (limit for limit in LIMITS if limit.most(query) is not None)
    return tuple(limit for limit in own if not (limit is MAX_GROUPS and isinstance(query.window, Session)))


def refusals(query: Query, held: Collection[Place], asked: Collection[Place]) -> dict[Place, str]:
    """The places that rows ask for and do not get, each with the reason."""
    refused: dict[Place, str] = {}
    for limit in limits_of(query):
        taken = Counter(limit.counted_with(place) for place in held)
        for place in sorted(set(asked) - refused.keys(), key=_order):
            if taken[limit.counted_with(place)] >= (limit.most(query) or 0):
                refused[place] = limit.reason
            else:
                taken[limit.counted_with(place)] += 1
    return refused


def _order(place: Place) -> tuple[Any, ...]:
    bounds = () if place.window is None else (place.window.start, place.window.end)
    return bounds, tuple(_sortable(part) for part in place.key)


def _sortable(value: Any) -> tuple[Any, ...]:
    """As ORDER BY in Spark: NULL first, NaN last, arrays part by part."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, tuple(_sortable(part) for part in value) if isinstance(value, tuple) else value)


class Places:
    """The places of a view's open windows, as its commits fill them."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._held: set[Place] = set()

    def judge(self, rows: Sequence[Judged], live: Sequence[Placed]) -> list[dict[Window | None, str | None]]:
        """For each row of a commit, the windows that could take it, and why one has no place (None: it has)."""
        if not limits_of(self._query):
            return [dict.fromkeys(row.takers) for row in rows]
        if isinstance(self._query.window, Session):
            return self._judge_sessions(self._query.window, rows, live)
        keys = [place_key(self._query, row) for row in rows]
        asked = {Place(window, key) for row, key in zip(rows, keys, strict=True) for window in row.takers}
        refused = refusals(self._query, self._held, asked - self._held)
        self._held |= asked - refused.keys()
        return [{w: refused.get(Place(w, key)) for w in row.takers} for row, key in zip(rows, keys, strict=True)]

    def _judge_sessions(
        self, kind: Session, rows: Sequence[Judged], live: Sequence[Placed]
    ) -> list[dict[Window | None, str | None]]:
        """A session that a commit's rows form among themselves asks for a place; one that they join has it."""
        new = [placed(row.candidate, None) for row in rows]
        by_key: dict[Key, list[Placed]] = {}
        for row in [*live, *new]:
            by_key.setdefault(row.key, []).append(row)
        formed = {key: sessions(kind, members) for key, members in by_key.items()}
        held = {_session_of(row, formed) for row in live}
        asked = [_session_of(row, formed) for row in new]
        refused = refusals(self._query, held, set(asked) - held)
        return [{None: refused.get(place)} for place in asked]

    def close(self, is_closed: Callable[[Window], bool]) -> None:
        """Closed windows leave their places to others."""
        self._held = {place for place in self._held if place.window is None or not is_closed(place.window)}


def _session_of(row: Placed, formed: Mapping[Key, Sequence[Window]]) -> Place:
    return Place(next(w for w in formed[row.key] if w.start <= row.event_time < w.end), row.key)


def place_key(query: Query, row: Judged) -> Key:
    """What tells the accumulators of a window apart: the group's key, or, of rows that are only kept, their values."""
    if query.is_grouped:
        return row.candidate.key
    return tuple(canonical(evaluate(value, row.candidate.columns)) for value in values_kept(query))


# --- where a limit means nothing ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pointless:
    """A limit that a view cannot have: when, why, and what to do instead."""

    limit: Limit
    holds: Callable[[Query], bool]
    why: str
    hint: str = "Leave it out."


def _frees_places(query: Query) -> bool:
    return query.takes_retractions and query.window is not None


_NO_GROUPS = "it counts groups, and this query keeps rows"
_ROWS_INSTEAD = "Use max_state_rows, which counts the rows that are kept."
_ROW_AND_RETRACTION = (
    "the source takes rows back, and a window that closes makes room: a row would be evicted, and its retraction not"
)
_APPENDS = "Leave it out, or read a source that only appends."

POINTLESS = (
    Pointless(
        MAX_GROUPS, lambda q: isinstance(q.window, Session), "a session belongs to one group",
        "Use max_windows_per_group, or max_state_rows.",
    ),
    Pointless(MAX_GROUPS, lambda q: q.window is not None and not q.is_grouped, _NO_GROUPS, _ROWS_INSTEAD),
    Pointless(MAX_WINDOWS, lambda q: q.window is not None and not q.is_grouped, _NO_GROUPS, _ROWS_INSTEAD),
    Pointless(MAX_WINDOWS, _frees_places, _ROW_AND_RETRACTION, _APPENDS),
    Pointless(
        MAX_STATE_ROWS, lambda q: q.passes_rows, "rows without a window or a GROUP BY pass through, and none is kept"
    ),
    Pointless(
        MAX_STATE_ROWS, lambda q: not q.is_grouped and isinstance(q.window, Session),
        "it counts sessions, and without GROUP BY all rows share theirs",
    ),
    Pointless(
        MAX_STATE_ROWS, lambda q: not q.is_grouped and q.ranking is not None,
        "ROW_NUMBER() decides which rows are kept",
    ),
    Pointless(MAX_STATE_ROWS, _frees_places, _ROW_AND_RETRACTION, _APPENDS),
)  # fmt: skip


def pointless(query: Query) -> Iterator[Pointless]:
    """The limits of a view that it cannot have, each once."""
    for limit in LIMITS:
        if limit.most(query) is not None:
            yield from [entry for entry in POINTLESS if entry.limit is limit and entry.holds(query)][:1]


def without_pointless(query: Query, defaulted: Collection[str]) -> Query:
    """A project's default says nothing about a view in which it has no meaning."""
    gone: dict[str, Any] = {e.limit.option: None for e in pointless(query) if e.limit.option in defaulted}
    return replace(query, **gone)
