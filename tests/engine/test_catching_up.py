"""A run that catches up judges rows as a run without pause would have: any limits, any number of sources."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.time import SECOND
from state_store import StoreReader
from state_store import format as f
from tests.laws.examples import on_spark
from tests.laws.logs import NOON

pytestmark = pytest.mark.spark

NAMES = ("a", "b", "c")
# A commit: which source it is of, and the seconds after noon of its rows.
Commit = tuple[int, list[int]]
Shown = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], int | None]

commits = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 60), min_size=0, max_size=3)), min_size=2, max_size=9
)
# How many rows and how many files an epoch may take.
limits = st.tuples(st.integers(1, 5), st.integers(1, 4))


def script(window: str, idle: int | None) -> str:
    timeout = "" if idle is None else f", idle_timeout = '{idle} seconds'"
    declared = "".join(
        f"CREATE SOURCE {name} (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) "
        f"WITH (connector = 'memory'{timeout});\n"
        for name in NAMES
    )
    union = " UNION ALL ".join(f"SELECT v, ts FROM {name}" for name in NAMES)
    return f"""{declared}
        CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s
        FROM {window.format(rows=f"({union})")} GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;"""


class View:
    """A view over three sources, in a directory of its own."""

    def __init__(self, spark: Any, root: Path, sql: str) -> None:
        self.spark, self.root = spark, root
        (self.plan,) = plan_script(sql)
        self._order = 0

    def commit(self, commit: Commit) -> None:
        source, seconds = commit
        self._order += 1
        rows = [{"v": self._order, "ts": NOON + at * SECOND} for at in seconds]
        connector = MemoryConnector(self.plan.query.inputs[source].source, self.root)
        connector.append(rows, self._order)

    def tick(self, now: int, **options: int) -> int:
        chosen = RunOptions(now=lambda: now, **options)
        done = run_view(self.plan, self.spark, project=self.root, data=self.root / "data", options=chosen)
        return len(done)

    def shown(self) -> Shown:
        reader = StoreReader(self.root / "data" / "out")
        last = reader.commit()
        assert last is not None
        output = [(row["window_start"], row["n"], row["s"]) for row in reader.read(f.OUTPUT).to_pylist()]
        aside = [(row["kind"], row["original_event"]) for row in reader.read(f.SIDE_OUTPUT).to_pylist()]
        return sorted(output), sorted(aside), last.watermark


TUMBLE = "TUMBLE({rows}, ts, INTERVAL '10' SECOND)"
SESSION = "SESSION({rows}, ts, INTERVAL '3' SECOND)"


@pytest.mark.parametrize("window", [TUMBLE, SESSION], ids=["tumble", "session"])
@on_spark(examples=5)
@given(log=commits, limit=limits, idle=st.sampled_from([None, 30]))
# The second source waits while the first spends the limit; a clock that counts it as idle would make its rows late.
@example(log=[(0, [1]), (1, [2]), (0, [40]), (1, [3]), (2, [4])], limit=(1, 1), idle=30)
# Each source has one commit that fits; the younger one of `b` must wait for the older one of `a`.
@example(log=[(0, [1, 2, 3]), (0, [4]), (1, [50]), (0, [5])], limit=(1, 1), idle=None)
def test_any_limits_give_the_same_rows(
    spark: Any, window: str, log: list[Commit], limit: tuple[int, int], idle: int | None
) -> None:
    late = NOON + 3600 * SECOND
    found = []
    for options in ({}, {"max_rows": limit[0], "max_files": limit[1]}):
        with tempfile.TemporaryDirectory() as root:
            view = View(spark, Path(root), script(window, idle))
            view.tick(NOON)
            for commit in log:
                view.commit(commit)
            view.tick(late, **options)
            found.append(view.shown())
    assert found[1] == found[0]


@pytest.mark.parametrize("window", [TUMBLE, SESSION], ids=["tumble", "session"])
@on_spark(examples=3)
@given(log=commits, limit=limits)
@example(log=[(0, [1, 2, 3]), (0, [40]), (1, [2]), (2, [50]), (1, [1])], limit=(1, 1))
def test_catching_up_gives_what_a_run_without_pause_gives(
    spark: Any, window: str, log: list[Commit], limit: tuple[int, int]
) -> None:
    found = []
    for pauses in (False, True):
        with tempfile.TemporaryDirectory() as root:
            view = View(spark, Path(root), script(window, None))
            for commit in log:
                view.commit(commit)
                if not pauses:
                    view.tick(NOON)
            if pauses:
                view.tick(NOON, max_rows=limit[0], max_files=limit[1])
            found.append(view.shown())
    assert found[1] == found[0]


def test_an_epoch_takes_nothing_younger_than_what_it_leaves(spark: Any, tmp_path: Path) -> None:
    view = View(spark, tmp_path, script(TUMBLE, None))
    for commit in [(0, [1]), (0, [2]), (1, [3]), (2, [4])]:
        view.commit(commit)
    assert view.tick(NOON, max_files=1) == 4
    log = StoreReader(tmp_path / "data" / "out").log
    taken = [[entry["source"] for entry in planned.sources["commits"]] for planned, _ in log.history()]
    assert taken == [["a"], ["a"], ["b"], ["c"]]
