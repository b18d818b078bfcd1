"""What `laminar verify` makes of two stores; that it finds the right ones is tested with the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.engine.in_process_sql import parquet
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.verifying import Correction, Expected, Range, Verified, compared
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.windows import Window
from state_store import StoreReader
from state_store import format as f
from tests.cli.told_epochs import BOUNDS, EMITTED, RESULT, ToldEpoch, a_project, at, laminar, result, tell

SOURCE = """
CREATE SOURCE sales (region STRING, x DOUBLE, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
"""
SELECTED = "CREATE MATERIALIZED VIEW %s AS SELECT %s FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)"
GROUPED = " GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;"
SQL = (
    SOURCE
    + SELECTED % ("exact", "window_start, region, COUNT(*) AS n")
    + GROUPED
    + SELECTED % ("floating", "window_start, region, SUM(x) AS n")
    + GROUPED
    + "CREATE MATERIALIZED VIEW bare AS SELECT region, COUNT(*) AS n FROM sales GROUP BY region;"
)
Row = tuple[str, str, Any]
RIGHT: list[Row] = [("12:00:00", "eu", 3), ("12:00:00", "us", 1), ("12:01:00", "eu", 2)]


def verified(root: Path, rows: list[Row], view: str = "exact", until: str = "12:02:00", **bounds: int) -> Verified:
    if not (root / "sql").exists():
        a_project(root, SQL)
    number = pa.float64() if view == "floating" else pa.int64()
    schema = pa.schema([*RESULT.set(2, pa.field("n", number)), *BOUNDS, *EMITTED, ("_partition", pa.string())])
    for name, some in (("mine", rows), ("right", RIGHT)):
        told = [result(1, "12:05:00", *row) for row in some]
        tables = {f.OUTPUT: told} if told else {}
        tell(root / name, [ToldEpoch("12:05:00", "12:03:00", {}, tables=tables)], schema)
    query = Project.find(root).plan(view).query
    found = compared(
        query, StoreReader(root / "mine"), Expected(StoreReader(root / "right"), None), at(until), Range(**bounds)
    )
    assert found is not None
    return found


def test_the_same_rows_in_another_order_are_right(tmp_path: Path) -> None:
    found = verified(tmp_path, RIGHT[::-1])
    assert (found.is_right, found.windows, found.rows) == (True, 2, 3)


@pytest.mark.parametrize(
    ("rows", "missing", "unexpected"),
    [
        (RIGHT[1:], 1, 0),
        ([*RIGHT, RIGHT[0]], 0, 1),
        ([("12:00:00", "eu", 4), *RIGHT[1:]], 1, 1),
        ([], 3, 0),
    ],
    ids=["a row is missing", "a row is there twice", "a value differs", "nothing is there"],
)
def test_each_kind_of_difference_is_found(tmp_path: Path, rows: list[Row], missing: int, unexpected: int) -> None:
    found = verified(tmp_path, rows)
    assert (found.missing.count, found.unexpected.count) == (missing, unexpected)
    assert not found.is_right


def test_windows_that_are_open_or_out_of_range_are_not_compared(tmp_path: Path) -> None:
    wrong = [RIGHT[0], RIGHT[1], ("12:01:00", "eu", 7)]
    assert verified(tmp_path, wrong, until="12:01:59").is_right
    for number, (bounds, is_right) in enumerate(
        [({"to": at("12:01:00")}, True), ({"since": at("12:01:00")}, False), ({"since": at("12:01:01")}, True)]
    ):
        root = tmp_path / str(number)
        root.mkdir()
        assert verified(root, wrong, **bounds).is_right == is_right


@pytest.mark.parametrize(("n", "is_right"), [(3.0000000000000004, True), (3.00001, False)])
def test_floats_may_differ_in_their_last_digits_only(tmp_path: Path, n: float, is_right: bool) -> None:
    assert verified(tmp_path, [("12:00:00", "eu", n), *RIGHT[1:]], "floating").is_right == is_right


def test_windows_that_were_corrected_are_held_against_the_rows_that_count_in_them_since(tmp_path: Path) -> None:
    a_project(tmp_path, SQL)
    folded = [("12:00:00", "eu", 4), *RIGHT[1:]]
    for name, rows in (("mine", folded), ("right", RIGHT), ("anew", folded[:2])):
        shown = {f.OUTPUT: [result(1, "12:05:00", *row) for row in rows]}
        tell(tmp_path / name, [ToldEpoch("12:05:00", "12:03:00", {}, tables=shown)])
    query = Project.find(tmp_path).plan("exact").query
    mine, right, anew = (StoreReader(tmp_path / name) for name in ("mine", "right", "anew"))
    files = parquet(anew.table(f.OUTPUT).absolute(anew.files(f.OUTPUT)))
    correction = Correction((Window(at("12:00:00"), at("12:01:00")),), files)
    found = compared(query, mine, Expected(right, correction), at("12:02:00"), Range())
    assert found is not None
    assert (found.is_right, found.corrected, found.windows) == (True, 1, 2)
    found = compared(query, right, Expected(right, correction), at("12:02:00"), Range())
    assert found is not None
    assert (found.missing.count, found.unexpected.count) == (1, 1)


def test_a_view_without_a_window_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="LMR0714"):
        laminar(a_project(tmp_path, SQL), "verify", "bare")
