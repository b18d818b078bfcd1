"""Times at the ends of what Spark has, in every use: no run stops at one, no row is lost, results are the plain ones.

`9999-12-31` stands for "for ever" in every second warehouse; other rows have a broken unit, or a clock never set.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Call, Column, Literal, RowError
from laminar_dagster.semantics.reference import Commit, Reference
from laminar_dagster.semantics.spark_sql import error_sql, value_sql
from laminar_dagster.semantics.time import DAY, REACH, SECOND, from_iso
from laminar_dagster.semantics.types import DataType
from state_store import CommitRow, StoreReader
from state_store import format as f
from state_store.moments import as_integers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = from_iso("2026-01-01T12:00:00Z")
YEAR_0, FOR_EVER = -62_167_219_200_000_000, from_iso("9999-12-31T23:59:59.999999Z")
YEAR_12000 = 316_516_464_000_000_000
EXTREMES = (
    NOW, -(1 << 63), NOW + 100 * SECOND, (1 << 63) - 1, -REACH, -REACH - 1, REACH - 1, REACH,
    YEAR_0 - 1, YEAR_0, from_iso("0001-01-01T00:00:00+05:00"), from_iso("0001-01-01T00:00:00Z"),
    from_iso("1582-10-04T23:59:59Z"), from_iso("1582-10-15T00:00:00Z"), from_iso("1884-01-01T00:00:00Z"),
    FOR_EVER, FOR_EVER + 1, YEAR_12000, 9_223_371_331_200_000_000, NOW - 1,
)  # fmt: skip
# Dates are days; deltalake writes none that are further than some 262,000 years away.
FARTHEST = 95_000_000
DAYS = tuple(max(-FARTHEST, min(time // DAY, FARTHEST)) for time in EXTREMES)
ROWS = [{"id": i, "at": time, "d": day} for i, (time, day) in enumerate(zip(EXTREMES, DAYS, strict=True))]
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("d", pa.date32())])

TYPED = "id BIGINT, at TIMESTAMP, d DATE"
NUMBERS = "id BIGINT, us BIGINT, d STRING, at AS timestamp_micros(us)"
DECLARED = """
CREATE SOURCE ev ({columns}, WATERMARK FOR at AS at - INTERVAL '{lag}' SECOND)
WITH (connector = '{connector}', {options}, max_future_skew = '{skew}');
"""
RESULTS = "COUNT(*) AS n, MIN(at) AS first, MAX(at) AS last, FIRST(d) AS d"
WINDOWED = "SELECT window_start, window_end, {results} FROM {window} GROUP BY window_start, window_end {emit}"
VIEWS = {
    "tumbled": ("TUMBLE(ev, at, INTERVAL '1' MINUTE)", "EMIT ON WINDOW CLOSE"),
    "hopped": ("HOP(ev, at, INTERVAL '30' SECOND, INTERVAL '1' MINUTE)", "EMIT ON WATERMARK"),
    "cumulated": ("CUMULATE(ev, at, INTERVAL '1' HOUR, INTERVAL '1' DAY)", "EMIT FINAL"),
    "sessions": ("SESSION(ev, at, INTERVAL '30' SECOND)", "EMIT ON WINDOW CLOSE"),
    "changing": ("SESSION(ev, at, INTERVAL '2' DAY)", "EMIT CHANGES"),
    "weeks": ("TUMBLE(ev, at, INTERVAL '1' WEEK, TIME ZONE 'Europe/Zurich')", "EMIT CHANGES"),
    "seasons": ("TUMBLE(ev, at, INTERVAL '5' MONTH, TIME ZONE 'America/New_York')", "EMIT ON UPDATE"),
}
STATEMENTS = {
    **{name: WINDOWED.format(results=RESULTS, window=window, emit=emit) for name, (window, emit) in VIEWS.items()},
    "days": f"SELECT DATE(at) AS day, {RESULTS} FROM ev GROUP BY DATE(at) EMIT CHANGES",
    "keyed": f"SELECT d AS day, at AS key, {RESULTS} FROM ev GROUP BY d, at EMIT CHANGES",
    "whole": f"SELECT {RESULTS} FROM ev EMIT CHANGES",
    "passed": "SELECT id, at, d FROM ev",
}


def script(source: str, statements: dict[str, str]) -> str:
    views = "".join(f"CREATE MATERIALIZED VIEW {name} AS {text};\n" for name, text in statements.items())
    return source + views


def land(root: Path, form: str) -> str:
    """The rows as a source of this kind; the options that read it."""
    if form == "delta":
        write_deltalake(str(root / "in"), pa.Table.from_pylist(ROWS, SCHEMA))
        return "path = 'in'"
    (root / "in").mkdir()
    target = root / "in" / f"1.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), target)
    elif form == "json":
        target.write_text("".join(json.dumps(in_text(row)) + "\n" for row in ROWS))
    else:
        lines = [",".join(map(str, in_text(row).values())) for row in ROWS]
        target.write_text("\n".join(["id,us,d", *lines]))
    return f"path = 'in', format = '{form}'"


def in_text(row: dict[str, int]) -> dict[str, Any]:
    return {"id": row["id"], "us": row["at"], "d": f"{row['d']:+}"}


def commit(form: str) -> Commit:
    return Commit("ev", ROWS if form in ("delta", "parquet") else [in_text(row) for row in ROWS])


def run(spark: SparkSession, root: Path, plan: Plan) -> list[CommitRow]:
    return run_view(plan, spark, project=root, data=root / "data", options=RunOptions(now=lambda: NOW))


def table(reader: StoreReader, columns: list[str]) -> Counter[tuple[Any, ...]]:
    rows = as_integers(reader.read(f.OUTPUT)).to_pylist()
    return Counter(tuple(row[name] for name in columns) for row in rows)


@pytest.mark.parametrize("skew", ["none", "5 minutes"])
@pytest.mark.parametrize("form", ["delta", "parquet", "json", "csv"])
def test_every_row_is_in_its_window_or_set_aside(spark: SparkSession, tmp_path: Path, form: str, skew: str) -> None:
    options = land(tmp_path, form)
    declared = DECLARED.format(
        columns=TYPED if form in ("delta", "parquet") else NUMBERS,
        lag=2, connector="delta" if form == "delta" else "files", options=options, skew=skew,
    )  # fmt: skip
    for plan in plan_script(script(declared, STATEMENTS)):
        run(spark, tmp_path, plan)
        reader = StoreReader(tmp_path / "data" / plan.query.view)
        reference = Reference(plan.query)
        meant = reference.epoch([commit(form)], NOW)
        columns = [named.name for named in plan.query.output]
        wanted = Counter(tuple(row[name] for name in columns) for row in reference.table)
        assert table(reader, columns) == wanted, plan.query.view
        found = Counter((row["kind"], row["reason"]) for row in as_integers(reader.read(f.SIDE_OUTPUT)).to_pylist())
        assert found == Counter((entry.kind, entry.reason) for entry in meant.side_output), plan.query.view
        (row,) = reader.log.commits()
        assert row.counts["rows_in"] == len(ROWS) == row.counts["aggregated"] + found.total()
        assert row.watermark == meant.watermark


TIMED = [
    *(("date_trunc", unit) for unit in ("SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")),
    *(("add_micros", length) for length in (DAY, -DAY, 1, -1, 1 << 62)),
    *((name, None) for name in ("unix_micros", "cast", "year", "month", "dayofweek", "date")),
]
TYPES = {"unix_micros": t.BIGINT, "year": t.INT, "month": t.INT, "dayofweek": t.INT, "date": t.DATE}
FAR_DAYS = (*DAYS, 0, 106_751_991, 106_751_992, -106_751_991, -106_751_992, (1 << 31) - 1, -(1 << 31))


def call_of(function: str, argument: Any, type_: DataType) -> Call:
    column, result = Column("x", type_), TYPES.get(function, t.TIMESTAMP)
    if function == "date_trunc":
        return Call(function, (Literal(argument, t.STRING), column), result)
    return Call(function, (column,) if argument is None else (column, Literal(argument, t.BIGINT)), result)


def meant(call: Call, value: int) -> tuple[int | None, str | None]:
    try:
        return evaluate(call, {"x": value}), None
    except RowError as problem:
        return None, problem.reason


@pytest.mark.parametrize("type_", [t.TIMESTAMP, t.DATE], ids=str)
def test_functions_of_extreme_times_are_the_plain_ones_and_never_throw(spark: SparkSession, type_: DataType) -> None:
    values = EXTREMES if type_ == t.TIMESTAMP else FAR_DAYS
    made = "timestamp_micros(v)" if type_ == t.TIMESTAMP else "date_from_unix_date(CAST(v AS INT))"
    numbers = {t.TIMESTAMP: "unix_micros({})", t.DATE: "unix_date({})"}
    calls = [call_of(function, argument, type_) for function, argument in TIMED]
    columns = [f"{numbers.get(call.type, '{}').format(value_sql(call))} AS v{i}" for i, call in enumerate(calls)]
    columns += [f"{error_sql(call) or 'CAST(NULL AS STRING)'} AS e{i}" for i, call in enumerate(calls)]
    rows = spark.createDataFrame([(value,) for value in values], "v BIGINT").selectExpr("v", f"{made} AS x")
    found = rows.selectExpr("v", *columns).collect()
    for i, call in enumerate(calls):
        told = {row["v"]: (row[f"v{i}"], row[f"e{i}"]) for row in found}
        assert told == {value: meant(call, value) for value in values}, (call.function, TIMED[i])
