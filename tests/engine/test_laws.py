"""Laws of the engine, on random logs: any cut, any order within a commit, any oracle, the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import SECOND
from tests.laws.agreement import at_last
from tests.laws.examples import on_spark
from tests.laws.logs import Log, after_noon, commits, logs, rows
from tests.laws.queries import source

pytestmark = pytest.mark.spark

LAG, SIZE, LATENESS = 5 * SECOND, 10 * SECOND, 3 * SECOND
SQL = (
    source("k STRING, v BIGINT, d DECIMAL(10,2), ts TIMESTAMP", lag=5)
    + """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, SUM(d) AS d,
       SUM(v) FILTER (WHERE v > 0) AS positive
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND)
WHERE v IS NULL OR v <> 13
GROUP BY window_start, window_end, k
ALLOW LATENESS INTERVAL '3' SECOND
EMIT ON WINDOW CLOSE;
"""
)
ORACLE = f"""
WITH marks AS (
    SELECT c, max(ts) - {LAG} AS reached FROM ev WHERE ts IS NOT NULL GROUP BY c),
before AS (
    SELECT a.c, (SELECT max(reached) FROM marks b WHERE b.c < a.c) AS wm FROM (SELECT DISTINCT c FROM ev) a),
judged AS (
    SELECT ev.*, ts - ((ts % {SIZE}) + {SIZE}) % {SIZE} AS window_start, wm FROM ev JOIN before USING (c)
    WHERE ts IS NOT NULL AND (v IS NULL OR v <> 13)),
fates AS (
    SELECT *, coalesce(window_start + {SIZE} + {LATENESS} <= wm, false) AS late FROM judged)
"""
RESULT = (
    ORACLE
    + f"""
SELECT window_start, k, count(*)::BIGINT AS n, count(v)::BIGINT AS nv, sum(v)::BIGINT AS s, min(v) AS lo,
       max(v) AS hi, sum(d) AS d, (sum(v) FILTER (WHERE v > 0))::BIGINT AS positive
FROM fates WHERE NOT late GROUP BY window_start, k
HAVING window_start + {SIZE} + {LATENESS} <= (SELECT max(reached) FROM marks)"""
)
LATE = ORACLE + "SELECT k, v, ts FROM fates WHERE late"


values = (None, -4, 0, 7, 13, 2**40)
decimals = st.sampled_from([None, Decimal("1.10"), Decimal("-0.05"), Decimal("99999999.99")])
drawn_rows = rows(st.one_of(st.none(), after_noon(-30, 60)), values=values, d=decimals)
drawn_logs = logs(commits(drawn_rows, rows=(1, 4), commits=(1, 6)))


def observed(runner: Runner, log: Log) -> Observed:
    return at_last(runner, SQL, log.commits, log.ticks)


def as_set(found: Sequence[Any], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_comparable(row[name]) for name in columns) for row in found), key=repr)


def _comparable(value: Any) -> Any:
    return None if value is None else str(value)


COLUMNS = ("window_start", "k", "n", "nv", "s", "lo", "hi", "d", "positive")


def late_rows(found: Observed) -> list[tuple[Any, ...]]:
    return as_set([entry["row"] for entry in found.side_output if entry["kind"] == "late"], ("k", "v", "ts"))


def oracle(log: Log) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """One batch query in DuckDB over the whole log: code that shares nothing with the engine."""
    schema = pa.schema(
        [("c", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("d", pa.decimal128(10, 2)), ("ts", pa.int64())]
    )
    ev = pa.Table.from_pylist([{"c": c, **row} for c, commit in enumerate(log.commits) for row in commit], schema)
    connection = duckdb.connect()
    connection.register("ev", ev)
    result = connection.sql(RESULT).to_arrow_table().to_pylist()
    late = connection.sql(LATE).to_arrow_table().to_pylist()
    return as_set(result, COLUMNS), as_set(late, ("k", "v", "ts"))


@on_spark(examples=12)
@given(log=drawn_logs)
def test_spark_the_reference_and_duckdb_agree_under_any_cut_into_epochs(spark: Any, log: Log) -> None:
    on_spark = observed(SparkRunner(lambda: spark), log)
    on_reference = observed(ReferenceRunner(), log.in_one_tick())
    rows_by_oracle, late_by_oracle = oracle(log)
    assert as_set(on_spark.table, COLUMNS) == rows_by_oracle
    assert as_set(on_reference.table, COLUMNS) == rows_by_oracle
    assert late_rows(on_spark) == late_rows(on_reference) == late_by_oracle
    assert len(on_spark.side_output) == len(on_reference.side_output)
    assert on_spark.watermark == on_reference.watermark


@on_spark(examples=4)
@given(log=drawn_logs, seed=st.randoms(use_true_random=False))
def test_the_order_of_rows_within_a_commit_has_no_meaning(spark: Any, log: Log, seed: Any) -> None:
    shuffled = [seed.sample(commit, len(commit)) for commit in log.commits]
    one = observed(SparkRunner(lambda: spark), log)
    other = observed(SparkRunner(lambda: spark), Log(shuffled, log.ticks))
    assert as_set(one.table, COLUMNS) == as_set(other.table, COLUMNS)
    assert late_rows(one) == late_rows(other)


@on_spark(examples=2)
@given(log=drawn_logs)
def test_a_crash_after_any_write_changes_nothing(spark: Any, log: Log) -> None:
    crashed = observed(SparkRunner(lambda: spark, crash=True), log)
    rows_by_oracle, late_by_oracle = oracle(log)
    assert as_set(crashed.table, COLUMNS) == rows_by_oracle
    assert late_rows(crashed) == late_by_oracle
