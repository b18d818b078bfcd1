"""Where an epoch of a session view must end: before a commit that looks back at what earlier commits decided.

Two kinds of commit do. One with a row that could be late: that depends on the sessions that were open before it, so
nothing else may be folded in before it is judged. And one with a row that could touch a session which an earlier commit
of the same epoch has closed: the row begins a session of its own, so the closed one must be gone from the state first.
Fixed windows need no cut: there the watermark alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from laminar_dagster.engine.batch import reads_the_watermark_column
from laminar_dagster.engine.runtime import Clocks, Runtime
from laminar_dagster.engine.sources.commits import SourceCommit
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import PROCESSING_TIME, Input, Query
from laminar_dagster.semantics.watermark import CommitTimes, progress
from laminar_dagster.semantics.windows import Session
from state_store import format as f

# Later than every time.
NEVER = 1 << 63


def epoch_of(runtime: Runtime, commits: Sequence[SourceCommit], now: int) -> list[SourceCommit]:
    """The commits that can be judged together, in order: all of them, or up to the first that cannot."""
    query = runtime.plan.query
    commits = _upto_correction(query, commits)
    if not isinstance(query.window, Session) or len(commits) < 2:
        return list(commits)
    before = _watermarks_before(query, runtime.clocks, commits, now)
    files = runtime.store.table(f.PARTIALS).files()
    first_end = min((int(file.low["pane_end"]) for file in files), default=NEVER)
    for position, (commit, watermark) in enumerate(zip(commits, before, strict=True)):
        lows = _earliest(query, commit, now) if commit.files else []
        if lows is None or _looks_back(query, query.window, lows, first_end, watermark):
            return list(commits[: max(position, 1)])
        first_end = min([first_end, *(low + query.window.gap for low in lows)])
    return list(commits)


def is_correction(query: Query, commits: Sequence[SourceCommit]) -> bool:
    """Whether the commits make windows be computed anew, closed ones too; groups without a window just change."""
    changes_as_it_comes = query.window is None and query.takes_retractions
    return not changes_as_it_comes and any(commit.correction for commit in commits)


def _upto_correction(query: Query, commits: Sequence[SourceCommit]) -> Sequence[SourceCommit]:
    """A correction upstream is an epoch of its own."""
    for position, commit in enumerate(commits):
        if is_correction(query, [commit]):
            return commits[: max(position, 1)]
    return commits


def _watermarks_before(
    query: Query, clocks: Clocks, commits: Sequence[SourceCommit], now: int
) -> tuple[int | None, ...]:
    """At most too high: a future-dated row would not move the watermark, and only makes the cut more careful."""
    times = [CommitTimes(commit.shard, _moved_to(query, commit, now), bool(commit.files)) for commit in commits]
    return progress(times, clocks.watermark, clocks.shards, query.policies, now).before_commit


def _moved_to(query: Query, commit: SourceCommit, now: int) -> int | None:
    entry = _entry(query, commit)
    latest = now if entry.event_time == PROCESSING_TIME and commit.files else _latest(commit)
    return entry.moved_to(commit.watermark, latest)


def _latest(commit: SourceCommit) -> int | None:
    return max((file.high for file in commit.files if file.high is not None), default=None)


def _entry(query: Query, commit: SourceCommit) -> Input:
    return next(entry for entry in query.inputs if entry.source.name == commit.source)


def _looks_back(query: Query, window: Session, lows: Sequence[int], first_end: int, watermark: int | None) -> bool:
    """Whether a row from these times on could be late, or touch a session that has been closed.

    `first_end` is the least end of what sessions are made of so far.
    """
    if watermark is None or not lows:
        return False
    closed_until, low = watermark - query.lateness, min(lows)
    could_be_late = low + window.gap <= closed_until
    could_touch_what_is_closed = low <= closed_until and first_end <= closed_until
    return could_be_late or could_touch_what_is_closed


def _earliest(query: Query, commit: SourceCommit, now: int) -> list[int] | None:
    """The least times that the commit's rows can have, or None where its files do not tell."""
    entry = _entry(query, commit)
    if entry.event_time == PROCESSING_TIME:
        return [now]
    if not reads_the_watermark_column(entry) or not all(file.knows_its_times for file in commit.files):
        return None
    falls_back = query.null_event_time == FALLBACK and any(file.nulls for file in commit.files)
    return [*(file.low for file in commit.files if file.low is not None), *([now] if falls_back else [])]
