"""The law of every aggregate: rows cut into partials anywhere, merged in any order, give what one computation gives.

Many groups, all aggregates and one random cut are one Spark job; what it gives is held against the plain meaning (the
kernel's `fresh`) and, where Spark has the same aggregate, against Spark's own over the whole group.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.aggregates import AGGREGATES, Distinct
from laminar_dagster.semantics.aggregates.sketches import HLL_ERROR, KLL_K, kll_error
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.semantics.time import SECOND, from_iso
from state_store import MaintenancePolicy
from tests.engine.aggregate_calls import (
    FAMILIES,
    KEEP,
    OVERFLOW,
    SCHEMA,
    TYPES,
    Asked,
    a_row,
    aggregated,
    by_group,
    fresh,
    in_engine_form,
    over,
    the_same,
    through_partials,
)

pytestmark = pytest.mark.spark

SKETCHED = 60_000


def test_every_aggregate_and_every_distinct_one_is_under_the_law() -> None:
    asked = [one for family in FAMILIES.values() for one in family]
    own = {name for name, aggregate in AGGREGATES.items() if aggregate.distinct is Distinct.OWN}
    assert {one.name for one in asked} == set(AGGREGATES)
    assert {one.name for one in asked if one.distinct} | {"collect_list", "listagg"} == own


# --- rows ------------------------------------------------------------------------------------------------------


def the_rows() -> list[dict[str, Any]]:
    """Groups of all sizes: empty of values, of one row, of one value, left out by FILTER, and with NaN."""
    dice = random.Random(4)
    rows = []
    for group in range(14):
        size, variety = (
            (1, 9) if group == 1 else (40, 0) if group == 2 else (dice.randrange(2, 60), dice.choice([2, 30]))
        )
        for _ in range(size):
            row = a_row(dice, variety) if group else dict.fromkeys(TYPES)
            if group == 5 and dice.random() < 0.2:
                row |= {"f": math.nan, "r": dice.choice([math.nan, math.inf])}
            rows.append({**row, "g": group, "cut": dice.randrange(6), "_t": dice.randrange(20), "_arrival": len(rows),
                         "keep": False if group == 3 else dice.choice([True, True, False, None])})  # fmt: skip
    return rows


# --- the law ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_any_cut_into_partials_gives_the_result_of_the_whole(spark: Any, family: str) -> None:
    """Every other call has a FILTER, which leaves some rows out of each group and all rows out of one."""
    rows = the_rows()
    asked = {f"a{position}": one for position, one in enumerate(FAMILIES[family])}
    calls = [one.call(position, KEEP if position % 2 else None) for position, one in enumerate(asked.values())]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema=SCHEMA)
    found = by_group(through_partials(frame, calls))
    own = by_spark(frame, [call for call in calls if call.filter is None], asked)
    own_filtered = by_spark(frame.filter("keep"), [call for call in calls if call.filter is not None], asked)
    held = [in_engine_form(row) for row in rows]
    wrong = []
    for group, results in found.items():
        timed = [(row, (row["_t"], row["_arrival"])) for row in held if row["g"] == group]
        for call in calls:
            result = OVERFLOW if results[f"{call.id}_overflow"] else results[call.id]
            whole = (own if call.filter is None else own_filtered).get(group, {})
            if not the_same(result, fresh(call, timed)):
                wrong.append((group, asked[call.id], result, "fresh", fresh(call, timed)))
            if call.id in whole and not the_same(None if result is OVERFLOW else result, whole[call.id]):
                wrong.append((group, asked[call.id], result, "Spark", whole[call.id]))
    assert not wrong, f"{len(wrong)} differ, such as:\n" + "\n".join(map(str, wrong[:8]))


def by_spark(frame: Any, calls: Sequence[AggregateCall], asked: Mapping[str, Asked]) -> dict[int, dict[str, Any]]:
    """Spark's own aggregates over the whole groups."""
    return by_group(aggregated(frame, ["g"], {c.id: sql for c in calls if (sql := asked[c.id].own)}))


# --- sketches --------------------------------------------------------------------------------------------------


def test_a_sketch_of_many_values_is_within_its_stated_error(spark: Any) -> None:
    """Values 0 … n - 1, shuffled by a multiplication, so that the true count and every rank are known."""
    columns = [f"CAST((id * 7919) % {SKETCHED} AS INT) AS i", f"((id * 7919) % {SKETCHED}) / 2D AS f"]
    columns += [f"CAST((id * 7919) % {SKETCHED} AS STRING) AS s", "0 AS g", "CAST(rand(1) * 12 AS INT) AS cut"]
    asked = [
        *over("approx_count_distinct", "i f s"),
        *(Asked("approx_percentile", ("i",), (p, None)) for p in (0.01, 0.5, 0.99)),
        Asked("approx_percentile", ("i",), (0.5, 1000)),
        *over("median", "i f"),
    ]
    calls = [one.call(position, None) for position, one in enumerate(asked)]
    frame = spark.range(SKETCHED).selectExpr(*columns)
    found = by_group(through_partials(frame, calls))[0]
    counts, ranks = [found[f"a{p}"] / SKETCHED for p in range(3)], [found[f"a{p}"] / SKETCHED for p in range(3, 9)]
    assert all(abs(count - 1) < 4 * HLL_ERROR for count in counts), counts
    ranks[-1] *= 2
    errors = [abs(rank - p) for rank, p in zip(ranks, (0.01, 0.5, 0.99, 0.5, 0.5, 0.5), strict=True)]
    assert errors[3] < 2 / 1000, errors
    assert all(error < 2 * kll_error(KLL_K) for error in errors), errors


# --- through the engine ----------------------------------------------------------------------------------------

NOON = from_iso("2026-01-01T12:00:00Z")
VIEW = """
CREATE SOURCE ev (k STRING, i INT, d DECIMAL(10,2), f DOUBLE, s STRING, u BOOLEAN, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, COUNT(DISTINCT i) AS di, COUNT(DISTINCT i, s) AS dis, SUM(DISTINCT d) AS sd,
    AVG(DISTINCT f) AS af, STDDEV(f) AS sf, VAR_POP(d) AS vd, COVAR_SAMP(f, i) AS cv, CORR(i, f) AS co,
    EVERY(u) AS al, SOME(u) AS an, BIT_XOR(i) AS bx, FIRST(s) AS fs, LAST(i) FILTER (WHERE u) AS li, MIN_BY(s, f) AS mb,
    MAX_BY(s, i) AS xb, ANY_VALUE(s) AS av, ARRAY_AGG(s ORDER BY i DESC, s) AS ag, COLLECT_SET(i) AS cs,
    COLLECT_LIST(i) AS cl, LISTAGG(s, '; ') WITHIN GROUP (ORDER BY f) FILTER (WHERE i > 1) AS ls,
    STRING_AGG(DISTINCT s, '|') AS sa, APPROX_COUNT_DISTINCT(s) AS ac, PERCENTILE_APPROX(i, 0.5) AS pi,
    MEDIAN(f) AS mf, MODE(i) AS mo, HISTOGRAM(s) AS hs,
    HISTOGRAM(f, 3) FILTER (WHERE u OR i = 1) AS hf, MIN(DISTINCT d) AS md,
    MIN_BY(ts, i) AS mt, COLLECT_SET(ts) AS ct, MODE(CAST(ts AS DATE)) AS mt2, APPROX_PERCENTILE(ts, 0.5) AS pt,
    COVAR_POP(f, 12 / i) FILTER (WHERE u) AS cf
FROM {window}
GROUP BY window_start, window_end, k
EMIT ON WINDOW CLOSE;
"""


def some_commits(dice: random.Random) -> list[list[dict[str, Any]]]:
    """Four commits to two groups of one minute, then one that closes it. Some rows divide by zero."""

    def values() -> dict[str, Any]:
        return {
            "k": dice.choice("ab"),
            "i": dice.choice([None, 0, 1, 2, 3, 4]),
            "d": Decimal(dice.randrange(9)) / 4,
            "f": dice.choice([None, 0.1, 2.5, -7.0]),
            "s": dice.choice([None, "x", "y", "z"]),
            "u": dice.choice([True, False, None]),
        }

    early = [[{**values(), "ts": NOON + dice.randrange(50) * SECOND} for _ in range(10)] for _ in range(4)]
    return [*early, [{**values(), "ts": NOON + 600 * SECOND}]]


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(ev, ts, INTERVAL '1' MINUTE)",
        "HOP(ev, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)",
        "SESSION(ev, ts, INTERVAL '1' MINUTE)",
    ],
)
def test_all_of_them_come_through_epochs_and_a_compaction_unchanged(spark: Any, window: str) -> None:
    eager = MaintenancePolicy(files_per_bucket=2)
    commits = some_commits(random.Random(7))
    tables: list[dict[Any, dict[str, Any]]] = []
    aside: list[int] = []
    for runner, ticks in ((SparkRunner(lambda: spark, maintenance=eager), True), (ReferenceRunner(), False)):
        runner.open(VIEW.format(window=window))
        for commit in commits:
            runner.commit("ev", commit)
            if ticks:
                runner.tick(None)
        runner.tick(None)
        seen = runner.observe("out")
        aside.append(len(seen.side_output))
        rows = [in_engine_form(dict(row)) for row in seen.table]
        tables.append({(row["window_start"], row["k"]): row for row in rows})
        runner.close()
    found, expected = tables
    assert sorted(found) == sorted(expected)
    assert len(found) >= 2
    assert aside[0] == aside[1] > 0
    differ = {
        (key, name): (found[key][name], value)
        for key, row in expected.items()
        for name, value in row.items()
        if not the_same(found[key][name], value)
    }
    assert not differ
