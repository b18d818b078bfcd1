from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.watermark import CommitTimes, Progress, Shard, ShardPolicy, progress
from tests.laws.logs import edges, in_epochs

LAG_5 = {"a": ShardPolicy(lag=5)}
TWO = {"a": ShardPolicy(lag=0), "b": ShardPolicy(lag=0)}
IDLE = {"a": ShardPolicy(lag=5, idle_timeout=60)}


def first_epoch(commits: list[CommitTimes], policies: dict[str, ShardPolicy], now: int = 0) -> Progress:
    return progress(commits, None, {}, policies, now)


def test_a_shard_keeps_the_greatest_event_time_minus_its_lag() -> None:
    assert first_epoch([CommitTimes("a", 100), CommitTimes("a", 90)], LAG_5).watermark == 95


def test_a_row_is_judged_against_the_watermark_before_its_own_commit() -> None:
    clocks = first_epoch([CommitTimes("a", 100), CommitTimes("a", 200), CommitTimes("a", 50)], LAG_5)
    assert clocks.before_commit == (None, 95, 195)


def test_the_view_takes_the_minimum_over_its_shards() -> None:
    clocks = first_epoch([CommitTimes("a", 100), CommitTimes("b", 40), CommitTimes("a", 300)], TWO)
    assert clocks.before_commit == (None, None, 40)
    assert clocks.watermark == 40


def test_a_shard_that_never_had_rows_holds_the_view_back() -> None:
    assert first_epoch([CommitTimes("a", 100)], TWO).watermark is None


def test_the_watermark_never_moves_back() -> None:
    clocks = progress([CommitTimes("a", 10)], 95, {"a": Shard(95, 0)}, LAG_5, 0)
    assert clocks.watermark == 95
    assert clocks.shards["a"].watermark == 95


def test_an_idle_shard_is_left_out_of_the_minimum() -> None:
    policies = {"a": ShardPolicy(lag=0), "b": ShardPolicy(lag=0, idle_timeout=60)}
    shards = {"a": Shard(50, 0), "b": Shard(10, 0)}
    assert progress([CommitTimes("a", 80)], 10, shards, policies, 59).watermark == 10
    assert progress([CommitTimes("a", 80)], 10, shards, policies, 60).watermark == 80


def test_an_idle_shard_that_wakes_does_not_move_the_view_back() -> None:
    policies = {"a": ShardPolicy(lag=0), "b": ShardPolicy(lag=0, idle_timeout=60)}
    shards = {"a": Shard(80, 0), "b": Shard(10, 0)}
    clocks = progress([CommitTimes("b", 20)], 80, shards, policies, 100)
    assert clocks.before_commit == (80,)
    assert clocks.watermark == 80


def test_when_every_shard_is_idle_time_goes_on_by_the_clock() -> None:
    assert progress([], 40, {"a": Shard(40, 0)}, IDLE, 59).watermark == 40
    assert progress([], 40, {"a": Shard(40, 0)}, IDLE, 130).watermark == 130 - 5 - 60


def test_a_source_that_never_had_rows_is_idle_a_timeout_after_the_first_epoch() -> None:
    policies = {"a": ShardPolicy(lag=0), "b": ShardPolicy(lag=0, idle_timeout=60)}
    begun = progress([CommitTimes("a", 100)], None, {}, policies, 1000)
    assert begun.watermark is None
    later = progress([CommitTimes("a", 110)], begun.watermark, begun.shards, policies, 1060)
    assert later.watermark == 110


def test_without_an_idle_timeout_time_moves_with_data_alone() -> None:
    assert progress([], 40, {"a": Shard(40, 0)}, LAG_5, 10**12).watermark == 40


def test_a_commit_without_a_readable_time_keeps_its_shard_awake() -> None:
    clocks = progress([CommitTimes("a", None)], 40, {"a": Shard(40, 0)}, IDLE, 100)
    assert clocks.watermark == 40
    assert clocks.shards["a"].active_at == 100


def test_the_future_guard_allows_the_skew_itself() -> None:
    policy = ShardPolicy(lag=0, max_future_skew=10)
    assert not policy.is_future(110, 100)
    assert policy.is_future(111, 100)
    assert not ShardPolicy(lag=0, max_future_skew=None).is_future(10**15, 0)


COMMITS = st.lists(st.builds(CommitTimes, st.sampled_from(["a", "b"]), st.integers(0, 100)), max_size=12)


@given(COMMITS, edges)
def test_the_clocks_do_not_depend_on_how_commits_are_cut_into_epochs(
    commits: list[CommitTimes], cuts: list[int]
) -> None:
    whole = first_epoch(commits, TWO)
    watermark, shards, before = None, {}, ()
    for epoch in in_epochs(commits, cuts):
        part = progress(epoch, watermark, shards, TWO, 0)
        watermark, shards, before = part.watermark, part.shards, before + part.before_commit
    assert (watermark, before) == (whole.watermark, whole.before_commit)
    assert all(a <= b for a, b in pairwise(before) if a is not None and b is not None)


KAFKA = {"t": ShardPolicy(lag=0, idle_timeout=60)}


def test_the_partitions_of_a_source_are_shards_with_its_policy() -> None:
    commits = [CommitTimes("t/0", 100), CommitTimes("t/1", 40), CommitTimes("t/0", 300)]
    clocks = first_epoch(commits, KAFKA)
    assert clocks.before_commit == (None, None, 40)
    assert clocks.shards.keys() == {"t/0", "t/1"}
    assert progress([CommitTimes("t/0", 400)], 40, clocks.shards, KAFKA, 60).watermark == 400


def test_a_source_whose_partitions_are_not_known_yet_holds_the_view_back_until_they_are() -> None:
    policies = {"a": ShardPolicy(lag=0), "t": ShardPolicy(lag=0)}
    before = first_epoch([CommitTimes("a", 100)], policies)
    assert (before.watermark, before.shards.keys()) == (None, {"a", "t"})
    after = progress([CommitTimes("t/0", 50)], None, before.shards, policies, 0)
    assert (after.watermark, after.shards.keys()) == (50, {"a", "t/0"})


def test_a_partition_that_comes_later_holds_the_view_where_it_is() -> None:
    clocks = progress([CommitTimes("t/1", None, has_rows=False)], 100, {"t/0": Shard(100, 0)}, KAFKA, 0)
    assert clocks.watermark == 100
    assert progress([CommitTimes("t/0", 200)], 100, clocks.shards, KAFKA, 10).watermark == 100
    assert progress([CommitTimes("t/1", 150)], 100, clocks.shards, KAFKA, 10).watermark == 100
    both = [CommitTimes("t/0", 200), CommitTimes("t/1", 150)]
    assert progress(both, 100, clocks.shards, KAFKA, 10).watermark == 150
