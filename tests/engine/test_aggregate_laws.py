"""The law of every aggregate: rows cut into partials anywhere, merged in any order, give what one computation gives.

Many groups, all aggregates and one random cut are one Spark job; what it gives is held against the plain meaning (the
kernel's `fresh`) and, where Spark has the same aggregate, against Spark's own over the whole group.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.conformance.values import engine_value
from laminar_dagster.engine import compaction
from laminar_dagster.engine.partials import argument_columns, merge_expressions, partial_expressions
from laminar_dagster.plan.plan import Plan, layout_of, partial_column
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, Distinct, Ordering
from laminar_dagster.semantics.aggregates.sketches import HLL_ERROR, KLL_K, kll_error
from laminar_dagster.semantics.expressions import Column, Expression, RowError
from laminar_dagster.semantics.grouping import argument_values
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.semantics.time import SECOND, from_iso
from tests.semantics.queries import view

pytestmark = pytest.mark.spark

TYPES = {
    "i": t.INT,
    "b": t.BIGINT,
    "d": t.decimal(12, 2),
    "e": t.decimal(18, 10),
    "w": t.decimal(30, 4),
    "f": t.DOUBLE,
    "r": t.DataType("FLOAT"),
    "s": t.STRING,
    "u": t.BOOLEAN,
    "at": t.TIMESTAMP,
    "day": t.DATE,
    "raw": t.DataType("BINARY"),
}
KEEP = Column("keep", t.BOOLEAN)
DESC, LAST = Ordering(descending=True, nulls_first=False), Ordering(nulls_first=False)


@dataclass(frozen=True)
class Asked:
    """A call over the columns above; `own` is Spark's aggregate that means the same, if it has one."""

    name: str
    columns: tuple[str, ...]
    constants: tuple[Any, ...] = ()
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    own: str | None = None

    def call(self, position: int, condition: Expression | None) -> AggregateCall:
        types = [TYPES[column] for column in self.columns]
        kernel = AGGREGATES[self.name].kernel(
            *types, constants=self.constants, distinct=self.distinct, order=self.order
        )
        arguments = tuple(Column(column, TYPES[column]) for column in self.columns)
        return AggregateCall(f"a{position}", kernel, arguments, condition, str(self), self.distinct)


def over(name: str, columns: str, *, own: str | None = None, **more: Any) -> list[Asked]:
    """The aggregate over each column, with Spark's aggregate of the same name as oracle."""
    quantified = "DISTINCT " if more.get("distinct") else ""
    written = f"{own or name}({quantified}{{}})" if own != "" else None
    return [Asked(name, (c,), own=written.format(c) if written else None, **more) for c in columns.split()]


SKETCHED = 60_000
NUMBERS, ALL = "i b d e w f r", "i b d e w f r s u at day raw"
EXACT = [
    Asked("count", (), own="count(*)"),
    *over("count", ALL),
    *over("count", "i f", distinct=True),
    *(Asked("count", (c,), distinct=True, own=f"size(collect_set({c}))") for c in ("b", "d", "s", "u", "at", "raw")),
    Asked("count", ("i", "s"), distinct=True),
    Asked("count", ("f", "r", "u"), distinct=True, own="count(DISTINCT f, r, u)"),
    # Spark's own totals of BIGINT wrap, and its mean of them is rounded on the way: no oracle.
    *over("sum", "b", own=""),
    *over("sum", "i d e w f r", own="try_sum"),
    *over("sum", "i b d e w f", own="", distinct=True),
    *over("avg", "b", own=""),
    *over("avg", "i d e w f r"),
    *over("avg", "i b d e w f", own="", distinct=True),
]
MOMENTS = [
    *(asked for name in ("stddev", "var_pop") for asked in over(name, NUMBERS)),
    *(asked for name in ("stddev_samp", "stddev_pop", "variance", "var_samp") for asked in over(name, "d f")),
    *(
        Asked(name, columns, own=f"{name}({', '.join(columns)})")
        for name in ("covar_samp", "covar_pop", "corr")
        for columns in (("f", "i"), ("d", "r"), ("b", "e"))
    ),
]
CHOICES = [
    *over("min", ALL),
    *over("max", ALL),
    *over("any_value", ALL, own="min"),
    *(Asked("first", (c,), own=f"min_by({c}, struct(_t, {c}))") for c in ALL.split()),
    *(Asked("last", (c,), own=f"max_by({c}, struct(_t, {c}))") for c in ALL.split()),
    *(Asked("min_by", (x, y), own=f"min(CASE WHEN {y} IS NOT NULL THEN struct({y}, {x} AS v) END).v")
      for x, y in (("s", "i"), ("i", "f"), ("at", "day"), ("raw", "s"))),
    *(Asked("max_by", (x, y), own=f"max(CASE WHEN {y} IS NOT NULL THEN struct({y}, {x} AS v) END).v")
      for x, y in (("s", "i"), ("i", "f"), ("at", "day"), ("raw", "s"))),
    *over("bool_and", "u"),
    *over("bool_or", "u"),
    *(asked for name in ("bit_and", "bit_or", "bit_xor") for asked in over(name, "i b")),
]  # fmt: skip
COLLECTED = [
    *over("array_agg", ALL, own=""),
    *over("array_agg", ALL, own="", distinct=True),
    *(Asked("collect_set", (c,), own=f"sort_array(collect_set({c}))") for c in ALL.split()),
    Asked("collect_list", ("s", "i"), order=(DESC,)),
    Asked("collect_list", ("s", "f", "u"), order=(LAST, DESC)),
    Asked("array_agg", ("s",), order=(DESC,), distinct=True, own="sort_array(collect_set(s), false)"),
    Asked("string_agg", ("s",), (" {and} ",)),
    Asked("string_agg", ("s",), ("', ",), distinct=True),
    Asked("listagg", ("s", "s"), (",",), order=(Ordering(),), own="listagg(s, ',') WITHIN GROUP (ORDER BY s)"),
    Asked("listagg", ("s", "day"), order=(DESC,)),
    *over("mode", "i d f s u at raw", own=""),
    *over("histogram", "i d f s day raw", own=""),
    *over("histogram", "i d f r", own="", constants=(4,)),
    *over("approx_count_distinct", ALL, own=""),
    *(
        Asked(name, (c,), (p, None), own=None if c in "fr" else f"percentile_approx({c}, {p})")
        for name in ("approx_percentile", "percentile_approx")
        for c, p in (("i", 0.3), ("b", 0.0), ("d", 0.3), ("e", 1.0), ("f", 0.3), ("r", 0.0), ("at", 0.9), ("day", 0.5))
    ),
    *(Asked("median", (c,), own=None if c in "fr" else f"median({c})") for c in ["i", "b", "d", "e", "f", "r"]),
]
FAMILIES = {"exact": EXACT, "moments": MOMENTS, "choices": CHOICES, "collected": COLLECTED}


def test_every_aggregate_and_every_distinct_one_is_under_the_law() -> None:
    asked = [one for family in FAMILIES.values() for one in family]
    own = {name for name, aggregate in AGGREGATES.items() if aggregate.distinct is Distinct.OWN}
    assert {one.name for one in asked} == set(AGGREGATES)
    assert {one.name for one in asked if one.distinct} | {"collect_list", "listagg"} == own


# --- rows ------------------------------------------------------------------------------------------------------


def a_row(dice: random.Random, variety: int) -> dict[str, Any]:
    """A row of small variety, so that values repeat, with a NULL here and there."""
    n = dice.randrange(-variety, variety + 1)
    values = {
        "i": n,
        "b": dice.choice([n, n * 2**55, 2**62, -(2**62)]),
        "d": Decimal(n) / 4,
        "e": Decimal(n) / 10**10 + n,
        "w": Decimal(n) * 10**24,
        "f": dice.choice([n / 3, 1e9 + n / 7, -0.0, 0.0]),
        "r": n / 4,
        "s": dice.choice(["", "a'{b}", f"s{n}", "é"]),
        "u": n > 0,
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
        "day": date(2026, 1, 1) + timedelta(days=n),
        "raw": bytes([n % 256]) * (n % 3),
    }
    return {name: None if dice.random() < 0.15 else value for name, value in values.items()}


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
            rows.append({**row, "g": group, "cut": dice.randrange(6), "_t": dice.randrange(20),
                         "keep": False if group == 3 else dice.choice([True, True, False, None])})  # fmt: skip
    return rows


SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()) + ", g INT, cut INT, _t BIGINT, keep BOOLEAN"


# --- the law ---------------------------------------------------------------------------------------------------


def aggregated(frame: Any, keys: Sequence[str], results: Mapping[str, str]) -> Any:
    from pyspark.sql.functions import expr

    return frame.groupBy(*keys).agg(*(expr(sql).alias(name) for name, sql in results.items()))


def through_partials(frame: Any, calls: Sequence[AggregateCall]) -> Any:
    """One partial for each cut; three cuts are merged first, as compaction does, and then all that is left."""
    query = replace(view(), aggregates=tuple(calls))
    plan = Plan(query, layout_of(query))
    prepared = frame.selectExpr("g", "cut", *(column for call in calls for column in argument_columns(call)))
    partials = aggregated(prepared, ["g", "cut"], partial_expressions(plan))
    some = partials.selectExpr("g", "if(cut < 3, -1, cut) AS cut", "* EXCEPT (g, cut)")
    compacted = aggregated(some, ["g", "cut"], merge_expressions(plan))
    assert types_of(compacted) == types_of(partials)
    return aggregated(compacted, ["g"], merge_expressions(plan)).selectExpr(
        "g", *(c for call in calls for c in finished(call))
    )


def types_of(frame: Any) -> dict[str, str]:
    return {name: kind for name, kind in frame.dtypes if name not in ("g", "cut")}


def finished(call: AggregateCall) -> list[str]:
    names = {partial.name: partial_column(call.id, partial.name) for partial in call.kernel.partials}
    overflow = (call.kernel.overflow or "false").format(**names)
    return [f"{call.kernel.finish.format(**names)} AS {call.id}", f"{overflow} AS {call.id}_overflow"]


def by_group(frame: Any) -> dict[int, dict[str, Any]]:
    return {row["g"]: in_engine_form(row) for row in frame.toArrow().to_pylist()}


def in_engine_form(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_engine_form(part) for name, part in value.items()}
    return [in_engine_form(part) for part in value] if isinstance(value, list) else engine_value(value)


def the_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(the_same, found, expected))
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(the_same(found[name], part) for name, part in expected.items())
    if isinstance(expected, float) and isinstance(found, float):
        both_nan = math.isnan(found) and math.isnan(expected)
        return both_nan or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


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
        timed = [(row, row["_t"]) for row in held if row["g"] == group]
        for call in calls:
            result = OVERFLOW if results[f"{call.id}_overflow"] else results[call.id]
            whole = (own if call.filter is None else own_filtered).get(group, {})
            if not the_same(result, fresh(call, timed)):
                wrong.append((group, asked[call.id], result, "fresh", fresh(call, timed)))
            if call.id in whole and not the_same(None if result is OVERFLOW else result, whole[call.id]):
                wrong.append((group, asked[call.id], result, "Spark", whole[call.id]))
    assert not wrong, f"{len(wrong)} differ, such as:\n" + "\n".join(map(str, wrong[:8]))


OVERFLOW = "overflow"


def by_spark(frame: Any, calls: Sequence[AggregateCall], asked: Mapping[str, Asked]) -> dict[int, dict[str, Any]]:
    """Spark's own aggregates over the whole groups."""
    return by_group(aggregated(frame, ["g"], {c.id: sql for c in calls if (sql := asked[c.id].own)}))


def fresh(call: AggregateCall, timed: Iterable[tuple[Mapping[str, Any], int]]) -> Any:
    try:
        return call.kernel.fresh(argument_values(call, timed))
    except RowError as trouble:
        return trouble.reason


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
def test_all_of_them_come_through_epochs_and_a_compaction_unchanged(
    spark: Any, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    monkeypatch.setattr(compaction, "FILES_PER_BUCKET", 2)
    commits = some_commits(random.Random(7))
    tables: list[dict[Any, dict[str, Any]]] = []
    aside: list[int] = []
    for runner, ticks in ((SparkRunner(lambda: spark), True), (ReferenceRunner(), False)):
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
