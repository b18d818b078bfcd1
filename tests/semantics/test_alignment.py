"""Which shards hold a watermark back."""

from __future__ import annotations

from laminar_dagster.semantics.alignment import Standing, alignment
from laminar_dagster.semantics.watermark import Shard, ShardPolicy

POLICIES = {"a": ShardPolicy(lag=0), "b": ShardPolicy(lag=0, idle_timeout=10)}


def standings(now: int = 0, **shards: Shard) -> dict[str, Standing]:
    named = {name.replace("_", "/"): shard for name, shard in shards.items()}
    return {standing.shard: standing for standing in alignment(named, POLICIES, now)}


def holders(found: dict[str, Standing]) -> list[str]:
    return [name for name, standing in found.items() if standing.holds_back]


def test_the_shard_that_is_furthest_behind_holds_back_and_the_others_are_ahead_of_it() -> None:
    found = standings(a=Shard(30, 0), b_0=Shard(10, 0), b_1=Shard(12, 0))
    assert holders(found) == ["b/0"]
    assert {name: standing.ahead for name, standing in found.items()} == {"a": 20, "b/0": 0, "b/1": 2}


def test_shards_that_are_behind_alike_hold_back_together() -> None:
    assert holders(standings(a=Shard(10, 0), b=Shard(10, 0))) == ["a", "b"]


def test_a_shard_without_a_watermark_holds_back_whoever_is_behind() -> None:
    found = standings(a=Shard(None, 0), b_0=Shard(10, 0), b_1=Shard(12, 0))
    assert holders(found) == ["a"]
    assert (found["a"].ahead, found["b/1"].ahead) == (None, 2)


def test_an_idle_shard_does_not_hold_back() -> None:
    shards = {"a": Shard(30, 0), "b": Shard(10, 5)}
    assert holders(standings(14, **shards)) == ["b"]
    found = standings(15, **shards)
    assert holders(found) == ["a"]
    assert (found["b"].is_idle, found["b"].idle_from, found["b"].ahead) == (True, 15, -20)
    assert found["a"].idle_from is None


def test_nobody_holds_back_where_all_are_idle() -> None:
    assert holders(standings(99, b=Shard(10, 0))) == []


def test_a_shard_of_a_source_that_the_view_no_longer_has_is_told_all_the_same() -> None:
    assert holders(standings(99, gone=Shard(10, 0))) == ["gone"]
