"""Which results may have changed in an epoch, as far as the strategy lets it show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laminar_dagster.engine.differences import Scope
from laminar_dagster.semantics.emission import Moment
from laminar_dagster.semantics.emit import Early
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Window
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Change:
    """What an epoch brings: files of the state before it, its own, the windows it touched, and the clocks."""

    pinned: list[DataFile]
    fresh: list[DataFile]
    touched: frozenset[Window]
    moment: Moment

    @property
    def files(self) -> list[DataFile]:
        return [*self.pinned, *self.fresh]


@dataclass(frozen=True)
class Revised:
    """Merged partials of what may have changed (None: nothing can have), and what it stands against.

    `ends`: between which ends of windows the results lie, if that is known. `shown_until`: sessions that end later
    are not shown yet.
    """

    merged: DataFrame | None
    rows: int = 0
    scope: Scope = field(default_factory=Scope)
    ends: tuple[int, int] | None = None
    shown_until: int | None = None
    waiting: frozenset[Window | None] = frozenset()


@dataclass(frozen=True)
class Choice:
    """The windows that are computed anew: all of their groups, or those that got rows; and those that wait."""

    whole: frozenset[Window] = frozenset()
    touched: frozenset[Window] = frozenset()
    waiting: frozenset[Window | None] = frozenset()

    @property
    def windows(self) -> frozenset[Window]:
        return self.whole | self.touched


def chosen(query: Query, opened: frozenset[Window], change: Change, waiting: frozenset[Window | None]) -> Choice:
    """Fixed windows, by the strategy's row in the table. `opened`: those that are open, `waiting` since earlier."""
    moment, touched = change.moment, change.touched
    match query.emit.early:
        case Early.EACH_EPOCH:
            return Choice(touched=touched)
        case Early.NOTHING:
            passing = frozenset(w for w in opened | touched if moment.passes(w.end))
            return Choice(whole=passing, touched=frozenset(w for w in touched - passing if moment.reached(w.end)))
        case Early.EACH_PERIOD:
            changed = touched | frozenset(w for w in waiting if w is not None)
            moving = frozenset(w for w in changed if _moves(query, w, moment))
            return Choice(whole=moving, waiting=changed - moving)


def _moves(query: Query, window: Window, moment: Moment) -> bool:
    return moment.period_passed or moment.passes(window.end) or moment.passes(window.end + query.lateness)


def moves_sql(query: Query, moment: Moment) -> str:
    """The same for results whose windows are not known before they are computed; `{end}` is the window's end."""
    if query.emit.early is not Early.EACH_PERIOD or moment.period_passed:
        return "true"
    if moment.after is None:
        return "false"
    since = "" if moment.before is None else f" AND {{end}} > {moment.before}"
    closing = "" if moment.before is None else f" AND {{end}} > {moment.before - query.lateness}"
    return f"({{end}} <= {moment.after}{since}) OR ({{end}} <= {moment.after - query.lateness}{closing})"
