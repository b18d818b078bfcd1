"""Every strategy over every kind of window, beside each other over one log: Spark does what the reference does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from laminar_dagster.conformance.harness import Observed
from laminar_dagster.conformance.laws import broken_laws
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import SECOND
from tests.laws.agreement import as_table, aside, summed, ticks
from tests.laws.logs import NOON, Commits, Row
from tests.laws.queries import CLOSING, UPDATING, WINDOWS, lateness, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STRATEGIES = {"v" + "".join(filter(str.isalnum, each)).lower(): each for each in (*UPDATING, *CLOSING)}
VIEW = """
CREATE MATERIALIZED VIEW {name} AS
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM {window} GROUP BY window_start, window_end, k
{lateness} EMIT {strategy};
"""


def at(seconds: int, value: int) -> Row:
    return {"k": "a", "v": value, "ts": NOON + seconds * SECOND}


# Watermarks are 2 seconds behind. Lateness is 20 seconds: the first windows have ended when the third commit comes,
# they close with the fourth, and the first row of the fifth is late for all of them.
LOG: Commits = [[at(0, 1), at(1, 2)], [at(20, 8)], [at(1, 16)], [at(60, 64)], [at(0, 128), at(120, 256)]]
# The ticks: before the row within the lateness, with it, and after the close. EVERY goes by epochs, and commits of
# sessions may be epochs of their own.
TICKS = {kind: frozenset(range(len(LOG))) if kind == "session" else frozenset({1, 2}) for kind in WINDOWS}


def results(found: Observed, name: str = "s") -> list[Any]:
    """What was shown of the windows of the first rows, in order, repeats included."""
    return [row[name] for row in found.rows if row["window_start"] <= NOON + SECOND and row["window_end"] > NOON]


@pytest.mark.parametrize("kind", WINDOWS)
def test_every_window_takes_every_strategy(spark: SparkSession, kind: str) -> None:
    views = [
        VIEW.format(name=name, window=WINDOWS[kind], lateness=lateness(20), strategy=strategy)
        for name, strategy in STRATEGIES.items()
    ]
    sql = source() + "".join(views)
    on_spark, by_rule = (
        list(ticks(runner, sql, LOG, TICKS[kind], *STRATEGIES, now=NOON, step=7 * SECOND))
        for runner in (SparkRunner(lambda: spark), ReferenceRunner())
    )
    for ours, expected in zip(on_spark, by_rule, strict=True):
        assert_the_same(ours, expected)
    shown = dict(zip(STRATEGIES.values(), on_spark[-1], strict=True))
    assert all(found.table for found in shown.values())
    # The row within the lateness: silently in the result of a close, aside under FINAL, a correction under the others.
    close, final = (sum(results(shown[strategy])) for strategy in CLOSING)
    assert close > final > 0
    assert [row["v"] for row in (entry["row"] for entry in shown["FINAL"].side_output)] == [16, 128]
    for strategy in UPDATING:
        assert "-U" in {row["_op"] for row in shown[strategy].changes}, strategy


def assert_the_same(ours: Sequence[Observed], expected: Sequence[Observed]) -> None:
    for found, meant, strategy in zip(ours, expected, STRATEGIES.values(), strict=True):
        assert as_table(found.table) == as_table(meant.table), strategy
        assert as_table(found.rows) == as_table(meant.rows), strategy
        assert summed(found.changes) == summed(meant.changes), strategy
        assert broken_laws(found.table, found.changes, unique=found.unique) == [] or not found.changes, strategy
        assert aside(found) == aside(meant), strategy
        assert found.watermark == meant.watermark, strategy
