"""Which windows can still take a row: judged per window, against the watermark before the row's own commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laminar_dagster.semantics.grouping import Placed, placed, sessions, trouble_of
from laminar_dagster.semantics.judging import Candidate, Key
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Session, Window


@dataclass(frozen=True)
class Judged:
    """A row, the windows it belongs to, those of them that take it, and why its arguments have no value."""

    candidate: Candidate
    windows: tuple[Window | None, ...]
    takers: tuple[Window | None, ...]
    trouble: str | None

    @property
    def is_late(self) -> bool:
        return bool(self.windows) and not self.takers

    @property
    def is_partially_late(self) -> bool:
        return bool(self.takers) and len(self.takers) < len(self.windows)


def is_closed(end: int, lateness: int, watermark: int | None) -> bool:
    """A window closes when the watermark reaches its end plus the allowed lateness: inclusive."""
    return watermark is not None and watermark >= end + lateness


def judge_commit(
    query: Query, candidates: Sequence[Candidate], live: Sequence[Placed], watermark: int | None
) -> list[Judged]:
    """Every row of a commit, judged against the watermark before it."""
    if isinstance(query.window, Session):
        return _judge_sessions(query, query.window, candidates, live, watermark)
    return [_judge_fixed(query, candidate, watermark) for candidate in candidates]


def _judge_fixed(query: Query, candidate: Candidate, watermark: int | None) -> Judged:
    if query.window is None:
        return Judged(candidate, (None,), (None,), trouble_of(query, candidate))
    windows = query.window.assign(candidate.event_time)
    takers = tuple(w for w in windows if not is_closed(w.end, query.lateness, watermark))
    return Judged(candidate, windows, takers, trouble_of(query, candidate))


def _judge_sessions(
    query: Query, kind: Session, candidates: Sequence[Candidate], live: Sequence[Placed], watermark: int | None
) -> list[Judged]:
    """A row is late where the session that it would be part of is closed.

    The commit's own rows are merged with the open sessions first, all at once, because their order has no
    meaning. A retraction joins nothing: it enters the session that holds its time. A row that has no key is not
    late, since there is no session to be late for.
    """
    troubles = [trouble_of(query, c) for c in candidates]
    sound = [c for c, trouble in zip(candidates, troubles, strict=True) if trouble is None]
    merged = _merged_sessions(kind, sound, live)
    judged: list[Judged] = []
    for candidate, trouble in zip(candidates, troubles, strict=True):
        own = kind.assign(candidate.event_time)[0]
        reached = [own, *(w for w in merged.get(candidate.key, ()) if _joins(candidate, own, w))]
        on_time = any(not is_closed(window.end, query.lateness, watermark) for window in reached)
        takes = on_time or candidate.key_trouble is not None
        judged.append(Judged(candidate, (own,), (None,) if takes else (), trouble))
    return judged


def _joins(candidate: Candidate, own: Window, session: Window) -> bool:
    if candidate.reading.weight < 0:
        return session.start <= own.start < session.end
    return own.start <= session.end and session.start <= own.end


def _merged_sessions(kind: Session, sound: Sequence[Candidate], live: Sequence[Placed]) -> dict[Key, list[Window]]:
    rows = [*live, *(placed(candidate, None) for candidate in sound if candidate.reading.weight > 0)]
    return {key: sessions(kind, [row for row in rows if row.key == key]) for key in {row.key for row in rows}}
