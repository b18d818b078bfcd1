"""Batches that a program hands in: what fits a declared column is taken as it is, and everything else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.engine.sources.batches import typed_batch
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.semantics.query import Source

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAIVE = datetime(2026, 1, 1, 12)  # noqa: DTZ001


def source(type_: str) -> Source:
    sql = f"""CREATE SOURCE ev (c {type_}) WITH (connector = 'memory');
    CREATE MATERIALIZED VIEW out AS SELECT COUNT(*) AS n FROM ev EMIT CHANGES;"""
    return plan_script(sql)[0].query.inputs[0].source


def taken(type_: str, *values: Any) -> list[Any]:
    column: list[Any] = typed_batch([{"c": value} for value in values], source(type_)).column("c").to_pylist()
    return column


@pytest.mark.parametrize(
    ("type_", "value", "is_"),
    [
        ("BOOLEAN", True, True),
        ("INT", 7, 7),
        ("DOUBLE", 7, 7.0),
        ("DOUBLE", float("inf"), float("inf")),
        ("FLOAT", 0.5, 0.5),
        ("DECIMAL(10,2)", 7, Decimal("7.00")),
        ("DECIMAL(10,2)", Decimal("7.5"), Decimal("7.50")),
        ("STRING", "a", "a"),
        ("BINARY", b"\xff", b"\xff"),
        ("DATE", date(2026, 1, 1), date(2026, 1, 1)),
        ("TIMESTAMP", NOON, NOON),
        ("TIMESTAMP", NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        ("TIMESTAMP", 1_767_268_800_000_000, NOON),
    ],
)
def test_a_value_of_the_columns_kind_is_taken_as_it_is(type_: str, value: Any, is_: Any) -> None:
    assert taken(type_, value, None) == [is_, None]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("BIGINT", 1.9),
        ("BIGINT", 1.0),
        ("BIGINT", "1"),
        ("BIGINT", True),
        ("BIGINT", 2**70),
        ("INT", 2**40),
        ("BOOLEAN", 1),
        ("DOUBLE", Decimal("0.1")),
        ("DOUBLE", 2**53 + 1),
        ("FLOAT", 1e300),
        ("DECIMAL(10,2)", 0.1),
        ("DECIMAL(10,2)", Decimal("0.001")),
        ("STRING", b"a"),
        ("STRING", "\ud800"),
        ("STRING", 1),
        ("BINARY", "a"),
        ("DATE", NOON),
        ("TIMESTAMP", NAIVE),
        ("TIMESTAMP", "2026-01-01"),
        ("TIMESTAMP", 1.5),
    ],
)
def test_a_value_of_another_kind_or_that_does_not_fit_is_refused(type_: str, value: Any) -> None:
    with pytest.raises(LaminarError, match=r'column "c" does not fit|has no zone') as caught:
        taken(type_, None, value)
    assert caught.value.code == "LMR0801"


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("BIGINT", pa.array(["1"])),
        ("BIGINT", pa.array([True])),
        ("BIGINT", pa.array([1.0])),
        ("INT", pa.array([2**40])),
        ("FLOAT", pa.array([1e300])),
        ("STRING", pa.array([1])),
        ("STRING", pa.array([b"a"])),
        ("BINARY", pa.array(["a"])),
        ("DATE", pa.array([NOON])),
        ("DECIMAL(10,2)", pa.array([0.1])),
        ("DECIMAL(10,2)", pa.array([10**9])),
        ("TIMESTAMP", pa.array([NAIVE])),
        ("TIMESTAMP", pa.array([1], pa.timestamp("ns", "UTC"))),
        ("TIMESTAMP", pa.array(["2026-01-01"])),
    ],
)
def test_an_arrow_column_is_refused_where_its_values_as_rows_are(type_: str, column: pa.Array) -> None:
    with pytest.raises(LaminarError, match=r'column "c" does not fit|has no zone') as caught:
        typed_batch(pa.table({"c": column}), source(type_))
    assert caught.value.code == "LMR0801"


@pytest.mark.parametrize(
    ("type_", "column", "is_"),
    [
        ("BIGINT", pa.array([1, None], pa.uint8()), [1, None]),
        ("INT", pa.nulls(1), [None]),
        ("DOUBLE", pa.array([1]), [1.0]),
        ("DECIMAL(10,2)", pa.array([1]), [Decimal("1.00")]),
        ("STRING", pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        ("STRING", pa.array(["a"], pa.large_string()), ["a"]),
        ("BINARY", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("TIMESTAMP", pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")), [NOON]),
        ("TIMESTAMP", pa.array([NOON], pa.timestamp("ns", "UTC")), [NOON]),
    ],
)
def test_an_arrow_column_of_another_width_is_taken(type_: str, column: pa.Array, is_: list[Any]) -> None:
    for batch in (pa.table({"c": column}), pa.record_batch({"c": column})):
        assert typed_batch(batch, source(type_)).column("c").to_pylist() == is_


def test_any_iterable_of_rows_is_a_batch() -> None:
    assert typed_batch(({"c": n} for n in range(3)), source("BIGINT")).column("c").to_pylist() == [0, 1, 2]
    reader = pa.table({"c": [1, 2]}).to_reader()
    assert typed_batch(reader, source("BIGINT")).num_rows == 2


@pytest.mark.parametrize("batch", [{"c": [1]}, "c", [["c"]], 7, None, [None]])
def test_what_is_no_rows_is_refused(batch: Any) -> None:
    with pytest.raises(LaminarError, match="a batch is rows") as caught:
        typed_batch(batch, source("BIGINT"))
    assert caught.value.code == "LMR0801"


def test_a_column_that_comes_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["c", "c"])
    with pytest.raises(LaminarError, match='has column "c" twice'):
        typed_batch(twice, source("BIGINT"))


def test_a_name_that_is_no_text_is_refused() -> None:
    rows: list[Mapping[Any, Any]] = [{"c": 1, 7: 1, "d": 2}]
    with pytest.raises(LaminarError, match='has no column "7"'):
        typed_batch(rows, source("BIGINT"))
