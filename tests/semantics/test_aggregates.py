from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import (
    AGGREGATES,
    REMAINING_ROWS,
    SYNONYMS,
    Distinct,
    Kernel,
    Ordering,
    aggregate_called,
)
from laminar_dagster.semantics.aggregates.sketches import rank
from laminar_dagster.semantics.expressions import Literal, RowError
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.types import DataType

MAX = 2**63 - 1
TAKES = {
    **dict.fromkeys(("bool_and", "bool_or"), t.BOOLEAN),
    **dict.fromkeys(("string_agg", "listagg"), t.STRING),
}
CONSTANTS = {"approx_percentile": (0.5,), "percentile_approx": (0.5,)}
ARRAYS = ("array_agg", "collect_list", "collect_set")
COUNTS = ("count", "approx_count_distinct")
CANNOT_RETRACT = {"approx_count_distinct", "approx_percentile", "percentile_approx", "median"}
BY_WEIGHT = {"count", "sum", "avg", "bool_and", "bool_or", "bit_xor"}


def some_kernel(name: str, **more: Any) -> Kernel:
    types = [TAKES.get(name, t.BIGINT)] * AGGREGATES[name].arguments
    return AGGREGATES[name].kernel(*types, constants=CONSTANTS.get(name, ()), **more)


def fresh(name: str, type_: DataType, *values: Any, **more: Any) -> Any:
    return AGGREGATES[name].kernel(*[type_] * AGGREGATES[name].arguments, **more).fresh(values)


def distinct(name: str, type_: DataType, *values: Any) -> Any:
    return fresh(name, type_, *values, distinct=True)


def nothing(kernel: Kernel) -> list[Any]:
    """Two rows that hold no value for the aggregate to see."""
    row = (None,) * len(kernel.arguments) + ((7,) if "t" in kernel.inputs else ())
    return [row[0] if len(row) == 1 else row] * 2


# --- all of them ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGGREGATES)
def test_over_no_value_a_count_is_zero_an_array_is_empty_and_all_else_is_null(name: str) -> None:
    kernel = some_kernel(name)
    expected = [] if name in ARRAYS else 0 if name in COUNTS else None
    assert kernel.fresh([]) == expected
    assert kernel.fresh(nothing(kernel)) == expected


@pytest.mark.parametrize("name", AGGREGATES)
def test_templates_speak_of_nothing_but_a_row_and_of_the_aggregate_s_own_columns(name: str) -> None:
    plain = [some_kernel(name), some_kernel(name, distinct=True)]
    for kernel in (*plain, *(kernel.weighted for kernel in plain if kernel.weighted is not None)):
        columns = {partial.name: "c" for partial in kernel.partials}
        assert kernel.mentions <= {"x", "y", "t", "keep", *("w" if kernel not in plain else "")}
        assert all(partial.merge.format(p="c", **columns) for partial in kernel.partials)
        assert kernel.finish.format(**columns)
        assert (kernel.overflow or "").format(**columns) is not None
        assert kernel.aggregate == name


def test_the_aggregates_that_cannot_retract_say_so() -> None:
    assert {name for name in AGGREGATES if not some_kernel(name).accepts_retraction} == CANNOT_RETRACT
    assert {name for name in AGGREGATES if some_kernel(name).weighted is None} == CANNOT_RETRACT


def test_the_aggregates_that_retract_by_weight_alone_do_not_grow_over_it() -> None:
    kernels = {name: some_kernel(name) for name in AGGREGATES}
    assert {name for name, kernel in kernels.items() if kernel.retraction == "weight"} == BY_WEIGHT
    steady = {name for name, kernel in kernels.items() if kernel.weighted and kernel.weighted.grows is None}
    assert steady == BY_WEIGHT


@pytest.mark.parametrize("name", sorted(set(AGGREGATES) - CANNOT_RETRACT))
def test_a_weighted_kernel_is_the_same_aggregate_over_rows_with_weights(name: str) -> None:
    for kernel in (some_kernel(name), some_kernel(name, distinct=True)):
        weighted = kernel.weighted
        assert weighted is not None
        assert weighted.mentions >= {"w"}
        assert weighted.inputs == kernel.inputs
        assert weighted.retraction == kernel.retraction
        assert (weighted.arguments, weighted.result, weighted.fresh) == (kernel.arguments, kernel.result, kernel.fresh)
        assert (weighted.aggregate, weighted.constants) == (name, kernel.constants)


def test_a_separator_that_looks_like_a_column_is_none() -> None:
    kernel = AGGREGATES["string_agg"].kernel(t.STRING, constants=("{set}",), distinct=True)
    assert kernel.weighted is not None
    assert "'{set}'" in kernel.finish.format(set="c")
    assert "'{set}'" in kernel.weighted.finish.format(counts="c")


def test_the_rows_that_remain_are_counted_by_weight() -> None:
    assert REMAINING_ROWS.mentions == {"x", "w"}
    assert REMAINING_ROWS.grows is None


@pytest.mark.parametrize("name", [name for name, a in AGGREGATES.items() if a.distinct is Distinct.OWN])
def test_a_distinct_aggregate_says_that_its_state_grows(name: str) -> None:
    assert some_kernel(name, distinct=True).grows


def test_sketches_and_sums_do_not_grow() -> None:
    steady = [name for name in AGGREGATES if some_kernel(name).grows is None]
    assert set(AGGREGATES) - set(steady) == {
        "array_agg", "collect_list", "collect_set", "string_agg", "listagg", "mode", "histogram",
    }  # fmt: skip


@pytest.mark.parametrize("synonym", SYNONYMS)
def test_a_synonym_names_an_aggregate(synonym: str) -> None:
    found = aggregate_called(synonym.upper())
    assert found is AGGREGATES[SYNONYMS[synonym]]
    assert aggregate_called("no_such_aggregate") is None


# --- totals ---------------------------------------------------------------------------------------------------


def test_count_skips_null() -> None:
    assert fresh("count", t.STRING, "a", None, "b") == 2


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


@pytest.mark.parametrize("name", ["sum", "avg", "stddev", "median"])
def test_only_numbers_can_be_summed(name: str) -> None:
    with pytest.raises(ArgumentTypeError):
        AGGREGATES[name].kernel(t.STRING)


def test_distinct_sees_each_value_once() -> None:
    assert distinct("count", t.BIGINT, 3, 3, None, 4) == 2
    assert distinct("sum", t.BIGINT, 3, 3, None, 4) == 7
    assert distinct("avg", t.BIGINT, 3, 3, None, 4) == 3.5
    assert distinct("count", t.DOUBLE, 0.0, -0.0, math.nan, float("nan")) == 2


def test_distinct_pairs_count_where_neither_is_null() -> None:
    kernel = AGGREGATES["count"].kernel(t.INT, t.STRING, distinct=True)
    assert kernel.fresh([(1, "a"), (1, "a"), (1, "b"), (None, "a"), (1, None)]) == 2


def test_a_distinct_sum_of_decimals_is_exact_or_refused() -> None:
    assert AGGREGATES["sum"].kernel(t.decimal(38, 6), distinct=True).result == t.decimal(38, 6)
    with pytest.raises(ArgumentTypeError, match="27 digits"):
        AGGREGATES["sum"].kernel(t.decimal(38, 10), distinct=True)


# --- moments --------------------------------------------------------------------------------------------------

floats = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


@given(floats)
def test_deviations_are_those_of_the_statistics_module(values: list[float]) -> None:
    assert fresh("stddev", t.DOUBLE, *values) == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-9)
    assert fresh("var_pop", t.DOUBLE, *values) == pytest.approx(statistics.pvariance(values), rel=1e-9, abs=1e-9)


def test_one_row_has_a_population_deviation_and_no_sample_deviation() -> None:
    assert fresh("stddev_pop", t.DOUBLE, 4.0) == 0
    assert [fresh(name, t.DOUBLE, 4.0) for name in ("stddev", "stddev_samp", "variance", "var_samp")] == [None] * 4


def test_covariance_takes_the_rows_in_which_neither_is_null() -> None:
    pairs = [(1.0, 2.0), (2.0, 4.0), (None, 1.0), (9.0, None), (3.0, 6.0)]
    assert fresh("covar_pop", t.DOUBLE, *pairs) == pytest.approx(4 / 3)
    assert fresh("covar_samp", t.DOUBLE, *pairs) == 2
    assert fresh("corr", t.DOUBLE, *pairs) == pytest.approx(1)
    assert fresh("corr", t.DOUBLE, (1.0, 2.0), (1.0, 3.0)) is None


# --- choices --------------------------------------------------------------------------------------------------


def test_nan_is_the_greatest_value() -> None:
    assert math.isnan(fresh("max", t.DOUBLE, math.nan, 1.0))
    assert fresh("min", t.DOUBLE, math.nan, 1.0) == 1.0


def test_first_and_last_go_by_event_time_and_ties_by_value() -> None:
    rows = [("b", 5), ("c", 5), ("z", 9), ("y", 9), ("m", 7)]
    assert fresh("first", t.STRING, *rows) == "b"
    assert fresh("last", t.STRING, *rows) == "z"
    assert fresh("first", t.STRING, (None, 5), *rows) is None


def test_min_by_leaves_out_rows_without_a_second_argument() -> None:
    rows = [("a", None), ("c", 1), ("b", 1), ("d", 2), ("e", 2)]
    assert fresh("min_by", t.STRING, *rows) == "b"
    assert fresh("max_by", t.STRING, *rows) == "e"


def test_truth_and_bits() -> None:
    assert (fresh("bool_and", t.BOOLEAN, True, None), fresh("bool_and", t.BOOLEAN, True, False)) == (True, False)
    assert fresh("bool_or", t.BOOLEAN, False, None, True) is True
    assert [fresh(name, t.INT, 6, None, 3) for name in ("bit_and", "bit_or", "bit_xor")] == [2, 7, 5]


# --- collections ----------------------------------------------------------------------------------------------


def test_arrays_are_in_the_order_of_event_time_then_value() -> None:
    assert fresh("array_agg", t.STRING, ("b", 2), (None, 1), ("c", 1), ("a", 2)) == ["c", "a", "b"]
    assert distinct("array_agg", t.STRING, "b", "a", "b", None) == ["a", "b"]
    assert fresh("collect_set", t.INT, 3, 1, 3) == [1, 3]


def test_order_by_puts_nulls_where_it_says() -> None:
    rows = [("a", 1, 0), ("b", None, 0), ("c", 2, 0), ("d", 2, 1)]
    for ordering, expected in {
        Ordering(): ["b", "a", "c", "d"],
        Ordering(nulls_first=False): ["a", "c", "d", "b"],
        Ordering(descending=True, nulls_first=False): ["c", "d", "a", "b"],
    }.items():
        assert AGGREGATES["array_agg"].kernel(t.STRING, t.INT, order=(ordering,)).fresh(rows) == expected


def test_a_text_is_joined_with_its_separator() -> None:
    kernel = AGGREGATES["string_agg"].kernel(t.STRING, constants=(", ",))
    assert kernel.fresh([("b", 2), ("a", 1), (None, 0)]) == "a, b"


# --- percentiles and frequencies ------------------------------------------------------------------------------


def test_a_percentile_is_the_first_value_with_that_share_up_to_it() -> None:
    assert [rank(p, 10) for p in (0.0, 0.05, 0.1, 0.11, 0.3, 1.0)] == [1, 1, 1, 2, 3, 10]
    kernel = AGGREGATES["approx_percentile"].kernel(t.INT, constants=(0.5,))
    assert kernel.fresh([4, 1, None, 2, 5]) == 2


def test_a_median_is_the_mean_of_the_two_in_the_middle() -> None:
    assert fresh("median", t.INT, 5, 1, 2) == 2
    assert fresh("median", t.decimal(10, 2), Decimal(1), Decimal(4), Decimal(2), Decimal(5)) == 3.0
    assert fresh("median", t.DOUBLE, 5.0, math.nan) == 5.0


def test_the_mode_is_the_most_frequent_value_and_of_several_the_least() -> None:
    assert fresh("mode", t.INT, 3, 2, 3, 2, 1) == 2


def test_a_histogram_counts_values_or_bins_of_equal_width() -> None:
    assert fresh("histogram", t.INT, 2, 1, 2) == [{"value": 1, "count": 1}, {"value": 2, "count": 2}]
    assert fresh("histogram", t.INT, 0, 1, 2, 4, constants=(2,)) == [
        {"low": 0.0, "high": 2.0, "count": 2},
        {"low": 2.0, "high": 4.0, "count": 2},
    ]
    assert fresh("histogram", t.DOUBLE, 3.0, 3.0, math.inf, constants=(5,)) == [{"low": 3.0, "high": 3.0, "count": 2}]


@pytest.mark.parametrize(
    "value", [Literal(Decimal("1.1"), t.decimal(2, 1)), Literal(-1, t.INT), Literal("1", t.STRING)]
)
def test_a_percentage_is_from_zero_to_one(value: Literal) -> None:
    with pytest.raises(ArgumentTypeError, match="from 0 to 1"):
        AGGREGATES["approx_percentile"].constants[0].read(value)
