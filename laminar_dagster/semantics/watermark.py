"""How far event time has come: per shard, monotone, and the minimum over the shards that are not idle.

A source is one shard, which has its name, or one for each of its partitions: `source/0`, `source/1`, ….
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from laminar_dagster.semantics.time import within_reach

DEFAULT_FUTURE_SKEW = 5 * 60 * 1_000_000


@dataclass(frozen=True)
class ShardPolicy:
    """What a shard's source declares about time."""

    lag: int
    idle_timeout: int | None = None
    max_future_skew: int | None = DEFAULT_FUTURE_SKEW

    def is_future(self, event_time: int, now: int) -> bool:
        return self.max_future_skew is not None and event_time > now + self.max_future_skew


@dataclass(frozen=True)
class Shard:
    """A shard's persisted clock: its watermark, and the processing time at which it last brought rows."""

    watermark: int | None
    active_at: int

    def advanced(self, max_event_time: int | None, policy: ShardPolicy) -> Shard:
        if max_event_time is None:
            return self
        reached = within_reach(max_event_time - policy.lag)
        return replace(self, watermark=reached if self.watermark is None else max(self.watermark, reached))

    def is_idle(self, policy: ShardPolicy, now: int) -> bool:
        return policy.idle_timeout is not None and now - self.active_at >= policy.idle_timeout


def shard_name(source: str, partition: int | None) -> str:
    return source if partition is None else f"{source}/{partition}"


def source_of(shard: str) -> str:
    return shard.partition("/")[0]


def known_shards(
    shards: Mapping[str, Shard], told: Iterable[str], sources: Iterable[str], now: int
) -> dict[str, Shard]:
    """The shards so far and those that commits tell of; a source of which none is known yet stands for its own."""
    found = {**{name: Shard(None, now) for name in told}, **shards}
    parted = {source_of(name) for name in found if name != source_of(name)}
    kept = {name: shard for name, shard in found.items() if name not in parted}
    known = {source_of(name) for name in kept}
    return {**{name: Shard(None, now) for name in sources if name not in known}, **kept}


def later(a: int | None, b: int | None) -> int | None:
    """The greater of two watermarks, where None is one that is not known yet."""
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)


def view_watermark(
    previous: int | None, shards: Mapping[str, Shard], policies: Mapping[str, ShardPolicy], now: int
) -> int | None:
    """The view's watermark after an epoch at processing time `now`; it never moves back."""
    by_shard = {name: policies[source_of(name)] for name in shards}
    active = {name: shard for name, shard in shards.items() if not shard.is_idle(by_shard[name], now)}
    if active:
        return later(previous, least(shard.watermark for shard in active.values()))
    reached = [now - policy.lag - (policy.idle_timeout or 0) for policy in by_shard.values()]
    return later(previous, min(reached)) if reached else previous


def least(watermarks: Iterable[int | None]) -> int | None:
    """The minimum, unknown as long as one of them is unknown."""
    known = list(watermarks)
    present = [w for w in known if w is not None]
    return min(present) if present and len(present) == len(known) else None


@dataclass(frozen=True)
class CommitTimes:
    """What one source commit brings: its shard and its greatest readable, not future-dated event time."""

    shard: str
    max_event_time: int | None
    has_rows: bool = True


@dataclass(frozen=True)
class Progress:
    """The clocks of an epoch: the watermark before each of its commits, and everything after the last one."""

    before_commit: tuple[int | None, ...]
    shards: Mapping[str, Shard]
    watermark: int | None


def progress(
    commits: Iterable[CommitTimes],
    previous: int | None,
    shards: Mapping[str, Shard],
    policies: Mapping[str, ShardPolicy],
    now: int,
    waiting: Iterable[str] = (),
) -> Progress:
    """Run the clocks over an epoch's commits, in order.

    A row is judged against the watermark before its own commit, so the cut into epochs does not matter. Nor does it
    matter for idleness: shards of which rows are `waiting` for the next epoch are as active as if this one took them.
    """
    commits = tuple(commits)
    active = {*waiting, *(commit.shard for commit in commits if commit.has_rows)}
    current = known_shards(shards, [*active, *(commit.shard for commit in commits)], policies, now)
    by_shard = {name: policies[source_of(name)] for name in current}
    for shard in active & current.keys():
        current[shard] = replace(current[shard], active_at=now)
    before: list[int | None] = []
    watermark = previous
    for commit in commits:
        before.append(watermark)
        current[commit.shard] = current[commit.shard].advanced(commit.max_event_time, by_shard[commit.shard])
        awake = [s.watermark for name, s in current.items() if not s.is_idle(by_shard[name], now)]
        watermark = later(watermark, least(awake))
    return Progress(tuple(before), current, view_watermark(watermark, current, policies, now))


def directed(
    commits: Iterable[CommitTimes], previous: int | None, shards: Mapping[str, Shard], to: int | None, now: int
) -> Progress:
    """The clocks of an epoch that is told where the watermark goes; it still never moves back."""
    told = tuple(commits)
    to = None if to is None else within_reach(to)
    current = {**shards, **{commit.shard: Shard(to, now) for commit in told if commit.has_rows}}
    return Progress((previous,) * len(told), current, later(previous, to))
