"""The law of counters: over any run they add up to what the log and the tables say, and none of them ever falls."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.engine.metrics import COUNTER, METRICS, facts_of
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS
from laminar_dagster.semantics.reference import Commit, Reference
from laminar_dagster.semantics.time import HOUR, SECOND
from state_store import CommitRow, StoreReader
from state_store import format as f
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, after_noon, commits, cuts, picks, rows, with_retractions
from tests.laws.queries import BOUNDS, CLOSING, UPDATING, WINDOWS, lateness, source

pytestmark = pytest.mark.spark

NOW = NOON + HOUR
GAPS = "HOP(ev, ts, INTERVAL '7' SECOND, INTERVAL '3' SECOND)"
KINDS = {"none": "ev", **WINDOWS, "hop with gaps": GAPS}
SQL = """
CREATE MATERIALIZED VIEW out AS
SELECT {bounds}k, COUNT(*) AS n, SUM(v) AS s FROM {window} WHERE v <> 13 GROUP BY {bounds}k HAVING SUM(v) > 1
{lateness} EMIT {strategy};
"""
drawn_commits = commits(rows(after_noon(0, 40)), rows=(1, 4), commits=(2, 5))


def strategies(kind: str) -> tuple[str, ...]:
    return UPDATING[:3] if kind == "none" else (*UPDATING, *CLOSING)


@pytest.mark.parametrize("kind", KINDS)
@on_spark(examples=6)
@given(
    drawn=drawn_commits, picked=picks, cut=cuts(5), strategy=st.sampled_from((*UPDATING, *CLOSING)),
    retracts=st.booleans(), late=st.sampled_from([0, 3]),
)  # fmt: skip
def test_counters_add_up_to_what_the_log_and_the_tables_say(
    spark: Any, kind: str, drawn: Commits, picked: list[int], cut: frozenset[int], strategy: str, retracts: bool,
    late: int,
) -> None:  # fmt: skip
    bounds = "" if kind == "none" else BOUNDS
    strategy = strategy if strategy in strategies(kind) else "CHANGES"
    form = {"bounds": bounds, "window": KINDS[kind], "lateness": lateness(late) if bounds else "", "strategy": strategy}
    (plan,) = plan_script(source(retracts=retracts) + SQL.format(**form))
    log = with_retractions(drawn, picked) if retracts else drawn
    with tempfile.TemporaryDirectory(prefix="laminar-law-") as folder:
        run = Counted(spark, plan, Path(folder))
        for position, commit in enumerate(log):
            run.take(commit)
            if position in cut or position == len(log) - 1:
                run.tick(NOW + position * 7 * SECOND)


class Counted:
    """A view, its reference, and its counters so far."""

    def __init__(self, spark: Any, plan: Plan, root: Path) -> None:
        self.spark, self.plan, self.root = spark, plan, root
        self.source = MemoryConnector(plan.query.inputs[0].source, root)
        self.reference = Reference(plan.query)
        self.waiting: list[Commit] = []
        self.total: Counter[str] = Counter()
        self.closed = 0

    def take(self, commit: list[dict[str, Any]]) -> None:
        self.source.append(commit, self.source.backlog(0))
        self.waiting.append(Commit("ev", commit))

    def tick(self, now: int) -> None:
        options = RunOptions(now=lambda: now)
        for commit in run_view(self.plan, self.spark, project=self.root, data=self.root / "data", options=options):
            taken = commit.counts["commits"]
            mine, self.waiting = self.waiting[:taken], self.waiting[taken:]
            meant = self.reference.epoch(mine, now).counts
            self.closed += meant.get("windows_closed", 0)
            for fate in ("aggregated", "filtered", "between_windows", *SIDE_OUTPUT_KINDS):
                assert commit.counts.get(fate, 0) == meant.get(fate, 0), fate
            assert all(value >= 0 for value in commit.counts.values()), dict(commit.counts)
            self.total.update(commit.counts)
            self.assert_rows_add_up(commit)
            self.assert_windows_add_up(commit)
        self.assert_metrics_are_the_sums()

    @property
    def reader(self) -> StoreReader:
        return StoreReader(self.root / "data" / "out")

    def assert_rows_add_up(self, commit: CommitRow) -> None:
        counts = commit.counts
        fates = ("aggregated", "filtered", "between_windows", *SIDE_OUTPUT_KINDS)
        assert counts["rows_in"] == sum(counts.get(fate, 0) for fate in fates)
        shown = f.OUTPUT if self.plan.query.emit.append_only else f.CHANGELOG
        assert self.total["rows_out"] == self.reader.read(shown, commit).num_rows

    def assert_windows_add_up(self, commit: CommitRow) -> None:
        counts, query = commit.counts, self.plan.query
        if query.window is None:
            assert not counts.get("windows_closed")
            return
        assert self.total["windows_closed"] == self.closed
        if "windows_open" in counts:
            assert counts["windows_open"] == self.reference.open_windows
            assert self.total["windows_opened"] - self.total["windows_closed"] == counts["windows_open"]
            return
        by = [self.total[f"sessions_closed_by_{how}"] for how in ("timer", "watermark")]
        assert sum(by) == self.total["windows_closed"]
        assert counts["stale_timers"] == counts.get("due_timers", 0) - counts["windows_closed"]

    def assert_metrics_are_the_sums(self) -> None:
        facts = facts_of(self.plan, self.reader)
        assert facts is not None
        assert facts.open_windows == self.reference.open_windows
        found = {metric.name: metric.values(facts) for metric in METRICS if metric.kind == COUNTER}
        assert found["laminar_closed_windows"] == {"": self.total["windows_closed"]}
        assert found["laminar_output_rows"] == {"": self.total["rows_out"]}
        assert found["laminar_input_rows"] == {"": self.total["rows_in"]}
