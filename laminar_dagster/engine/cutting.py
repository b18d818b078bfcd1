"""Where an epoch of a session view must end: a commit in which a row could be late is an epoch of its own.

Whether such a row is late depends on the sessions that were open before its commit, so nothing else may be folded in
before it is judged. Fixed windows need no cut: there the watermark alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from laminar_dagster.engine.batch import reads_the_watermark_column
from laminar_dagster.engine.runtime import Clocks
from laminar_dagster.engine.sources.commits import SourceCommit
from laminar_dagster.semantics.judging import FALLBACK, PROCESSING_TIME
from laminar_dagster.semantics.query import Input, Query
from laminar_dagster.semantics.watermark import CommitTimes, progress
from laminar_dagster.semantics.windows import Session


def epoch_of(query: Query, clocks: Clocks, commits: Sequence[SourceCommit], now: int) -> list[SourceCommit]:
    """The commits that can be judged together, in order: all of them, or up to the first that cannot."""
    commits = _upto_correction(query, commits)
    if not isinstance(query.window, Session) or len(commits) < 2:
        return list(commits)
    before = _watermarks_before(query, clocks, commits, now)
    for position, (commit, watermark) in enumerate(zip(commits, before, strict=True)):
        if _could_be_late(query, query.window, commit, watermark, now):
            return list(commits[: max(position, 1)])
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
    times = [
        CommitTimes(
            commit.shard,
            now if _entry(query, commit).event_time == PROCESSING_TIME and commit.files else _latest(commit),
        )
        for commit in commits
    ]
    return progress(times, clocks.watermark, clocks.shards, query.policies, now).before_commit


def _latest(commit: SourceCommit) -> int | None:
    return max((file.high for file in commit.files if file.high is not None), default=None)


def _entry(query: Query, commit: SourceCommit) -> Input:
    return next(entry for entry in query.inputs if entry.source.name == commit.source)


def _could_be_late(query: Query, window: Session, commit: SourceCommit, watermark: int | None, now: int) -> bool:
    if not commit.files:
        return False
    lows = _earliest(query, commit, now)
    if lows is None:
        return True
    return watermark is not None and any(low + window.gap + query.lateness <= watermark for low in lows)


def _earliest(query: Query, commit: SourceCommit, now: int) -> list[int] | None:
    """The least times that the commit's rows can have, or None where its files do not tell."""
    entry = _entry(query, commit)
    if entry.event_time == PROCESSING_TIME:
        return [now]
    if not reads_the_watermark_column(entry) or not all(file.knows_its_times for file in commit.files):
        return None
    falls_back = query.null_event_time == FALLBACK and any(file.nulls for file in commit.files)
    return [*(file.low for file in commit.files if file.low is not None), *([now] if falls_back else [])]
