"""GAP FILL on Spark: what the reference fills, under any cut, kill or compaction, and what the state keeps for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.engine import filled_windows, maintenance, writing
from laminar_dagster.engine.closing import partition_of
from laminar_dagster.engine.compaction import compact_if_due
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.engine.window_sql import starts_sql
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.partitions import Partitioning
from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, SECOND, from_datetime, from_iso
from laminar_dagster.semantics.windows import Calendar, Tumble
from state_store import StoreReader
from tests.laws.agreement import as_table, aside, at_last
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, commits, cuts, rows

pytestmark = pytest.mark.spark

WINDOWS = {
    "tumble": (MINUTE, "INTERVAL '1' MINUTE"),
    "calendar": (DAY, "INTERVAL '1' DAY, TIME ZONE 'Europe/Berlin'"),
}
SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, x DOUBLE, f FLOAT, p DECIMAL(10,2), ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s, MAX(x) AS x, MIN(f) AS f, SUM(p) AS p,
       MAX(v) - MIN(v) AS spread
FROM TUMBLE(ev, ts, {window})
GROUP BY window_start, window_end, k
HAVING MAX(v) IS NULL OR MAX(v) <> 3
GAP FILL {kind} EMIT {emit}{options};
"""
drawn_rows = rows(
    st.integers(0, 12),
    values=(-7, 0, 3, 2**62, None),
    x=st.sampled_from([0.1, -2.7, 1e300, None]),
    f=st.sampled_from([0.5, -3.25, None]),
    p=st.sampled_from([Decimal("0.07"), Decimal("-12.30"), None]),
)
drawn_commits = commits(drawn_rows, rows=(1, 3), commits=(3, 7))
EVENT = ("k", "v", "x", "f", "p", "ts")


def dated(drawn: Commits, size: int) -> Commits:
    """Times as they tend to come: each commit's rows some windows on, in windows around a change of the clocks."""
    first = from_iso("2025-03-28T12:00:00Z")
    return [
        [{**row, "ts": first + (2 * position + row["ts"]) * size} for row in commit]
        for position, commit in enumerate(drawn)
    ]


@pytest.mark.parametrize("window", WINDOWS)
@on_spark(examples=6)
@given(
    drawn=drawn_commits,
    cut=cuts(7),
    kind=st.sampled_from(["NULL", "LOCF", "LINEAR"]),
    emit=st.sampled_from(["ON WINDOW CLOSE", "FINAL"]),
    max_gap=st.sampled_from([None, 1, 3]),
    threshold=st.sampled_from([1, 48]),
    few=st.sampled_from([0, filled_windows.FEW_KEPT]),
)
def test_spark_and_the_reference_fill_alike_under_any_cut_into_epochs(
    spark: Any,
    window: str,
    drawn: Any,
    cut: frozenset[int],
    kind: str,
    emit: str,
    max_gap: int | None,
    threshold: int,
    few: int,
) -> None:
    size, length = WINDOWS[window]
    options = "" if max_gap is None else f" WITH (max_gap = '{max_gap * size // SECOND} seconds')"
    sql = SQL.format(window=length, kind=kind, emit=emit, options=options)
    log = dated(drawn, size)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance, "compact_if_due", lambda runtime, _: compact_if_due(runtime, threshold))
        patched.setattr(filled_windows, "FEW_KEPT", few)
        on_spark = at_last(SparkRunner(lambda: spark), sql, log, cut)
    by_rule = at_last(ReferenceRunner(), sql, log, frozenset())
    assert as_table(on_spark.table) == as_table(by_rule.table)
    assert aside(on_spark, EVENT) == aside(by_rule, EVENT)


@on_spark(examples=2)
@given(drawn=drawn_commits, cut=cuts(7))
def test_a_crash_after_any_write_changes_no_filled_row(spark: Any, drawn: Any, cut: frozenset[int]) -> None:
    size, length = WINDOWS["tumble"]
    sql = SQL.format(window=length, kind="LINEAR", emit="ON WINDOW CLOSE", options="")
    log = dated(drawn, size)
    crashed = at_last(SparkRunner(lambda: spark, crash=True), sql, log, cut)
    assert as_table(crashed.table) == as_table(at_last(ReferenceRunner(), sql, log, frozenset()).table)


# --- what the state keeps -------------------------------------------------------------------------------------


class Project:
    """A view over `v` by `k`, in windows of a minute, run epoch by epoch."""

    def __init__(self, run: ViewRun, source: MemoryConnector, root: Path) -> None:
        self.run, self.source, self.root = run, source, root

    def step(self, *events: tuple[str, float]) -> dict[str, int]:
        """One epoch over rows of these keys, at these minutes after noon; gives its counts."""
        rows = [{"k": k, "v": 1, "ts": NOON + round(minute * MINUTE)} for k, minute in events]
        self.source.append(rows, self.source.backlog(0))
        commit = self.run.step()
        assert commit is not None
        return dict(commit.counts)

    def panes(self) -> list[tuple[str, int]]:
        """The key and minute of every row of the state."""
        rows = StoreReader(self.root / "data" / "out").read("partials").to_pylist()
        return sorted((row["k0"], (row["pane_start"] - NOON) // MINUTE) for row in rows)

    def output(self) -> list[dict[str, Any]]:
        return StoreReader(self.root / "data" / "out").read("output").to_pylist()


COUNTED = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, SUM(v) AS s FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k GAP FILL LOCF EMIT ON WINDOW CLOSE WITH (partition = 'hour'{options});
"""


@pytest.fixture
def project(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    plan = plan_script(COUNTED.format(options=getattr(request, "param", "")))[0]
    source = MemoryConnector(plan.query.inputs[0].source, tmp_path)
    options = RunOptions(max_files=1)
    with open_view(plan, spark, project=tmp_path, data=tmp_path / "data", options=options) as run:
        yield Project(run, source, tmp_path)


def test_the_state_keeps_the_last_closed_pane_of_each_key(project: Project) -> None:
    project.step(("a", 0), ("b", 0), ("b", 1))
    assert project.panes() == [("a", 0), ("b", 0), ("b", 1)]
    project.step(("a", 2))
    assert project.panes() == [("a", 0), ("a", 2), ("b", 1)]
    project.step(("c", 9))
    assert project.panes() == [("a", 0), ("a", 2), ("b", 1), ("c", 9)]
    project.step(("c", 10))
    assert project.panes() == [("a", 2), ("b", 1), ("c", 9), ("c", 10)]


def test_an_epoch_that_closes_nothing_leaves_the_kept_panes_alone(project: Project) -> None:
    project.step(("a", 0), ("b", 1.1))
    project.step(("b", 2.1))
    before = project.run.runtime.store.table("partials").files()
    counts = project.step(("b", 2.2))
    assert (counts["windows_closed"], counts["filled_rows"]) == (0, 0)
    after = project.run.runtime.store.table("partials").files()
    assert [file for file in before if file not in after] == []


def test_kept_panes_lie_in_few_files_however_long_ago_they_closed(project: Project) -> None:
    for hour in range(12):
        project.step((f"key {hour}", 60 * hour))
        assert len(project.run.runtime.store.table("partials").files()) <= 5
    assert len(project.panes()) == 12


def test_a_compaction_keeps_the_start_of_a_gap(project: Project) -> None:
    project.step(("a", 0))
    project.step(("b", 1.1))
    project.step(("b", 1.2))
    assert compact_if_due(project.run.runtime, threshold=1)
    project.step(("a", 3))
    counts = project.step(("c", 4))
    assert counts["filled_rows"] == 2
    assert Counter(row["s"] for row in project.output() if row["k"] == "a") == {1: 4}


@pytest.mark.parametrize("project", [", max_gap = '2 minutes'"], indirect=True)
def test_with_max_gap_the_state_forgets_a_key_that_no_gap_can_follow(project: Project) -> None:
    project.step(("a", 0))
    project.step(("b", 2))
    project.step(("b", 3))
    assert project.panes() == [("a", 0), ("b", 2), ("b", 3)]
    project.step(("b", 4))
    project.step(("b", 5))
    assert project.panes() == [("b", 4), ("b", 5)]
    project.step(("a", 6))
    assert project.step(("b", 7))["filled_rows"] == 0


@pytest.mark.parametrize("brought", [0, writing.BROUGHT_ROWS])
def test_filled_rows_are_counted_and_lie_in_the_partition_of_their_own_window(
    project: Project, monkeypatch: pytest.MonkeyPatch, brought: int
) -> None:
    monkeypatch.setattr(writing, "BROUGHT_ROWS", brought)
    project.step(("a", 58))
    project.step(("b", 60))
    project.step(("a", 61))
    counts = project.step(("b", 62))
    assert (counts["rows_out"], counts["filled_rows"], counts["windows_closed"]) == (3, 2, 1)
    found = {row["window_start"]: row["_partition"] for row in project.output()}
    assert found == {start: partition_of(from_datetime(start), Partitioning("hour")) for start in found}
    assert len(set(found.values())) == 2


# --- the windows between ---------------------------------------------------------------------------------------

GRIDS = [
    Tumble(MINUTE),
    Tumble(7 * MINUTE, 3 * MINUTE),
    Calendar("DAY", 1, "Europe/Berlin"),
    Calendar("DAY", 1, "America/Sao_Paulo"),  # midnights that do not exist
    Calendar("DAY", 1, "America/Havana"),  # midnights that come twice
    Calendar("DAY", 1, "Pacific/Apia"),  # a day that was skipped
    Calendar("WEEK", 2, "Europe/Berlin"),
    Calendar("MONTH", 3, "America/New_York"),
]


@pytest.mark.parametrize("window", GRIDS, ids=str)
@pytest.mark.parametrize("year", [1969, 2011, 2017, 2025])
def test_spark_counts_windows_as_the_calendar_does(spark: Any, window: Tumble | Calendar, year: int) -> None:
    first = window.pane(from_datetime(datetime(year, 10, 1, 5, tzinfo=UTC)))
    reach = HOUR if isinstance(window, Tumble) else 400 * DAY
    windows = [first]
    while windows[-1].end < first.start + reach:
        windows.append(window.pane(windows[-1].end))
    sql = starts_sql(window, f"{first.start}L", f"{windows[-1].start}L")
    assert spark.sql(f"SELECT {sql}").first()[0] == [w.start for w in windows]
