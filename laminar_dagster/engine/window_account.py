"""The account of a window: open or closed and why, what is in it, who it waits for, and all that it has emitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import duckdb

from laminar_dagster.engine.clock_report import standings
from laminar_dagster.engine.in_process_sql import connection
from laminar_dagster.engine.same_query import require_same_query
from laminar_dagster.engine.window_evidence import Evidence, Held, Keys, Turn
from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.alignment import Standing
from laminar_dagster.semantics.emission import Moment
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import from_iso, is_in_reach
from laminar_dagster.semantics.watermark import source_of
from laminar_dagster.semantics.windows import Hop, Session, Window, last_window
from state_store import CommitRow, StoreReader

MAX_SESSIONS = 20
MAX_ROWS = 20
TICK = "tick"


@dataclass(frozen=True)
class Emission:
    """What an epoch showed of a window: how many rows of each operation, and why then."""

    turn: Turn
    reason: str
    operations: Mapping[str, int]


@dataclass(frozen=True)
class Waiting:
    """A shard, and the event time of a row that would carry it past the window's deadline; None if it is past it."""

    standing: Standing
    needs: int | None


@dataclass(frozen=True)
class WindowAccount:
    window: Window
    deadline: int
    watermark: int | None
    held: Held
    opened_in: int | None
    closed: Turn | None
    shards: tuple[Waiting, ...]
    aside: Mapping[tuple[str, str], int]
    emissions: tuple[Emission, ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    keys: Mapping[str, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.watermark is None or self.watermark < self.deadline

    @property
    def missing(self) -> int | None:
        """Event time until the window closes; None while the watermark is not known."""
        return None if self.watermark is None else max(0, self.deadline - self.watermark)


def accounts(plan: Plan, reader: StoreReader, commit: CommitRow, moment: int, keys: Keys) -> list[WindowAccount]:
    """Of each window that a row of this time would be in; of sessions, those that it lies in."""
    window = plan.query.window
    if window is None:
        raise _refused(f'view "{plan.query.view}" has no window')
    require_same_query(plan, commit, commit)
    _known_keys(plan.query, keys)
    with connection() as db:
        evidence = Evidence(plan, reader, commit, db, keys)
        try:
            if isinstance(window, Session):
                return _of_sessions(evidence, moment)
            return [_account(evidence, each, evidence.held(each)) for each in window.assign(moment)]
        except duckdb.ConversionException as unfit:
            raise _refused("the value of a key does not fit its type", detail=str(unfit).split("\n")[0]) from unfit


def gap_around(plan: Plan, moment: int) -> Window | None:
    """From the end of one window to the start of the next, where a time lies between the windows of a HOP."""
    window = plan.query.window
    if not isinstance(window, Hop) or window.assign(moment):
        return None
    before = last_window(window, moment)
    return Window(before.end, before.start + window.slide)


def moment_of(words: str) -> int:
    """A time as people write it, UTC unless it says otherwise."""
    try:
        moment = from_iso(words, UTC)
    except ValueError:
        raise _refused(f"not a time: {words}", hint="Like 2026-01-01T12:00:30Z.") from None
    if not is_in_reach(moment):
        raise _refused(f"no window has this time: {words}", hint="Windows are from the year -144169 to 148108.")
    return moment


def keys_of(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise _refused(f"not a key and its value: {pair}", hint="Like --key region=eu, or --key region=NULL.")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _of_sessions(evidence: Evidence, moment: int) -> list[WindowAccount]:
    """Those in the state, then those that are only in the output: they are closed."""
    going = evidence.sessions(moment, MAX_SESSIONS + 1)
    found = [_account(evidence, window, held, keys) for window, keys, held in going]
    known = {(window.start, *keys.values()) for window, keys, _ in going}
    for window, keys in evidence.shown_sessions(moment, MAX_SESSIONS + 1):
        if (window.start, *keys.values()) not in known:
            found.append(_account(evidence, window, Held(), keys))
    if len(found) > MAX_SESSIONS:
        note = f"there are more than {MAX_SESSIONS} sessions at this time: choose one by its keys"
        found[MAX_SESSIONS - 1] = replace(found[MAX_SESSIONS - 1], notes=(*found[MAX_SESSIONS - 1].notes, note))
    return found[:MAX_SESSIONS]


def _account(
    evidence: Evidence, window: Window, held: Held, session: Mapping[str, str | None] | None = None
) -> WindowAccount:
    query, commit = evidence.plan.query, evidence.commit
    mine = evidence.of_keys(session) if session is not None else evidence
    deadline = window.end + query.lateness
    rows = mine.emitted_rows(window, MAX_ROWS + 1) if mine.keys else []
    is_closed = commit.watermark is not None and commit.watermark >= deadline
    return WindowAccount(
        window=window,
        deadline=deadline,
        watermark=commit.watermark,
        held=Held() if is_closed else held,
        opened_in=None if is_closed else mine.opened_in(window),
        closed=mine.closing_turn(deadline) if is_closed else None,
        shards=tuple(_waiting(query, standing, deadline) for standing in standings(query, commit)),
        aside=mine.aside(window),
        emissions=_emissions(mine, window),
        rows=tuple(rows[:MAX_ROWS]),
        keys=session or {},
        notes=tuple(_notes(mine, len(rows) > MAX_ROWS)),
    )


def _waiting(query: Query, standing: Standing, deadline: int) -> Waiting:
    policy = query.policies.get(source_of(standing.shard))
    is_past = standing.watermark is not None and standing.watermark >= deadline
    return Waiting(standing, None if is_past or standing.is_idle or policy is None else deadline + policy.lag)


def _emissions(evidence: Evidence, window: Window) -> tuple[Emission, ...]:
    found = evidence.emissions(window)
    turns = evidence.turns([epoch for epoch, _, _ in found])
    return tuple(
        Emission(turns[epoch], _reason(evidence, turns[epoch], window.end if end is None else end), operations)
        for epoch, operations, end in found
    )


def _reason(evidence: Evidence, turn: Turn, end: int) -> str:
    """Why this epoch showed something of a window that ended there, as the strategy has it."""
    query, moment = evidence.plan.query, Moment(turn.before, turn.after, period_passed=False)
    if evidence.snapshot is not None and turn.epoch <= evidence.snapshot:
        return "it stood in the table when older changes were folded into a snapshot"
    if turn.kind != TICK:
        return f"an epoch of kind {turn.kind}"
    if query.waits_for_close or (query.emit.at_close and moment.passes(end + query.lateness)):
        return "the window closed"
    if not moment.reached(end):
        return f"before the window's end: {query.emit.early.value}"
    return "the watermark passed the window's end" if moment.passes(end) else "a correction, by rows that came after it"


def _notes(evidence: Evidence, is_cut: bool) -> list[str]:
    hidden = ", ".join(evidence.hidden_keys)
    notes = [f"emissions are of all values of {hidden}, which the view does not select"] if hidden else []
    return [*notes, f"more than {MAX_ROWS} rows were emitted: these are the first"] if is_cut else notes


def _known_keys(query: Query, keys: Keys) -> None:
    names = [key.name for key in query.keys]
    for name in keys:
        if name not in names:
            raise _refused(f'"{name}" is not a group key of the view', hint=did_you_mean(name, names))


def _refused(what: str, *, detail: str | None = None, hint: str | None = None) -> LaminarError:
    return LaminarError("LMR0713", what, detail=detail, hint=hint)
