from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.expressions import RowError
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.types import DataType

MAX = 2**63 - 1
WIRED = [name for name, aggregate in AGGREGATES.items() if aggregate.wired]


def fresh(name: str, type_: DataType | None, *values: Any) -> Any:
    return AGGREGATES[name].kernel(type_).fresh(values)


def test_count_skips_null_and_is_zero_of_nothing() -> None:
    assert fresh("count", t.STRING, "a", None, "b") == 2
    assert fresh("count", t.STRING) == 0


@pytest.mark.parametrize("name", [name for name in WIRED if name != "count"])
def test_every_other_aggregate_of_nothing_is_null(name: str) -> None:
    assert fresh(name, t.BIGINT) is None
    assert fresh(name, t.BIGINT, None, None) is None


def test_a_sum_that_does_not_fit_is_an_error_and_one_that_comes_back_is_not() -> None:
    with pytest.raises(RowError, match="overflow"):
        fresh("sum", t.BIGINT, MAX, 1)
    assert fresh("sum", t.BIGINT, MAX, 1, -1) == MAX


def test_decimals_are_summed_and_averaged_exactly() -> None:
    cents = [Decimal("0.10")] * 3
    assert fresh("sum", t.decimal(12, 2), *cents) == Decimal("0.30")
    assert fresh("avg", t.decimal(12, 2), Decimal("0.10"), Decimal("0.10"), Decimal("0.11")) == Decimal("0.103333")
    assert AGGREGATES["sum"].kernel(t.decimal(12, 2)).result == t.decimal(22, 2)
    assert AGGREGATES["avg"].kernel(t.decimal(12, 2)).result == t.decimal(16, 6)


def test_a_decimal_total_beyond_38_digits_is_an_error() -> None:
    widest = Decimal("9" * 38)
    assert fresh("sum", t.decimal(38, 0), widest) == widest
    with pytest.raises(RowError, match="overflow"):
        fresh("sum", t.decimal(38, 0), widest, Decimal(1))


def test_an_average_of_integers_is_a_double_and_cannot_overflow() -> None:
    assert fresh("avg", t.BIGINT, 1, 2) == 1.5
    assert fresh("avg", t.BIGINT, MAX, MAX) == float(MAX)


def test_nan_is_the_greatest_value() -> None:
    assert math.isnan(fresh("max", t.DOUBLE, math.nan, 1.0))
    assert fresh("min", t.DOUBLE, math.nan, 1.0) == 1.0


@given(st.lists(st.integers(-(2**63), MAX)))
def test_a_sum_is_exact_or_an_error(values: list[int]) -> None:
    total = sum(values)
    if not values:
        assert fresh("sum", t.BIGINT) is None
    elif -(2**63) <= total <= MAX:
        assert fresh("sum", t.BIGINT, *values) == total
    else:
        with pytest.raises(RowError):
            fresh("sum", t.BIGINT, *values)


@pytest.mark.parametrize("name", ["sum", "avg"])
def test_only_numbers_can_be_summed(name: str) -> None:
    with pytest.raises(ArgumentTypeError):
        AGGREGATES[name].kernel(t.STRING)


@pytest.mark.parametrize("name", WIRED)
def test_what_is_wired_can_take_a_retraction_and_says_how(name: str) -> None:
    kernel = AGGREGATES[name].kernel(t.BIGINT)
    assert kernel.accepts_retraction
    assert all(partial.make and partial.merge for partial in kernel.partials)
