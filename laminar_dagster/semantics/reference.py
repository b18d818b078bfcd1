"""The executable specification: a view run over rows in memory, slow and obvious.

It keeps every row of the windows that are open and computes each result afresh, so that what it says follows
from the rules and not from bookkeeping. The Spark engine is compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics.duplicates import SeenKeys
from laminar_dagster.semantics.emission import Emitted, Moment, emit_changes, emit_closed
from laminar_dagster.semantics.emit import Early
from laminar_dagster.semantics.gap_fill import Gaps, emit_filled
from laminar_dagster.semantics.grouping import Group, Placed, groups, key_columns, placed, projected
from laminar_dagster.semantics.judging import (
    ALLOWED_LATENESS_EXCEEDED,
    DUPLICATE,
    DUPLICATE_KEY,
    ERROR,
    EVICTED,
    FALLBACK,
    LATE,
    Candidate,
    Commit,
    Reading,
    Refused,
    SideEntry,
    judge,
    latest,
    read,
)
from laminar_dagster.semantics.lateness import Judged, is_closed, judge_commit
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.quotas import Places
from laminar_dagster.semantics.watermark import CommitTimes, Shard, progress
from laminar_dagster.semantics.windows import Session, Window
from laminar_dagster.semantics.zset import CdcOperation, Change, Row, applied, multiset_changes

__all__ = ["Commit", "EpochResult", "Reference", "SideEntry"]


@dataclass(frozen=True)
class EpochResult:
    """What one epoch does: `rows` of an append-only view, `changes` of any other, and what was set aside."""

    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    side_output: tuple[SideEntry, ...]
    watermark: int | None
    counts: Mapping[str, int]


class Reference:
    """A view over rows in memory. `epoch` is the only thing that happens to it."""

    def __init__(self, query: Query) -> None:
        _refuse_what_is_not_modelled(query)
        self.query = query
        self.watermark: int | None = None
        self._shards: Mapping[str, Shard] = {}
        self._live: list[Placed] = []
        self._seen = SeenKeys()
        self._places = Places(query)
        self._emitted = Emitted()
        self._gaps = Gaps(query)
        self._period_began: int | None = None
        self._now: int | None = None
        self._side: list[SideEntry] = []
        self._counts: Counter[str] = Counter()

    @property
    def table(self) -> list[Row]:
        """The view's table: everything appended, or the results as they are now."""
        return [*self._emitted.final, *(shown.row for shown in self._emitted.current.values())]

    @property
    def open_windows(self) -> int:
        """How many windows hold rows and are not closed; of sessions, how many there are over all keys."""
        open_ones = groups(self.query, self._live)
        return len({self._window_of(group) for group in open_ones if group.window is not None})

    def _window_of(self, group: Group) -> tuple[Any, ...]:
        """What tells windows apart: their bounds, and of sessions, which belong to their group, its key."""
        own = group.key if isinstance(self.query.window, Session) else ()
        return (group.window, own)

    def epoch(self, commits: Sequence[Commit], now: int) -> EpochResult:
        """Take the commits in order, move the watermark, close what is due, emit. Processing time never falls."""
        self._now = now = now if self._now is None else max(now, self._now)
        self._side, self._counts = [], Counter()
        readings = [read(self.query, commit, now) for commit in commits]
        times = [
            CommitTimes(commit.source, self._moved_to(commit, rows), has_rows=bool(commit.rows))
            for commit, rows in zip(commits, readings, strict=True)
        ]
        clocks = progress(times, self.watermark, self._shards, self.query.policies, now)
        taken: list[Placed] = []
        closed: list[Group] = []
        for rows, before in zip(readings, clocks.before_commit, strict=True):
            closed += self._close(before)
            taken += self._take(rows, before)
        closed += self._close(clocks.watermark)
        began, self.watermark, self._shards = self.watermark, clocks.watermark, clocks.shards
        appended, changes = self._emit(taken, closed, began, now)
        return EpochResult(tuple(appended), tuple(changes), tuple(self._side), self.watermark, dict(self._counts))

    def _moved_to(self, commit: Commit, rows: Sequence[Reading]) -> int | None:
        entry = next(entry for entry in self.query.inputs if entry.source.name == commit.source)
        return entry.moved_to(commit.watermark, latest(rows))

    # --- rows in ---------------------------------------------------------------------------------------------

    def _take(self, readings: Sequence[Reading], watermark: int | None) -> list[Placed]:
        """The rows of one commit: into their windows, or into the side output."""
        self._counts["rows_in"] += len(readings)
        if self.query.null_event_time == FALLBACK:
            self._counts["null_event_time_rows"] += sum(_took_the_time(reading) for reading in readings)
        fresh = self._without_duplicates(readings, watermark)
        candidates = [c for reading in fresh if (c := self._candidate(reading, watermark)) is not None]
        judged = judge_commit(self.query, candidates, self._live, watermark)
        sound = [row for row in judged if self._is_sound(row, watermark)]
        verdicts = zip(sound, self._places.judge(sound, self._live), strict=True)
        entering = [placement for row, places in verdicts for placement in self._within_limits(row, places, watermark)]
        self._live += entering
        return entering

    def _without_duplicates(self, readings: Sequence[Reading], watermark: int | None) -> list[Reading]:
        repeated = self._seen.repeated(readings, watermark)
        for reading in (readings[place] for place in repeated):
            original, event_time = reading.original, reading.event_time
            self._set_aside(SideEntry(DUPLICATE, DUPLICATE_KEY, original, None, None, event_time, watermark))
        return [reading for place, reading in enumerate(readings) if place not in repeated]

    def _candidate(self, reading: Reading, watermark: int | None) -> Candidate | None:
        outcome = judge(self.query, reading)
        if outcome is None:
            self._counts["filtered"] += 1
        elif isinstance(outcome, Refused):
            entry = SideEntry(ERROR, outcome.reason, reading.original, None, None, reading.event_time, watermark)
            self._set_aside(entry)
        else:
            return outcome
        return None

    def _is_sound(self, row: Judged, watermark: int | None) -> bool:
        """Whether the row enters, as far as its own time and values go."""
        if not row.windows:
            self._counts["between_windows"] += 1
        elif row.is_late:
            self._set_aside(self._entry(LATE, ALLOWED_LATENESS_EXCEEDED, row, watermark))
        elif row.trouble is not None:
            self._set_aside(self._entry(ERROR, row.trouble, row, watermark))
        else:
            return True
        return False

    def _within_limits(
        self, row: Judged, places: Mapping[Window | None, str | None], watermark: int | None
    ) -> list[Placed]:
        """The row in those of its windows that have a place for it; evicted if none has, for what the last one says."""
        takers = [window for window, reason in places.items() if reason is None]
        if not takers:
            self._set_aside(self._entry(EVICTED, str([*places.values()][-1]), row, watermark))
            return []
        self._counts["aggregated"] += 1
        self._counts["partially_late_rows"] += row.is_partially_late
        self._counts["pre_epoch_rows"] += row.candidate.event_time < 0
        return [placed(row.candidate, window) for window in takers]

    def _entry(self, kind: str, reason: str, row: Judged, watermark: int | None) -> SideEntry:
        candidate = row.candidate
        key = None if candidate.key_trouble else key_columns(self.query, candidate.key)
        original = candidate.reading.original
        return SideEntry(kind, reason, original, row.windows[-1], key, candidate.event_time, watermark)

    def _set_aside(self, entry: SideEntry) -> None:
        self._counts[entry.kind] += 1
        self._keep(entry)

    def _keep(self, entry: SideEntry) -> None:
        if self.query.side_output.keeps(entry.kind):
            self._side.append(entry)

    # --- results out -----------------------------------------------------------------------------------------

    def _close(self, watermark: int | None) -> list[Group]:
        """The groups whose windows the watermark closes; their rows are gone from here."""
        closed = [
            group
            for group in groups(self.query, self._live)
            if group.window is not None and is_closed(group.window.end, self.query.lateness, watermark)
        ]
        self._counts["windows_closed"] += len({self._window_of(group) for group in closed})
        self._places.close(lambda window: is_closed(window.end, self.query.lateness, watermark))
        gone = {id(row) for group in closed for row in group.rows}
        self._live = [row for row in self._live if id(row) not in gone]
        return closed

    def _emit(
        self, taken: Sequence[Placed], closed: list[Group], began: int | None, now: int
    ) -> tuple[list[Row], list[Change]]:
        if self.query.window is None and not self.query.is_grouped:
            return [], self._emit_rows(taken)
        if self.query.waits_for_close:
            return self._emit_closed(closed)
        moment = Moment(began, self.watermark, self._period_passed(now))
        live = groups(self.query, self._live)
        changes, errors = emit_changes(self.query, self._emitted, live, closed, moment)
        self._record(errors)
        if changes and moment.period_passed:
            self._period_began = now
        return [], changes

    def _emit_rows(self, taken: Sequence[Placed]) -> list[Change]:
        """Rows that are results of their own, at once, as there is no window to wait for."""
        changes = multiset_changes((projected(self.query, p.columns, None), p.weight) for p in taken)
        self._live = []
        self._emitted.final = applied(changes, self._emitted.final)
        return changes

    def _emit_closed(self, closed: list[Group]) -> tuple[list[Row], list[Change]]:
        rows, errors = emit_closed(self.query, closed, self.watermark)
        if self.query.gap_fill is not None:
            filled, more = emit_filled(self.query, self._gaps.fill(closed), self.watermark)
            self._counts["filled_rows"] += len(filled)
            rows, errors = [*rows, *filled], [*errors, *more]
        self._record(errors)
        self._emitted.final += rows
        if self.query.emit.append_only:
            return rows, []
        return [], [Change(CdcOperation.INSERT, row) for row in rows]

    def _period_passed(self, now: int) -> bool:
        """Whether EVERY may emit again: its period has passed since it last did. Other strategies never wait."""
        if self.query.emit.early is not Early.EACH_PERIOD or self._period_began is None:
            return True
        return now - self._period_began >= (self.query.period or 0)

    def _record(self, errors: Sequence[SideEntry]) -> None:
        self._counts["result_errors"] += len(errors)
        for entry in errors:
            self._keep(entry)


def _took_the_time(reading: Reading) -> bool:
    """Whether a row has processing time because its own is missing."""
    return reading.trouble is None and not reading.moves_clock


def _refuse_what_is_not_modelled(query: Query) -> None:
    if query.gap_fill is not None and not query.emit.append_only:
        raise NotImplementedError("the reference does not model GAP FILL of results that change yet")
