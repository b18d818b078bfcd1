"""Keeps a view's tables small after an epoch: merges small files, and deletes those that no retained epoch needs.

All of it is bounded, and may be left off anywhere: what it did not do is still due after the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from laminar_dagster.engine.changelog_folding import fold_if_due
from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.compaction import compact_if_due
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.same_query import require_same_query_throughout
from laminar_dagster.engine.shown import END
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import Query
from state_store import MaintenancePolicy, StoreReader, StoreWriter
from state_store import format as f
from state_store.changelog import ChangelogRetention
from state_store.merging import Bound, merge_if_due
from state_store.vacuum import vacuum, vacuum_if_due

UNCHANGED = tuple(name for name in f.TABLES if name not in (f.PARTIALS, f.TIMERS, f.SEEN_KEYS))


@dataclass(frozen=True)
class Maintained:
    """How many files were merged, and how many deleted."""

    merged: int
    deleted: int


@dataclass(frozen=True)
class MaintainedView(Maintained):
    """And the oldest epoch that can be read now."""

    oldest_epoch: int


def maintain_view(
    plan: Plan, root: Path, policy: MaintenancePolicy, after_write: Callable[[str], None] = lambda _: None
) -> MaintainedView | None:
    """All that is due in a view's store; None if it has no epoch yet. StoreBusyError while the view is run.

    LMR0405 where the store was built with another query: what is due follows from the query.
    """
    if not StoreReader(root).exists:
        return None
    with StoreWriter(root, after_write=after_write) as store:
        done = maintain(store, plan, policy)
        oldest = max(store.readable.get(name, 1) for name in f.TABLES)
    return MaintainedView(done.merged, done.deleted, oldest)


def maintain_after_epoch(runtime: Runtime, policy: MaintenancePolicy) -> Maintained:
    """What is due after an epoch: at most one merge per table, and every so often a vacuum."""
    query, store = runtime.plan.query, runtime.store
    merged = compact_if_due(runtime, policy.files_per_bucket)
    merged += 0 if runtime.epoch % policy.vacuum_every else _fold_history(store, query, policy)
    merged += _merge_small_files(store, policy, query, runtime.clocks.watermark)
    return Maintained(merged, vacuum_if_due(store, policy, _rewritten(query)))


def maintain(store: StoreWriter, plan: Plan, policy: MaintenancePolicy) -> Maintained:
    """All that is due and needs no Spark, however much it is. The state itself is merged by runs of the view.

    While an epoch is planned and not finished, nothing is merged: its plan has pinned the tables as they are.
    """
    query, tail = plan.query, store.tail()
    require_same_query_throughout(plan, tail)
    merged = 0
    if tail.commit is not None and tail.unfinished is None:
        merged += _fold_history(store, query, policy)
        while some := _merge_small_files(store, policy, query, tail.commit.watermark):
            merged += some
    return Maintained(merged, vacuum(store, policy, rewritten=_rewritten(query)))


def _fold_history(store: StoreWriter, query: Query, policy: MaintenancePolicy) -> int:
    """Changes older than results are kept become a snapshot. One of rows that never change would be no smaller."""
    if _never_rewrites(query):
        return 0
    return int(fold_if_due(store, ChangelogRetention(policy.retain_epochs, policy.retain_results)) is not None)


def _merge_small_files(store: StoreWriter, policy: MaintenancePolicy, query: Query, watermark: int | None) -> int:
    """One merge per table.

    Timers that have fired need not be kept, nor keys that are forgotten. Results that can still change stay apart from
    those that cannot: a change rewrites a file.
    """
    closed = closed_until(query, watermark)
    not_fired = None if closed is None else pc.field("window_end") > closed
    remembered = None if watermark is None else pc.field("remembered_until") > watermark
    final = None if closed is None else Bound(END, closed)
    merged = merge_if_due(store, f.TIMERS, policy, keep=not_fired)
    merged += merge_if_due(store, f.SEEN_KEYS, policy, keep=remembered)
    return merged + sum(merge_if_due(store, name, policy, apart=final) for name in UNCHANGED)


def _rewritten(query: Query) -> tuple[str, ...]:
    return () if _never_rewrites(query) else (f.OUTPUT,)


def _never_rewrites(query: Query) -> bool:
    return query.waits_for_close or query.only_appends
