"""Numbers as times: Spark means what the plain Python does, at the edges too; and files hold them as event times."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Call, Column, Literal, RowError
from laminar_dagster.semantics.functions import literal_sql
from laminar_dagster.semantics.spark_sql import error_sql, value_sql
from laminar_dagster.semantics.types import DataType
from tests.engine.sources.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EDGE = 2**63 - 1
WHOLE = (
    0,
    1,
    -1,
    1_767_268_800,
    -1_767_268_801,
    1_767_268_800_123,
    EDGE // 1_000_000,
    EDGE // 1_000,
    EDGE,
    -EDGE,
    None,
)
DOUBLES = (0.0, 1.5, -1.5, 0.0000019, -0.0000019, 1_767_268_800.123456, 1e300, -1e300, None)
DECIMALS = (Decimal("1.5000000"), Decimal("-1.9999999"), Decimal("1767268800.1234567"), None)
CASES = [
    *((function, t.BIGINT, WHOLE) for function in ("timestamp_millis", "timestamp_micros", "timestamp_seconds")),
    *((function, t.BIGINT, WHOLE) for function in ("to_timestamp", "cast")),
    ("timestamp_millis", t.INT, (0, 2**31 - 1, -(2**31))),
    *((function, t.DOUBLE, DOUBLES) for function in ("timestamp_seconds", "to_timestamp", "cast")),
    *((function, t.decimal(20, 7), DECIMALS) for function in ("timestamp_seconds", "cast")),
]


def meant(call: Call, value: Any) -> tuple[int | None, str | None]:
    try:
        return evaluate(call, {"x": value}), None
    except RowError as problem:
        return None, problem.reason


@pytest.mark.parametrize(("function", "type_", "values"), CASES, ids=lambda case: str(case) if case else None)
def test_spark_makes_the_time_that_python_makes(
    spark: SparkSession, function: str, type_: DataType, values: tuple[Any, ...]
) -> None:
    call = Call(function, (Column("x", type_),), t.TIMESTAMP)
    rows = ", ".join(f"({place}, CAST({literal_sql(Literal(v, type_))} AS {type_}))" for place, v in enumerate(values))
    found = spark.sql(
        f"SELECT unix_micros({value_sql(call)}) AS value, {error_sql(call)} AS problem "
        f"FROM VALUES {rows} AS t(place, x) ORDER BY place"
    ).collect()
    assert [(row["value"], row["problem"]) for row in found] == [meant(call, value) for value in values]


def test_odd_floating_point_is_no_time(spark: SparkSession) -> None:
    call = Call("timestamp_seconds", (Column("x", t.DOUBLE),), t.TIMESTAMP)
    odd = "VALUES (double('NaN')), (double('Infinity')), (double('-Infinity')) AS t(x)"
    found = spark.sql(f"SELECT {value_sql(call)} AS value, {error_sql(call)} AS problem FROM {odd}").collect()
    assert [tuple(row) for row in found] == [(None, "overflow")] * 3
    assert meant(call, float("nan")) == meant(call, float("inf")) == (None, "overflow")


def test_a_file_of_milliseconds_closes_its_windows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sql = """
        CREATE SOURCE ev (k STRING, ts BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
        WITH (connector = 'files', format = 'json', path = 'in', event_time_unit = 'ms');
        CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS n, SUM(ts) AS total
        FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
    """
    view = View(tmp_path, sql)
    noon = 1_767_268_800_000
    for number, times in enumerate(((0, 9_999), (11_000,), (5_000, 25_000))):
        lines = [json.dumps({"k": "a", "ts": noon + time}) for time in times]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        view.run(spark)
    assert view.closed() == {(0, "a"): (2, 2 * noon + 9_999), (10, "a"): (1, noon + 11_000)}
    assert [entry["reason"] for entry in view.aside()] == ["allowed_lateness_exceeded"]
