"""Views over views after a correction: one tick of each, and all of them agree; killed anywhere, all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from laminar_dagster.conformance.laws import broken_laws
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import SECOND
from tests.engine.corrected_view import CLOSER, EVER, NOON, NOW, Row, at, plain

pytestmark = pytest.mark.spark

SOURCE = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'memory');
"""
# The first one only appends; the last one has no window. The second takes results of the first into its own windows.
APPENDING = """
CREATE MATERIALIZED VIEW first AS SELECT window_start, window_end, k, SUM(v) AS s
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW second AS SELECT window_start, window_end, COUNT(*) AS n, SUM(s) AS s
FROM HOP(first, window_end, INTERVAL '20' SECOND, INTERVAL '40' SECOND) GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW third AS SELECT n, SUM(s) AS s FROM second GROUP BY n EMIT CHANGES;
"""
# Sessions come and go upstream; what reads them has windows that are closed long since.
CHANGING = """
CREATE MATERIALIZED VIEW first AS SELECT window_start, window_end, k, SUM(v) AS s
FROM SESSION(ev, ts, INTERVAL '3' SECOND) GROUP BY window_start, window_end, k EMIT CHANGES;
CREATE MATERIALIZED VIEW second AS SELECT window_start, window_end, k, COUNT(*) AS n, SUM(s) AS s
FROM TUMBLE(first, window_end, INTERVAL '20' SECOND) GROUP BY window_start, window_end, k EMIT ON WATERMARK;
CREATE MATERIALIZED VIEW third AS SELECT window_start, window_end, MAX(s) AS hi
FROM SESSION(second, window_start, INTERVAL '30' SECOND) GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
VIEWS = ("first", "second", "third")
ON_TIME = [[at(1), at(5, "b", 40), at(12)], [at(33), at(38, "b", 1), at(70)], [at(150)]]
LATE = [[at(3), at(8, "b", 1)], [at(14, "c", 40), at(36), at(41, "b")]]


class Chain:
    def __init__(self, spark: Any, sql: str) -> None:
        self.sql = SOURCE + sql
        self.runner = SparkRunner(lambda: spark)
        self.runner.open(self.sql)
        self.rows: list[Row] = []

    def take(self, *commits: list[Row]) -> None:
        for commit in commits:
            self.rows += commit
            self.runner.commit("ev", commit)
            self.runner.tick(NOW)

    def assert_agrees(self) -> None:
        """Every view is what it would be if all had been on time; nothing that came from upstream was ever late."""
        wanted = ReferenceRunner()
        wanted.open(self.sql)
        wanted.commit("ev", self.rows)
        wanted.tick(NOW)
        for view in VIEWS:
            found = self.runner.observe(view)
            assert plain(found.table) == plain(wanted.observe(view).table), view
            if found.changes:
                assert broken_laws(found.table, found.changes, unique=found.unique) == []
            assert view == "first" or not found.side_output

    def history(self) -> list[list[tuple[Any, ...]]]:
        """What every view has shown, in order."""
        return [
            [(row["_op"], *(v for n, v in row.items() if not n.startswith("_"))) for row in self.observed(view)]
            for view in VIEWS
        ]

    def observed(self, view: str) -> Any:
        return self.runner.observe(view).changes


@pytest.fixture
def chains(spark: Any) -> Iterator[Any]:
    made: list[Chain] = []

    def chain(sql: str) -> Chain:
        made.append(Chain(spark, sql))
        return made[-1]

    yield chain
    for one in made:
        one.runner.close()


@pytest.mark.parametrize("sql", [APPENDING, CHANGING], ids=["appending", "changing"])
def test_a_chain_of_views_agrees_one_tick_after_a_correction(chains: Any, sql: str) -> None:
    chain = chains(sql)
    chain.take(*ON_TIME)
    chain.take(LATE[0])
    chain.runner.fold_late("first", NOW, "group_key LIKE '%b%'")
    chain.runner.tick(NOW)
    chain.runner.fold_late("first", NOW)
    chain.runner.tick(NOW)
    chain.assert_agrees()
    chain.take(LATE[1])
    chain.runner.backfill("first", [(NOON + 14 * SECOND, NOON + 42 * SECOND)], NOW)
    chain.runner.tick(NOW)
    chain.assert_agrees()
    chain.take([CLOSER])
    chain.assert_agrees()
    for view in VIEWS:
        chain.runner.backfill(view, [(EVER.start, EVER.end)], NOW)
    before = chain.history()
    chain.runner.tick(NOW)
    chain.assert_agrees()
    assert chain.history() == before, "there was nothing left to correct"


def test_a_correction_that_is_killed_after_every_write_leaves_no_trace(chains: Any) -> None:
    straight, killed = chains(APPENDING), chains(APPENDING)
    for chain in (straight, killed):
        chain.take([row for commit in ON_TIME for row in commit], [*LATE[0], *LATE[1]])
        chain.runner.crash = chain is killed
        chain.runner.fold_late("first", NOW, "group_key LIKE '%b%'")
        chain.runner.crash = False
        chain.runner.backfill("first", [(NOON, NOON + 42 * SECOND)], NOW)
        chain.runner.crash = chain is killed
        chain.runner.tick(NOW)
    killed.assert_agrees()
    assert killed.history() == straight.history()


def test_so_does_one_that_takes_open_sessions_into_the_state(chains: Any) -> None:
    straight, killed = chains(CHANGING), chains(CHANGING)
    for chain in (straight, killed):
        chain.take([at(0), at(2), at(12, "b")], [at(5)], [at(8)])
        chain.runner.crash = chain is killed
        chain.runner.backfill("first", [(NOON + 5 * SECOND, NOON + 6 * SECOND)], NOW)
        chain.runner.crash = False
        chain.take([at(11), at(90)])
    killed.assert_agrees()
    assert killed.history() == straight.history()
