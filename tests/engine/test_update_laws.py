"""Views that correct themselves, on random logs with retractions, under any cut: Spark does what the reference does.

After every tick the changelog sums to the table, and both are the reference's; the table is the batch result over the
rows that are live.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.laws import broken_laws
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import HOUR, SECOND
from state_store import MaintenancePolicy
from tests.laws.agreement import as_table, aside, summed, ticks
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, Commits, after_noon, commits, cuts, picks, rows, with_retractions
from tests.laws.queries import BOUNDS, UPDATING, WINDOWS, lateness, source

pytestmark = pytest.mark.spark

NOW = NOON + HOUR
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
KINDS = {"none": "ev", **WINDOWS}
SQL = """
CREATE MATERIALIZED VIEW out AS
SELECT {bounds}k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi, COUNT(DISTINCT v) AS d
FROM {window}
WHERE v <> 13
GROUP BY {bounds}k
HAVING SUM(v) > 1
{lateness}
EMIT {strategy};
"""
drawn_commits = commits(rows(after_noon(0, 40)), rows=(1, 4), commits=(2, 5))


@pytest.mark.parametrize("kind", KINDS)
@on_spark(examples=8)
@given(
    drawn=drawn_commits,
    picked=picks,
    cut=cuts(5),
    strategy=st.sampled_from(UPDATING),
    retracts=st.booleans(),
)
def test_spark_and_the_reference_agree_after_every_tick(
    spark: Any, kind: str, drawn: Commits, picked: list[int], cut: frozenset[int], strategy: str, retracts: bool
) -> None:
    bounds = "" if kind == "none" else BOUNDS
    if kind == "none" and strategy == "ON WATERMARK":
        strategy = "CHANGES"
    if kind == "session" and strategy.startswith("EVERY"):
        # Commits of sessions may be epochs of their own, and EVERY goes by epochs: one each, on both sides.
        cut = frozenset(range(len(drawn)))
    form = {"bounds": bounds, "window": KINDS[kind], "lateness": lateness(3) if bounds else "", "strategy": strategy}
    sql = source(retracts=retracts) + SQL.format(**form)
    log = with_retractions(drawn, picked) if retracts else drawn
    on_spark = ticks(SparkRunner(lambda: spark, maintenance=EAGER), sql, log, cut, now=NOW, step=7 * SECOND)
    by_rule = ticks(ReferenceRunner(), sql, log, cut, now=NOW, step=7 * SECOND)
    for (ours,), (expected,) in zip(on_spark, by_rule, strict=True):
        assert as_table(ours.table) == as_table(expected.table)
        assert summed(ours.changes) == summed(expected.changes)
        assert broken_laws(ours.table, ours.changes, unique=ours.unique) == []
        assert aside(ours) == aside(expected)
        assert ours.watermark == expected.watermark
