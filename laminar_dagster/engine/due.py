"""Whether a tick of a view would do anything: what the sources' logs, the view's own log and the clock say. No Spark.

Where every shard is idle, the clock moves the watermark for ever. A tick is due only when that brings it past the end
of a window that is open, here or in a view that reads this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from laminar_dagster.engine.committed import open_timers, positions
from laminar_dagster.engine.runtime import Carried, Clocks
from laminar_dagster.engine.same_query import require_same_query_throughout
from laminar_dagster.engine.sinks.delivering import position_of
from laminar_dagster.engine.sources.registry import connect
from laminar_dagster.engine.updating import period_passed
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Query
from laminar_dagster.semantics.sinks import DeclaredSink
from laminar_dagster.semantics.time import to_iso
from laminar_dagster.semantics.watermark import progress
from laminar_dagster.semantics.windows import Session, Window, longest_window
from state_store import CommitRow, StoreReader


@dataclass(frozen=True)
class Views:
    """The views of a project, and where their data and their sources are."""

    plans: Mapping[str, Plan]
    root: Path
    data: Path

    def reader(self, view: str) -> StoreReader:
        return StoreReader(self.data / view)

    def readers_of(self, view: str) -> Iterator[Query]:
        """The queries that read a view straight."""
        for plan in self.plans.values():
            sources = [entry.source for entry in plan.query.inputs]
            if any(s.connector == VIEW_CONNECTOR and s.options["view"] == view for s in sources):
                yield plan.query


def why_due(views: Views, view: str, now: int) -> str | None:
    """What a tick at this time would do, in words; None if nothing. LMR0405 where a tick would be refused."""
    plan, reader = views.plans[view], views.reader(view)
    query, tail = plan.query, reader.tail() if reader.exists else None
    if tail is not None:
        require_same_query_throughout(plan, tail)
    if tail is not None and tail.unfinished is not None:
        return f"epoch {tail.unfinished.epoch} is planned and not finished"
    commit = None if tail is None else tail.commit
    waiting = _backlog(views, query, reader, commit)
    if waiting:
        return ", ".join(f"{count} commit(s) of {source}" for source, count in waiting.items())
    if commit is None:
        begins = any(policy.idle_timeout is not None for policy in query.policies.values())
        return "the clock of an idle source has not begun" if begins else None
    return _sinks(views, query, commit) or _period(query, commit, now) or _idle(views, query, commit, now)


def _backlog(views: Views, query: Query, reader: StoreReader, commit: CommitRow | None) -> dict[str, int]:
    taken = {} if commit is None else positions(reader, commit)
    sources = {entry.source.name: entry.source for entry in query.inputs}
    counts = {n: connect(s, views.root, views.data.absolute()).backlog(taken.get(n)) for n, s in sources.items()}
    return {name: count for name, count in counts.items() if count > 0}


def _sinks(views: Views, query: Query, commit: CommitRow) -> str | None:
    behind = [sink.name for sink in query.delivered_to if _position(views, query, sink) < commit.epoch]
    return f"not delivered to {', '.join(behind)} yet" if behind else None


def _position(views: Views, query: Query, sink: DeclaredSink) -> int:
    return position_of(views.data / query.view, sink).epoch


def _period(query: Query, commit: CommitRow, now: int) -> str | None:
    carried = Carried.from_json(commit.carried)
    ends = bool(carried.waiting) and period_passed(query, carried, now)
    return "changes wait for a period of EVERY that has passed" if ends else None


def _idle(views: Views, query: Query, commit: CommitRow, now: int) -> str | None:
    before = Clocks.from_json(commit.watermark, commit.shards)
    after = progress((), before.watermark, before.shards, query.policies, now).watermark
    if after is None or after == before.watermark:
        return None
    passed = (m <= after and (before.watermark is None or m > before.watermark) for m in _moments(views, query))
    return f"idle sources let the watermark pass the end of a window, up to {to_iso(after)}" if any(passed) else None


def _moments(views: Views, query: Query, shift: int = 0) -> Iterator[int]:
    """The watermarks at which the view, or one that reads it, shows or closes something.

    What a reader is handed is behind by the view's lateness, and at most by the length of its windows.
    """
    reader = views.reader(query.view)
    commit = reader.commit() if reader.exists else None
    if commit is not None:
        for window in _open(query, reader, commit):
            yield from (window.end + shift, window.end + query.lateness + shift)
    behind = 0 if query.window is None else longest_window(query.window)
    if behind is not None:
        for query_over in views.readers_of(query.view):
            yield from _moments(views, query_over, shift + query.lateness + behind)


def _open(query: Query, reader: StoreReader, commit: CommitRow) -> frozenset[Window]:
    """Windows with a timer; with GAP FILL also the one that time is in, which may have no row."""
    found = open_timers(query, reader, commit)
    if query.gap_fill is None or query.window is None or isinstance(query.window, Session) or commit.watermark is None:
        return found
    return found | frozenset(query.window.assign(commit.watermark))
