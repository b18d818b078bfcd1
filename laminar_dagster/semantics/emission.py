"""From groups to output: which results an epoch shows, and how that differs from what was shown before."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from laminar_dagster.semantics.emit import Early
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.grouping import Group, bounds, key_columns, known_of, result, selected
from laminar_dagster.semantics.judging import ERROR, SideEntry
from laminar_dagster.semantics.query import RANK, Query
from laminar_dagster.semantics.ranking import numbered
from laminar_dagster.semantics.windows import Session, Window
from laminar_dagster.semantics.zset import Change, Row, diff


@dataclass(frozen=True)
class Moment:
    """When an epoch emits: the watermark before and after it, and whether a period of EVERY has passed."""

    before: int | None
    after: int | None
    period_passed: bool

    def reached(self, time: int) -> bool:
        return self.after is not None and self.after >= time

    def passes(self, time: int) -> bool:
        """Whether the watermark reaches `time` in this very epoch."""
        return self.reached(time) and (self.before is None or self.before < time)


@dataclass(frozen=True)
class Shown:
    """A result that is in the view's table, and the window it came from."""

    window: Window | None
    row: Row


@dataclass
class Emitted:
    """What the view has shown: results that may still change, rows that may not, and groups known to fail."""

    current: dict[Hashable, Shown] = field(default_factory=dict)
    final: list[Row] = field(default_factory=list)
    failed: set[Hashable] = field(default_factory=set)


def identity_of(query: Query, group: Group) -> Hashable:
    """A group is its key and window; a session is its key and start, since its end may move."""
    if isinstance(query.window, Session) and group.window is not None:
        return (group.key, group.window.start)
    return (group.key, group.window)


def emit_closed(query: Query, groups: Iterable[Group], watermark: int | None) -> tuple[list[Row], list[SideEntry]]:
    """The rows of windows that closed: one of each group, or, where nothing is grouped, one of each row."""
    whole: list[Row] = []
    errors: list[SideEntry] = []
    for group in groups:
        for attempt in _attempts(query, group):
            try:
                known = attempt()
                if known is not None:
                    _try_out(query, known)
                    whole.append(known)
            except RowError as trouble:
                errors.append(_result_error(query, group, trouble, watermark))
    if query.ranking is not None:
        whole = numbered(query, query.ranking, whole)
    return [selected(query, known) for known in whole], errors


def _attempts(query: Query, group: Group) -> list[Callable[[], Row | None]]:
    """How to come by each row that SELECT is over."""
    if query.is_grouped:
        return [lambda: known_of(query, group)]
    return [lambda row=row: {**row, **bounds(group.window)} for row in group.remaining]  # type: ignore[misc]


def _try_out(query: Query, known: Row) -> None:
    """RowError where something that is selected, or that rows are numbered by, has no value."""
    selected(query, {**known, RANK: 1})
    for expression in query.ranking.expressions if query.ranking is not None else ():
        evaluate(expression, known)


def emit_changes(
    query: Query, emitted: Emitted, live: list[Group], closed: list[Group], moment: Moment
) -> tuple[list[Change], list[SideEntry]]:
    """The difference between the results shown before and those to be shown now; `emitted` moves along."""
    ending = {identity_of(query, group): group for group in closed}
    ended = {identity: emitted.current.pop(identity) for identity in ending if identity in emitted.current}
    last, errors = _targets(query, emitted, ended, ending, moment)
    going, more = _targets(query, emitted, emitted.current, {identity_of(query, g): g for g in live}, moment)
    changes = [*_difference(ended, last), *_difference(emitted.current, going)]
    emitted.final += [shown.row for shown in last.values()]
    emitted.current = going
    return changes, [*errors, *more]


def _difference(old: Mapping[Hashable, Shown], new: Mapping[Hashable, Shown]) -> list[Change]:
    return diff(
        {identity: shown.row for identity, shown in old.items()},
        {identity: shown.row for identity, shown in new.items()},
    )


def _targets(
    query: Query,
    emitted: Emitted,
    old: Mapping[Hashable, Shown],
    groups: Mapping[Hashable, Group],
    moment: Moment,
) -> tuple[dict[Hashable, Shown], list[SideEntry]]:
    """What is to be shown for each identity: the group's result, or what was shown where nothing may move yet."""
    targets: dict[Hashable, Shown] = {}
    errors: list[SideEntry] = []
    for identity in {**old, **groups}:
        windows = [part.window for part in (old.get(identity), groups.get(identity)) if part is not None]
        if not any(_may_move(query, window, moment) for window in windows):
            if identity in old:
                targets[identity] = old[identity]
            continue
        group = groups.get(identity)
        if group is None or not _may_show(query, group.window, moment):
            continue
        row = _row_or_error(query, emitted, identity, group, moment, errors)
        if row is not None:
            targets[identity] = Shown(group.window, row)
    return targets, errors


def _may_show(query: Query, window: Window | None, moment: Moment) -> bool:
    """Whether the strategy shows the window's result at this watermark at all."""
    return window is None or query.emit.early is not Early.NOTHING or moment.reached(window.end)


def _may_move(query: Query, window: Window | None, moment: Moment) -> bool:
    """Whether this epoch is one in which the strategy emits changes of the window."""
    if query.emit.early is not Early.EACH_PERIOD or moment.period_passed:
        return True
    return window is not None and (moment.passes(window.end) or moment.passes(window.end + query.lateness))


def _row_or_error(
    query: Query,
    emitted: Emitted,
    identity: Hashable,
    group: Group,
    moment: Moment,
    errors: list[SideEntry],
) -> Row | None:
    """The group's row. A group that starts to fail gets one entry, and the next one only after it recovered."""
    try:
        row = result(query, group)
    except RowError as trouble:
        if identity not in emitted.failed:
            errors.append(_result_error(query, group, trouble, moment.after))
        emitted.failed.add(identity)
        return None
    emitted.failed.discard(identity)
    return row


def _result_error(query: Query, group: Group, trouble: RowError, watermark: int | None) -> SideEntry:
    key = key_columns(query, group.key)
    return SideEntry(ERROR, trouble.reason, None, group.window, key, None, watermark)
