"""Who holds a view's watermark back: how its shards stand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laminar_dagster.semantics.watermark import Shard, ShardPolicy, least, source_of


@dataclass(frozen=True)
class Standing:
    """A shard beside the others. `ahead` is event time, from the shard that is furthest behind; `idle_from` is the
    processing time from which the shard no longer counts unless it brings rows before."""

    shard: str
    watermark: int | None
    active_at: int
    is_idle: bool
    idle_from: int | None
    holds_back: bool
    ahead: int | None


def alignment(shards: Mapping[str, Shard], policies: Mapping[str, ShardPolicy], now: int) -> tuple[Standing, ...]:
    """The shards by name. Those that hold the watermark back are not idle and have the least watermark, or none yet."""
    idle = {name: _is_idle(name, shard, policies, now) for name, shard in shards.items()}
    active = [shard.watermark for name, shard in shards.items() if not idle[name]]
    reached, last = least(active), min((w for w in active if w is not None), default=None)
    return tuple(
        Standing(
            name,
            shard.watermark,
            shard.active_at,
            idle[name],
            _idle_from(name, shard, policies),
            not idle[name] and shard.watermark == reached,
            None if shard.watermark is None or last is None else shard.watermark - last,
        )
        for name, shard in sorted(shards.items())
    )


def _is_idle(name: str, shard: Shard, policies: Mapping[str, ShardPolicy], now: int) -> bool:
    policy = policies.get(source_of(name))
    return policy is not None and shard.is_idle(policy, now)


def _idle_from(name: str, shard: Shard, policies: Mapping[str, ShardPolicy]) -> int | None:
    policy = policies.get(source_of(name))
    return None if policy is None or policy.idle_timeout is None else shard.active_at + policy.idle_timeout
