"""Whether an epoch can reach a view's limits: told by numbers that are at hand, before any state is looked up.

Rows of the state's files and of the source's, and the windows that are open, bound what can be open after an epoch.
Where that is within the limits nothing else happens; where it is not, engine/evicting.py finds out who stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from laminar_dagster.engine.batch import Batch, reads_the_watermark_column
from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.merging import windows_per_pane
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.commits import SourceCommit
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import PROCESSING_TIME, Query
from laminar_dagster.semantics.quotas import MAX_GROUPS, MAX_STATE_ROWS, MAX_WINDOWS, limits_of
from laminar_dagster.semantics.windows import FixedWindow, Session, Window, first_window, last_window
from state_store import DataFile
from state_store import format as f

Span = tuple[int, int]


@dataclass(frozen=True)
class Load:
    """At most so much is open: groups of one window, windows of one group, and (window, group) in all."""

    groups: int
    windows: int
    places: int

    def fits(self, query: Query) -> bool:
        """Whether no limit can have been passed."""
        found = {MAX_GROUPS: self.groups, MAX_WINDOWS: self.windows, MAX_STATE_ROWS: self.places}
        return all(found[limit] <= (limit.most(query) or 0) for limit in limits_of(query))


# --- before the rows are read ----------------------------------------------------------------------------------


def up_to_the_limits(runtime: Runtime, commits: Sequence[SourceCommit], now: int) -> list[SourceCommit]:
    """The commits that can be judged together: all, or as many as cannot reach a limit, and at least one."""
    query = runtime.plan.query
    if len(commits) < 2 or _needs_no_cut(query):
        return list(commits)
    pinned = runtime.store.table(f.PARTIALS).files()
    taken = 1
    while taken < len(commits) and _is_light(runtime, pinned, commits[: taken + 1], now):
        taken += 1
    return list(commits[:taken])


def _needs_no_cut(query: Query) -> bool:
    """Whether nothing that happens between two commits makes room: no window closes that others could follow."""
    limits = limits_of(query)
    if len(limits) > 1:
        return False
    return not limits or limits[0] is MAX_GROUPS or query.window is None


def _is_light(runtime: Runtime, pinned: Sequence[DataFile], commits: Sequence[SourceCommit], now: int) -> bool:
    spans = [_span(runtime.plan.query, commit, now) for commit in commits if commit.files]
    rows = [file.rows for commit in commits for file in commit.files]
    if any(span is None for span in spans) or any(count is None for count in rows):
        return False
    known = [span for span in spans if span is not None]
    return _load(runtime, pinned, sum(count or 0 for count in rows), known).fits(runtime.plan.query)


def _span(query: Query, commit: SourceCommit, now: int) -> Span | None:
    """Between which times the commit's rows lie, or None where its files do not tell."""
    entry = next(entry for entry in query.inputs if entry.source.name == commit.source)
    if entry.event_time == PROCESSING_TIME or query.window is None:
        return now, now
    if not reads_the_watermark_column(entry) or not all(file.knows_its_times for file in commit.files):
        return None
    bounds = [bound for file in commit.files for bound in (file.low, file.high) if bound is not None]
    bounds += [now] if query.null_event_time == FALLBACK and any(file.nulls for file in commit.files) else []
    return (min(bounds), max(bounds)) if bounds else (now, now)


# --- with the rows at hand -------------------------------------------------------------------------------------


def is_near(runtime: Runtime, batch: Batch, pinned: Sequence[DataFile]) -> bool:
    """Whether one more group could be one too many; of sessions, whether the epoch's rows could."""
    rows = batch.rows if isinstance(runtime.plan.query.window, Session) else 1
    return not _fits(runtime, batch, pinned, rows)


def is_passed(runtime: Runtime, batch: Batch, pinned: Sequence[DataFile], fresh: Sequence[DataFile]) -> bool:
    """Whether the groups that an epoch touched could be too many, now that they are counted."""
    return bool(fresh) and not _fits(runtime, batch, pinned, sum(file.rows for file in fresh))


def _fits(runtime: Runtime, batch: Batch, pinned: Sequence[DataFile], rows: int) -> bool:
    if not limits_of(runtime.plan.query):
        return True
    spans = [(t.earliest, t.latest) for t in batch.times if t.earliest is not None and t.latest is not None]
    return _load(runtime, pinned, rows, spans).fits(runtime.plan.query)


def _load(runtime: Runtime, pinned: Sequence[DataFile], rows: int, spans: Sequence[Span]) -> Load:
    query = runtime.plan.query
    files = open_files(runtime, pinned)
    held = sum(file.rows for file in files) + rows
    if query.window is None:
        return Load(held, 1, held)
    if isinstance(query.window, Session):
        return Load(held, held, held)
    touched = [file for file in files if any(_may_share(query.window, file, span) for span in spans)]
    windows = len(_windows(query.window, runtime.timers, spans, query.max_windows_per_group or 0))
    return Load(sum(file.rows for file in touched) + rows, windows, held * windows_per_pane(query))


def open_files(runtime: Runtime, pinned: Sequence[DataFile]) -> list[DataFile]:
    """The files of the state that can have panes of windows which are open. GAP FILL keeps others, too."""
    closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
    if closed is None or runtime.plan.query.gap_fill is None:
        return list(pinned)
    return [file for file in pinned if int(file.high["pane_end"]) > closed]


def _may_share(window: FixedWindow, file: DataFile, span: Span) -> bool:
    """Whether the file can have panes of a window that takes rows of this time."""
    first, last = first_window(window, span[0]).start, last_window(window, span[1]).end
    return int(file.low["pane_start"]) < last and int(file.high["pane_end"]) > first


def _windows(window: FixedWindow, timers: frozenset[Window], spans: Iterable[Span], most: int) -> set[Window]:
    """The windows that are open or may open; no more of them than it takes to see that they are too many."""
    found = set(timers)
    for low, high in spans:
        time = low
        while time <= high and len(found) <= most:
            found.update(window.assign(time))
            time = window.pane(time).end
    return found
