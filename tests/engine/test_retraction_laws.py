"""The law of retractions: whatever was inserted and taken back, in any order and cut into partials anywhere, the
weighted kernels give what a fresh computation gives over the rows that remain.

As in test_aggregate_laws.py, many groups, all aggregates and one random cut are one Spark job.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, REMAINING_ROWS
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import AggregateCall
from tests.engine.aggregate_calls import (
    FAMILIES,
    KEEP,
    OVERFLOW,
    SCHEMA,
    TYPES,
    Asked,
    a_row,
    by_group,
    fresh,
    in_engine_form,
    the_same,
    through_partials,
)
from tests.laws.examples import on_spark

pytestmark = pytest.mark.spark

Row = dict[str, Any]
CUTS = 6
FOUR_TYPES = ("i", "f", "s", "raw")
CENTRES = {0.0: (0.0, -0.0), 1e9: (1e9,)}
NOT_FINITE = (math.nan, math.inf, -math.inf)


def weighted(call: AggregateCall) -> AggregateCall:
    kernel = call.kernel.weighted
    assert kernel is not None
    return replace(call, kernel=kernel)


# --- rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lot:
    """Equal rows: how many were inserted, and how many of them taken back."""

    row: Row
    inserted: int
    taken: int

    def changes(self, dice: random.Random) -> Iterator[Row]:
        """Insertions and retractions, one by one or several in one row, each in some cut."""
        for sign, left in ((1, self.inserted), (-1, self.taken)):
            while left:
                several = dice.randrange(1, left + 1)
                yield {**self.row, "cut": dice.randrange(CUTS), WEIGHT_COLUMN: sign * several}
                left -= several

    @property
    def remaining(self) -> list[Row]:
        return [self.row] * (self.inserted - self.taken)


def some_lots(dice: random.Random) -> list[Lot]:
    """Groups of which nothing, one row, one value, some or all of what was inserted remains, some with NaN."""
    lots = []
    for group in range(12):
        variety, around = 0 if group == 2 else dice.choice([2, 30]), dice.choice(list(CENTRES))
        for _ in range(1 if group == 1 else dice.randrange(2, 25)):
            row = some_row(dice, group, variety, around)
            inserted = dice.choice([1, 1, 2, 5])
            lots.append(Lot(row, inserted, inserted if group in (1, 4) else dice.randrange(inserted + 1)))
            if group in (5, 6, 7) and dice.random() < 0.3:
                unusual = {
                    "f": dice.choice((*NOT_FINITE, 1e12) if group == 5 else NOT_FINITE),
                    "r": dice.choice(NOT_FINITE),
                }
                lots.append(Lot({**row, **unusual}, 2, 2 if group == 5 else dice.randrange(3)))
    return lots


def some_row(dice: random.Random, group: int, variety: int, around: float) -> Row:
    """Its floats are of one scale, as no sum of floats is to be compared where they are not."""
    row = a_row(dice, variety) if group else dict.fromkeys(TYPES)
    if row["f"] is not None:
        row["f"] = dice.choice([around + dice.randrange(-variety, variety + 1) / 7, *CENTRES[around]])
    kept = False if group == 3 else dice.choice([True, True, False, None])
    return {**row, "g": group, "_t": dice.randrange(5), "_arrival": None, "keep": kept}


# --- the law ---------------------------------------------------------------------------------------------------


def retractable(family: str) -> list[Asked]:
    return [asked for asked in FAMILIES[family] if is_retractable(asked) and not is_like_another(asked)]


def is_retractable(asked: Asked) -> bool:
    return asked.call(0, None).kernel.accepts_retraction


def is_like_another(asked: Asked) -> bool:
    """Kernels that keep values differ by type in nothing but how the values compare: they go over four types here.

    The covariance of numbers up to 2^62 and of small ones has no digits to compare.
    """
    if asked.call(0, None).kernel.retraction == "weight" or asked.name in ("sum", "avg"):
        return False
    return asked.columns == ("b", "e") or (len(asked.columns) == 1 and asked.columns[0] not in FOUR_TYPES)


def test_every_aggregate_that_accepts_retractions_is_under_the_law() -> None:
    taken = {one.name for family in FAMILIES.values() for one in family if is_retractable(one)}
    assert {one.name for family in FAMILIES for one in retractable(family)} == taken


@pytest.mark.parametrize("family", FAMILIES)
@on_spark(2)
@given(seed=st.integers(0, 2**32))
def test_what_remains_gives_the_result_of_a_fresh_computation(spark: Any, family: str, seed: int) -> None:
    """Every other call has a FILTER, which leaves some rows out of each group and all rows out of one."""
    dice = random.Random(seed)
    lots = some_lots(dice)
    asked = retractable(family)
    calls = [weighted(one.call(position, KEEP if position % 2 else None)) for position, one in enumerate(asked)]
    names = [*TYPES, "g", "cut", "_t", "_arrival", "keep", WEIGHT_COLUMN]
    changes = [tuple(change[name] for name in names) for lot in lots for change in lot.changes(dice)]
    frame = spark.createDataFrame(changes, schema=f"{SCHEMA}, {WEIGHT_COLUMN} BIGINT")
    found = by_group(through_partials(frame, calls))
    held = [in_engine_form(row) for lot in lots for row in lot.remaining]
    wrong = []
    for group, results in found.items():
        timed = [(row, row["_t"]) for row in held if row["g"] == group]
        for call, one in zip(calls, asked, strict=True):
            result = OVERFLOW if results[f"{call.id}_overflow"] else results[call.id]
            if not the_same(result, fresh(call, timed)):
                wrong.append((group, one, result, "fresh", fresh(call, timed)))
    assert not wrong, f"{len(wrong)} differ, such as:\n" + "\n".join(map(str, wrong[:8]))


# --- cases -----------------------------------------------------------------------------------------------------

COLUMNS = {
    "i": t.INT,
    "b": t.BIGINT,
    "f": t.DOUBLE,
    "s": t.STRING,
    "u": t.BOOLEAN,
    "whole": t.decimal(38, 0),
    "mixed": t.decimal(38, 18),
    "small": t.decimal(38, 38),
}
LARGEST, NINES = 2**63 - 1, Decimal("9" * 38)
LONG, TINY = Decimal("9.999999999999999999"), Decimal("1e-38")


@dataclass(frozen=True)
class Case:
    """An aggregate over a column, and values with weights, those of each list in one partial, in this order."""

    name: str
    column: str
    partials: tuple[list[tuple[Any, int]], ...]
    expected: Any
    distinct: bool = False

    def call(self, position: int) -> AggregateCall:
        if not self.column:
            return AggregateCall(f"a{position}", REMAINING_ROWS, (), None, "COUNT(*)")
        kernel = AGGREGATES[self.name].kernel(COLUMNS[self.column], distinct=self.distinct)
        argument = Column(self.column, COLUMNS[self.column])
        return weighted(AggregateCall(f"a{position}", kernel, (argument,), None, self.name, self.distinct))

    def rows(self, group: int) -> Iterator[tuple[Any, ...]]:
        for cut, values in enumerate(self.partials):
            for value, weight in values:
                shown = [value if name == self.column else None for name in COLUMNS]
                yield (*shown, group, cut, 0, weight)


CASES = {
    "the greatest value goes": Case("max", "i", ([(3, 1), (9, 1)], [(9, -1)]), 3),
    "one of two greatest values goes": Case("max", "i", ([(3, 1), (9, 2)], [(9, -1)]), 9),
    "the least value goes": Case("min", "s", ([("a", 1), ("b", 1)], [("a", -1)]), "b"),
    "a retraction is there before its row": Case("max", "i", ([(9, -1)], [(7, 1)], [(9, 1)]), 7),
    "a retraction is summed before its row": Case("sum", "i", ([(9, -1)], [(7, 1)], [(9, 1)]), 7),
    "an infinity goes": Case("sum", "f", ([(1.5, 1), (math.inf, 1)], [(math.inf, -1)]), 1.5),
    "one of two infinities goes": Case("sum", "f", ([(math.inf, 1), (-math.inf, 1)], [(math.inf, -1)]), -math.inf),
    "a NaN goes": Case("avg", "f", ([(1.5, 1), (math.nan, 1), (2.5, 1)], [(math.nan, -1)]), 2.0),
    "a NaN stays": Case("avg", "f", ([(1.5, 1), (math.nan, 2), (2.5, 1)], [(math.nan, -1)]), math.nan),
    "a value much larger than the rest goes": Case("sum", "f", ([(0.1, 1), (1e15 + 0.5, 1)], [(1e15 + 0.5, -1)]), 0.1),
    "a deviation loses what set it apart": Case("stddev", "f", ([(0.1, 3), (1e9, 1)], [(1e9, -1)]), 0.0),
    "all floats go": Case("sum", "f", ([(0.1, 1), (0.2, 1), (0.3, 1)], [(0.3, -1), (0.1, -1), (0.2, -1)]), None),
    "all are gone from a mean": Case("avg", "b", ([(1, 1)], [(1, -1)]), None),
    "all are gone from a deviation": Case("stddev_pop", "f", ([(1.0, 1)], [(1.0, -1)]), None),
    "all are gone from a count": Case("count", "s", ([("a", 1)], [("a", -1)]), 0),
    "all are gone from an array": Case("array_agg", "s", ([("a", 1)], [("a", -1)]), []),
    "all are gone from a text": Case("string_agg", "s", ([("a", 1)], [("a", -1)]), None),
    "no row remains": Case("count", "", ([(None, 1), (None, 2)], [(None, -3)]), 0),
    "two rows remain": Case("count", "", ([(None, 1), (None, 2)], [(None, -1)]), 2),
    "a total is too large": Case("sum", "b", ([(LARGEST, 1)], [(LARGEST, 1)]), OVERFLOW),
    "a total is no longer too large": Case("sum", "b", ([(LARGEST, 2)], [(LARGEST, -1)]), LARGEST),
    "a total is too small before its rows come": Case("sum", "b", ([(-LARGEST, -2)], [(-LARGEST, 3)]), -LARGEST),
    "the low halves of more than 2^31 rows are too large": Case(
        "sum", "b", ([(2**32 - 1, 2**31)], [(2**32 - 1, 1)]), OVERFLOW
    ),
    "a total of more than 2^31 rows fits": Case(
        "sum", "b", ([(2**32 - 1, 2**31)], [(2**32 - 1, 2**31)], [(-(2**32), 2**32 - 5)]), 2**34
    ),
    "an array would have more elements than one can have": Case("array_agg", "s", ([("a", 2**31)],), OVERFLOW),
    "a text would be made of more values than an array can have": Case("string_agg", "s", ([("a", 2**31)],), OVERFLOW),
    "a decimal total is too large": Case("sum", "whole", ([(NINES, 1)], [(NINES, 1)]), OVERFLOW),
    "a decimal total is no longer too large": Case("sum", "whole", ([(NINES, 3)], [(NINES, -2)]), NINES),
    "all decimals are there": Case(
        "sum", "mixed", ([(LONG, 3)], [(LONG * 10, 1), (LONG * 10, -1)]), Decimal("29.999999999999999997")
    ),
    "also those far behind the point": Case(
        "sum", "small", ([(TINY, 5)], [(TINY, -2)], [(-TINY, 1)]), Decimal("2e-38")
    ),
    "a distinct value stays while one is there": Case("count", "i", ([(1, 2), (2, 1)], [(1, -1), (2, -1)]), 1, True),
    "a distinct total has its values once": Case("sum", "b", ([(LARGEST, 5), (1, 1)], [(1, -1)]), LARGEST, True),
    "what is true of the rest": Case("bool_and", "u", ([(True, 2), (False, 1)], [(False, -1)]), True),
    "bits that cancel out": Case("bit_xor", "i", ([(5, 2), (6, 1)], [(5, -1), (5, -1), (3, 2)]), 6),
    "bits of what is there": Case("bit_or", "i", ([(5, 1), (8, 1)], [(8, -1)]), 5),
    "values repeat as often as they are there": Case("array_agg", "s", ([("a", 3)], [("a", -1)]), ["a", "a"]),
    "the most frequent value is no more": Case("mode", "s", ([("a", 3), ("b", 2)], [("a", -2)]), "b"),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: Any) -> dict[int, dict[str, Any]]:
    """All cases at once, each in a group of its own."""
    rows = [row for group, case in enumerate(CASES.values()) for row in case.rows(group)]
    schema = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    frame = spark.createDataFrame(rows, schema=f"{schema}, g INT, cut INT, _t BIGINT, {WEIGHT_COLUMN} BIGINT")
    return by_group(through_partials(frame, [case.call(group) for group, case in enumerate(CASES.values())]))


@pytest.mark.parametrize("title", CASES)
def test_a_retraction_leaves_what_a_fresh_computation_gives(results: dict[int, dict[str, Any]], title: str) -> None:
    group = list(CASES).index(title)
    found = results[group]
    result = OVERFLOW if found[f"a{group}_overflow"] else found[f"a{group}"]
    assert the_same(result, CASES[title].expected), result
