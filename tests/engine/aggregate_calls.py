"""Calls of every aggregate over one set of columns, and the way through partials: what the laws of aggregates share."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from laminar_dagster.conformance.values import engine_value
from laminar_dagster.engine.partials import argument_columns, merge_expressions, partial_expressions
from laminar_dagster.plan.plan import UPDATED_AT, WEIGHT_COLUMN, Plan, layout_of, partial_column
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, Ordering
from laminar_dagster.semantics.expressions import Column, Expression, RowError
from laminar_dagster.semantics.grouping import argument_values
from laminar_dagster.semantics.query import AggregateCall
from tests.semantics.queries import view

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
    *(Asked("first", (c,), own=f"min_by({c}, struct(_t, _arrival, {c}))") for c in ALL.split()),
    *(Asked("last", (c,), own=f"max_by({c}, struct(_t, _arrival, {c}))") for c in ALL.split()),
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


# --- rows ----------------------------------------------------------------------------------------------------


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


SCHEMA = (
    ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    + ", g INT, cut INT, _t BIGINT, _arrival BIGINT, keep BOOLEAN"
)


# --- through partials ----------------------------------------------------------------------------------------


OVERFLOW = "overflow"


def aggregated(frame: Any, keys: Sequence[str], results: Mapping[str, str]) -> Any:
    from pyspark.sql.functions import expr

    return frame.groupBy(*keys).agg(*(expr(sql).alias(name) for name, sql in results.items()))


def through_partials(frame: Any, calls: Sequence[AggregateCall]) -> Any:
    """One partial for each cut; three cuts are merged first, as compaction does, and then all that is left."""
    query = replace(view(), aggregates=tuple(calls))
    plan = Plan(query, layout_of(query))
    weight = [WEIGHT_COLUMN] if WEIGHT_COLUMN in frame.columns else []
    prepared = frame.selectExpr("g", "cut", *weight, *(column for call in calls for column in argument_columns(call)))
    made = aggregated(prepared, ["g", "cut"], partial_expressions(plan))
    partials = made.selectExpr("*", f"CAST(cut AS BIGINT) AS {UPDATED_AT}")
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


def fresh(call: AggregateCall, timed: Iterable[tuple[Mapping[str, Any], int]]) -> Any:
    try:
        return call.kernel.fresh(argument_values(call, timed))
    except RowError as trouble:
        return trouble.reason
