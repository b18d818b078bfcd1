"""Which commits of the sources reached which partitions, epoch by epoch, out of the epoch log. No Spark.

A commit is known by the least and the greatest event time of its rows, so it counts for every partition in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from laminar_dagster.engine.landing import pinned_commits
from laminar_dagster.semantics.partitions import in_time
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Session
from state_store import CommitRow, PlanRow, StoreReader


@dataclass(frozen=True)
class Origin:
    """A commit of a source that an epoch took, or a correction, and the partitions from `first` to `last` it is about.

    `low` and `high` are event times; of a correction, the stretch that was computed anew. `changes` are a correction's,
    by operation. A view without windows has no partitions.
    """

    epoch: int
    kind: str
    processing_time: int
    source: str | None = None
    commit: str | None = None
    rows: int | None = None
    low: int | None = None
    high: int | None = None
    first: str | None = None
    last: str | None = None
    changes: Mapping[str, int] = field(default_factory=dict)

    def reaches(self, partition: str) -> bool:
        if self.first is None or self.last is None:
            return False
        return in_time(self.first) <= in_time(partition) <= in_time(self.last)

    @property
    def partitions(self) -> str:
        return self.first or "" if self.first == self.last else f"{self.first} … {self.last}"


def origins(query: Query, reader: StoreReader, after: int = 0, upto: int | None = None) -> list[Origin]:
    """What the epochs after one took and corrected, up to another (default: the last), oldest first."""
    found: list[Origin] = []
    for planned, commit in reader.log.history(after) if reader.exists else ():
        if upto is None or commit.epoch <= upto:
            found += _corrected(query, planned, commit) if commit.corrected else _taken(query, planned, commit)
    return found


def _taken(query: Query, planned: PlanRow, commit: CommitRow) -> Iterator[Origin]:
    plain = Origin(commit.epoch, commit.epoch_kind, commit.processing_time)
    pinned = pinned_commits(planned)
    for taken, times in zip(pinned, commit.taken or [None] * len(pinned), strict=True):
        rows, low, high = (None, None, None) if times is None else times[:3]
        origin = replace(plain, source=taken.source, commit=taken.id, rows=rows, low=low, high=high)
        yield origin if low is None or high is None else replace(origin, **_reach(query, low, high))


def _corrected(query: Query, planned: PlanRow, commit: CommitRow) -> Iterator[Origin]:
    """A correction counts for each partition that it changed; one that changed nothing, for what it computed anew."""
    upstream = pinned_commits(planned)
    plain = Origin(
        commit.epoch,
        commit.epoch_kind,
        commit.processing_time,
        source=", ".join(dict.fromkeys(c.source for c in upstream)) or None,
        commit=", ".join(c.id for c in upstream) or None,
    )
    ranges: Sequence[Sequence[int]] = commit.corrected["ranges"]
    low, high = min((r[0] for r in ranges), default=None), max((r[1] for r in ranges), default=None)
    partitions: Mapping[str, Mapping[str, int]] = commit.corrected["partitions"]
    for name, changes in partitions.items():
        yield replace(plain, low=low, high=high, first=name, last=name, changes=changes)
    if not partitions:
        yield from (replace(plain, low=r[0], high=r[1], **_reach(query, r[0], r[1] - 1)) for r in ranges)


def _reach(query: Query, low: int, high: int) -> dict[str, Any]:
    """The first and the last partition with a window that rows of these times can enter."""
    if query.window is None:
        return {}
    windows = () if isinstance(query.window, Session) else query.window.assign(low)
    start = min([low, *(window.start for window in windows)])
    return {"first": query.partition.name_of(start), "last": query.partition.name_of(high)}
