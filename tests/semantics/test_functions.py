"""What functions mean in plain Python; that Spark means the same is tested with the engine."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, RowError
from laminar_dagster.semantics.functions import FUNCTIONS, ArgumentTypeError, cast_value, fit
from laminar_dagster.semantics.time import DAY, from_iso
from laminar_dagster.semantics.types import DataType

MAX, MIN = 2**63 - 1, -(2**63)
TINYINT = DataType("TINYINT")


def call(name: str, *arguments: tuple[Any, DataType]) -> Any:
    """The function of literals, its type decided as planning decides it."""
    literals = tuple(Literal(value, type_) for value, type_ in arguments)
    type_ = FUNCTIONS[name].result([literal.type for literal in literals])
    return evaluate(Call(name, literals, type_), {})


def reason(name: str, *arguments: tuple[Any, DataType]) -> str:
    with pytest.raises(RowError) as caught:
        call(name, *arguments)
    return caught.value.reason


def cast_reason(value: Any, from_: DataType, to: DataType) -> str:
    with pytest.raises(RowError) as caught:
        cast_value(value, from_, to)
    return caught.value.reason


def big(value: int | None) -> tuple[int | None, DataType]:
    return value, t.BIGINT


# --- fitting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "bits"), [(TINYINT, 8), (t.INT, 32), (t.BIGINT, 64)])
def test_an_integer_fits_its_type_to_the_last_value(type_: DataType, bits: int) -> None:
    edge = 1 << (bits - 1)
    assert fit(edge - 1, type_) == edge - 1
    assert fit(-edge, type_) == -edge
    for outside in (edge, -edge - 1):
        with pytest.raises(RowError, match="overflow"):
            fit(outside, type_)


def test_a_decimal_is_rounded_half_up_and_fits_all_its_digits() -> None:
    assert fit(Decimal("1.005"), t.decimal(4, 2)) == Decimal("1.01")
    assert fit(Decimal("-1.005"), t.decimal(4, 2)) == Decimal("-1.01")
    widest = Decimal("9" * 28 + "." + "9" * 10)
    assert fit(widest, t.decimal(38, 10)) == widest
    with pytest.raises(RowError, match="overflow"):
        fit(Decimal("99.995"), t.decimal(4, 2))


# --- arithmetic -----------------------------------------------------------------------------------------------


def test_integer_overflow_is_an_error_and_never_another_number() -> None:
    assert reason("add", big(MAX), big(1)) == "overflow"
    assert reason("subtract", big(MIN), big(1)) == "overflow"
    assert reason("multiply", big(MAX), big(2)) == "overflow"
    assert reason("negate", big(MIN)) == "overflow"
    assert reason("abs", big(MIN)) == "overflow"
    assert reason("floor", (1e19, t.DOUBLE)) == "overflow"


def test_division_is_by_value_and_by_zero_an_error() -> None:
    assert call("divide", big(3), big(2)) == 1.5
    assert reason("divide", big(1), big(0)) == "division_by_zero"
    assert reason("mod", (1.0, t.DOUBLE), (0.0, t.DOUBLE)) == "division_by_zero"
    assert call("divide", big(None), big(0)) is None


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    assert [call("mod", big(a), big(b)) for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3))] == [1, -1, 1, -1]


def test_decimal_arithmetic_keeps_sparks_precision_and_scale() -> None:
    price, rate = (Decimal("0.10"), t.decimal(12, 2)), (Decimal("0.200"), t.decimal(6, 3))
    assert call("multiply", price, rate) == Decimal("0.02")
    assert t.arithmetic_type("multiply", price[1], rate[1]) == t.decimal(19, 5)
    assert t.arithmetic_type("add", price[1], rate[1]) == t.decimal(14, 3)
    assert t.arithmetic_type("divide", t.decimal(38, 10), t.decimal(38, 10)) == t.decimal(38, 6)


@given(st.integers(MIN, MAX), st.integers(MIN, MAX))
def test_addition_is_exact_or_an_error(a: int, b: int) -> None:
    if MIN <= a + b <= MAX:
        assert call("add", big(a), big(b)) == a + b
    else:
        assert reason("add", big(a), big(b)) == "overflow"


def test_doubles_go_to_infinity_and_nan_as_on_the_jvm() -> None:
    assert call("multiply", (1e300, t.DOUBLE), (1e300, t.DOUBLE)) == math.inf
    assert call("exp", (1e300, t.DOUBLE)) == math.inf
    assert math.isnan(call("power", (-8.0, t.DOUBLE), (0.5, t.DOUBLE)))
    assert call("power", (0.0, t.DOUBLE), (-1.0, t.DOUBLE)) == math.inf
    assert math.isnan(call("mod", (math.inf, t.DOUBLE), (3.0, t.DOUBLE)))


# --- comparison and logic -------------------------------------------------------------------------------------


def test_nan_equals_nan_and_is_the_greatest() -> None:
    nan, one = (math.nan, t.DOUBLE), (1.0, t.DOUBLE)
    assert call("eq", nan, nan) is True
    assert call("gt", nan, (math.inf, t.DOUBLE)) is True
    assert math.isnan(call("greatest", one, nan))
    assert call("least", nan, one) == 1.0


def test_a_date_is_compared_with_a_timestamp_at_its_midnight() -> None:
    assert call("eq", (2, t.DATE), (2 * DAY, t.TIMESTAMP)) is True
    assert call("greatest", (2, t.DATE), (2 * DAY - 1, t.TIMESTAMP)) == 2 * DAY


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("and", None, False, False),
        ("and", None, True, None),
        ("or", None, True, True),
        ("or", None, False, None),
        ("and", True, True, True),
        ("or", False, False, False),
    ],
)
def test_logic_has_three_values(name: str, left: Any, right: Any, expected: Any) -> None:
    assert call(name, (left, t.BOOLEAN), (right, t.BOOLEAN)) is expected


def test_what_decides_hides_an_error_behind_it() -> None:
    fails = Call(
        "gt", (Call("divide", (Literal(1, t.BIGINT), Column("z", t.BIGINT)), t.DOUBLE), Literal(0, t.BIGINT)), t.BOOLEAN
    )
    guard = Call("ne", (Column("z", t.BIGINT), Literal(0, t.BIGINT)), t.BOOLEAN)
    guarded = Call("and", (guard, fails), t.BOOLEAN)
    assert evaluate(guarded, {"z": 0}) is False
    with pytest.raises(RowError):
        evaluate(Call("and", (fails, guard), t.BOOLEAN), {"z": 0})


def test_case_and_coalesce_evaluate_only_what_they_return() -> None:
    fails: Expression = Call("divide", (Literal(1, t.BIGINT), Literal(0, t.BIGINT)), t.DOUBLE)
    one = Literal(1.0, t.DOUBLE)
    assert evaluate(Call("coalesce", (one, fails), t.DOUBLE), {}) == 1.0
    assert evaluate(Call("case", (Literal(False, t.BOOLEAN), fails, one), t.DOUBLE), {}) == 1.0


def test_in_with_a_null_is_unknown_unless_found() -> None:
    assert call("in", big(1), big(1), big(None)) is True
    assert call("in", big(2), big(1), big(None)) is None
    assert call("in", big(2), big(1)) is False


def test_like_knows_its_wildcards_and_their_escape() -> None:
    def like(text: str, pattern: str) -> Any:
        return call("like", (text, t.STRING), (pattern, t.STRING))

    assert like("a%b", "a\\%b") is True
    assert like("axb", "a\\%b") is False
    assert like("a\nb", "a_b") is True
    assert like("a.b", "a_b") is True
    assert like("ab", "a.") is False


# --- casts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "from_", "to", "expected"),
    [
        (" 12 ", t.STRING, t.BIGINT, 12),
        ("+5", t.STRING, t.INT, 5),
        ("1e3", t.STRING, t.DOUBLE, 1000.0),
        ("1.005", t.STRING, t.decimal(4, 2), Decimal("1.01")),
        (2.9, t.DOUBLE, t.INT, 2),
        (-2.9, t.DOUBLE, t.INT, -2),
        (Decimal("1.50"), t.decimal(4, 2), t.STRING, "1.50"),
        (True, t.BOOLEAN, t.STRING, "true"),
        (1e7, t.DOUBLE, t.STRING, "1.0E7"),
        (0.1, t.DOUBLE, t.STRING, "0.1"),
        ("yes", t.STRING, t.BOOLEAN, True),
        ("2025-01-02T03:04:05Z", t.STRING, t.TIMESTAMP, from_iso("2025-01-02T03:04:05Z")),
        ("2025-01-02", t.STRING, t.DATE, from_iso("2025-01-02T00:00:00Z") // DAY),
        (-1, t.TIMESTAMP, t.DATE, -1),
        (from_iso("2025-01-02T03:04:05.5Z"), t.TIMESTAMP, t.STRING, "2025-01-02 03:04:05.5"),
    ],
)
def test_a_cast_gives(value: Any, from_: DataType, to: DataType, expected: Any) -> None:
    assert cast_value(value, from_, to) == expected


@pytest.mark.parametrize("text", ["1.5", "abc", "", "1_0", "99999999999999999999"])
def test_text_that_is_no_bigint_is_an_invalid_cast(text: str) -> None:
    assert cast_reason(text, t.STRING, t.BIGINT) == "invalid_cast"


def test_a_number_that_does_not_fit_the_other_type_overflows() -> None:
    assert cast_reason(300, t.BIGINT, TINYINT) == "overflow"
    for value in (1e19, math.nan, math.inf):
        assert cast_reason(value, t.DOUBLE, t.BIGINT) == "overflow"


# --- text and time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(1, 2, "ab"), (0, 2, "ab"), (2, None, "bcd"), (-2, None, "cd"), (-2, 1, "c"), (9, 1, ""), (2, -1, "")],
)
def test_substring_counts_from_one_and_from_the_end(start: int, length: int | None, expected: str) -> None:
    more = [] if length is None else [(length, t.INT)]
    assert call("substring", ("abcd", t.STRING), (start, t.INT), *more) == expected


def test_a_substring_is_cut_at_whole_numbers() -> None:
    with pytest.raises(ArgumentTypeError):
        FUNCTIONS["left"].result([t.STRING, t.DOUBLE])


def test_time_is_truncated_downwards_also_before_1970() -> None:
    def truncated(unit: str, value: int) -> Any:
        return call("date_trunc", (unit, t.STRING), (value, t.TIMESTAMP))

    assert truncated("hour", -1) == from_iso("1969-12-31T23:00:00Z")
    assert truncated("week", from_iso("2025-05-18T12:00:00Z")) == from_iso("2025-05-12T00:00:00Z")
    assert truncated("quarter", from_iso("2025-05-18T12:00:00Z")) == from_iso("2025-04-01T00:00:00Z")


def test_null_in_gives_null_out_unless_the_function_takes_it() -> None:
    assert call("upper", (None, t.STRING)) is None
    assert call("is_null", (None, t.STRING)) is True
    assert call("greatest", big(None), big(3)) == 3
    assert call("distinct_from", big(None), big(3)) is True
