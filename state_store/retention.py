"""Which epochs can still be read: from which version on each table is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from state_store import format as f
from state_store.epochs import CommitRow, EpochLog
from state_store.policy import MaintenancePolicy

# The others are what a view hands on. Those that only grow, people may follow version by version.
STATE = (f.PARTIALS, f.TIMERS, f.SOURCE_FILES, f.SEEN_KEYS)


@dataclass(frozen=True)
class Kept:
    """A table can be read as of this epoch and later: at this version and later. None: there was no table yet."""

    epoch: int
    version: int | None


def kept_of(
    log: EpochLog,
    last: CommitRow,
    policy: MaintenancePolicy,
    now: datetime,
    readable: Mapping[str, int],
    rewritten: Collection[str] = (),
) -> dict[str, Kept]:
    """What is kept of each table, given what could be read so far: what is forgotten stays forgotten.

    Tables that epochs rewrite are kept no longer than the state: nobody follows them, and their past is large.
    """
    state = _oldest(log, last, policy.retain_epochs, now - policy.retain_state)
    results = min(state, _oldest(log, last, policy.retain_epochs, now - policy.retain_results))
    commit_of = cache(log.commit_of)
    kept: dict[str, Kept] = {}
    for name in f.TABLES:
        oldest = state if name in STATE or name in rewritten else results
        epoch = max(oldest, readable.get(name, 1))
        commit = commit_of(epoch)
        if commit is not None:
            kept[name] = Kept(epoch, commit.tables.get(name))
    return kept


def _oldest(log: EpochLog, last: CommitRow, epochs: int, since: datetime) -> int:
    """The oldest of the last so many epochs, or the one that was current at `since` if that is older still."""
    by_count = max(1, last.epoch - epochs + 1)
    return by_count if by_count == 1 else min(by_count, log.last_before(since) or 1)
