"""Columns of Delta tables whose names in files are others: nested ones, renamed ones, dropped and added anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import write_deltalake

from laminar_dagster.engine.correcting import backfill, fold_late
from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import SECOND, from_datetime
from tests.engine.sources.views import COLUMNS, FAR, NOON, SELECT, View, append, at, rows, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
POINT = "STRUCT<x: BIGINT, at: STRUCT<y: BIGINT>>"
NESTED = f"p {POINT}, ps ARRAY<{POINT}>, m MAP<STRING, {POINT}>"
NESTED_VALUES = (
    "named_struct('{x}', 1L, 'at', named_struct('{y}', 2L)) AS p, "
    "array(named_struct('x', 3L, 'at', named_struct('y', 4L))) AS ps, "
    "map('a', named_struct('x', 5L, 'at', named_struct('y', 6L))) AS m"
)
# For a feed: what takes retractions.
CHANGING = "CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM ev GROUP BY k EMIT CHANGES;"


class Table:
    """A table of Spark's, and the view over it."""

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        more: str = "",
        by: str = "",
        properties: str = MAPPED,
        **options: str,
    ) -> None:
        self.root, self.spark, self.options = root, spark, options
        self.name = f"delta.`{root / 'events'}`"
        feed = ", 'delta.enableChangeDataFeed' = 'true'" if "changes" in options else ""
        parts = f"PARTITIONED BY ({by})" if by else ""
        columns = f"k STRING, v BIGINT, ts TIMESTAMP{more}"
        spark.sql(f"CREATE TABLE {self.name} ({columns}) USING delta {parts} TBLPROPERTIES ({properties}{feed})")
        self.view = self.declared()

    def declared(self, columns: str = COLUMNS, select: str = SELECT) -> View:
        return View(self.root, source(columns=columns, connector="delta", path="events", **self.options) + select)

    def insert(self, k: str, v: int | None, seconds: float | None, more: str = "") -> None:
        value = "NULL" if v is None else f"{v}L"
        time = "CAST(NULL AS TIMESTAMP)" if seconds is None else f"TIMESTAMP '{at(seconds).isoformat()}'"
        extra = f", {more}" if more else ""
        self.spark.sql(f"INSERT INTO {self.name} BY NAME SELECT '{k}' AS k, {value} AS v, {time} AS ts{extra}")

    def rewrite(self) -> None:
        """From now on a first read begins with a snapshot."""
        self.insert("gone", 1, 0)
        self.spark.sql(f"DELETE FROM {self.name} WHERE k = 'gone'")

    def alter(self, *changes: str) -> None:
        for change in changes:
            self.spark.sql(f"ALTER TABLE {self.name} {change}")

    def run(self, **options: Any) -> None:
        self.view.run(self.spark, **options)

    def refusal(self, act: Callable[[], Any]) -> LaminarError:
        before = self.view.store.commit() if self.view.store.exists else None
        with pytest.raises(LaminarError) as raised:
            act()
        assert (self.view.store.commit() if self.view.store.exists else None) == before
        return raised.value

    def backfill(self, low: int = 0, high: int = 10) -> Any:
        return backfilled(self.view, self.spark, low, high)

    def fold(self) -> Any:
        return fold_late(self.view.plan, self.spark, project=self.root, data=self.root / "data")

    def verify(self) -> Any:
        data = self.root / "data"
        return verify(self.view.plan, self.spark, project=self.root, data=data, range_=Range())


@pytest.mark.parametrize("kind", ["versions", "snapshot", "feed"])
def test_what_is_nested_in_a_mapped_column_is_read(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = Table(tmp_path, spark, f", {NESTED}", **({"changes": "cdf"} if kind == "feed" else {}))
    if kind == "snapshot":
        table.rewrite()
    table.insert("a", 1, None, NESTED_VALUES.format(x="x", y="y"))
    table.alter("RENAME COLUMN p.at.y TO z", "RENAME COLUMN p.x TO w")
    renamed = NESTED.replace(f"p {POINT}", "p STRUCT<w: BIGINT, at: STRUCT<z: BIGINT>>")
    table.view = table.declared(f"{renamed}, {COLUMNS}", CHANGING if kind == "feed" else SELECT)
    table.run()
    assert [json.loads(row["original_event"]) for row in table.view.aside()] == [
        {
            "p": {"w": 1, "at": {"z": 2}},
            "ps": [{"x": 3, "at": {"y": 4}}],
            "m": {"a": {"x": 5, "at": {"y": 6}}},
            "k": "a",
            "v": 1,
            "ts": None,
        }
    ]


def test_a_mapped_partition_column_may_be_renamed(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark, ", old STRING", by="old, k")
    select = SELECT.replace("COUNT(*)", "COUNT(new)")
    table.insert("a", 1, 1, "'x' AS old")
    table.alter("RENAME COLUMN old TO new")
    table.insert("a", 2, 2, "'y' AS new")
    table.view = table.declared(f"new STRING, {COLUMNS}", select)
    table.run()
    table.insert("z", 0, FAR)
    table.run()
    assert table.view.closed() == {(0, "a"): (2, 3)}
    table.alter("RENAME COLUMN k TO key")
    table.alter("RENAME COLUMN key TO k")
    table.backfill()
    assert table.view.closed() == {(0, "a"): (2, 3)}


def test_files_that_are_partitioned_in_another_way_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 1))
    view = View(tmp_path, source(connector="delta", path="events", on_rewrite="ignore") + SELECT)
    view.run(spark)
    write_deltalake(str(tmp_path / "events"), rows(("gone", 0, 1)), mode="overwrite", partition_by=["k"],
                    schema_mode="overwrite")  # fmt: skip
    append(tmp_path, ("b", 2, 2), partition_by=["k"])
    append(tmp_path, ("z", 0, FAR), partition_by=["k"])
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (0, "b"): (1, 2)}
    backfilled(view, spark)
    assert view.closed() == {(0, "a"): (1, 1), (0, "b"): (1, 2)}


def backfilled(view: View, spark: SparkSession, low: int = 0, high: int = 10) -> Any:
    noon = from_datetime(NOON)
    bounds = [(noon + low * SECOND, noon + high * SECOND)]
    return backfill(view.plan, spark, project=view.root, data=view.root / "data", ranges=bounds)


ANEW = ("DROP COLUMN v", "ADD COLUMN v BIGINT")
SWAPPED = ("RENAME COLUMN v TO t", "RENAME COLUMN w TO v", "RENAME COLUMN t TO w")


@pytest.mark.parametrize("changes", [ANEW, SWAPPED], ids=["added anew", "swapped"])
@pytest.mark.parametrize("begins", ["versions", "snapshot"])
def test_what_was_read_under_a_column_is_not_read_again_under_another(
    spark: SparkSession, tmp_path: Path, changes: tuple[str, ...], begins: str
) -> None:
    table = Table(tmp_path, spark, ", w BIGINT")
    if begins == "snapshot":
        table.rewrite()
    table.insert("a", 3, 1, "50L AS w")
    table.run()
    table.insert("z", 0, FAR)
    table.run()
    table.insert("a", 4, 2, "60L AS w")
    table.run()
    assert table.view.closed() == {(0, "a"): (1, 3)}
    table.alter(*changes)
    for act in (table.backfill, table.fold, table.verify):
        error = table.refusal(act)
        assert error.code == "LMR0613", error
        assert '"v"' in error.problem
        assert "laminar run VIEW --data DIR" in (error.hint or "")
    assert table.view.closed() == {(0, "a"): (1, 3)}


def test_rows_before_a_column_was_added_anew_are_not_taken_as_null(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark)
    table.insert("a", 1, 0)
    table.run()
    table.insert("a", 2, 1)
    table.alter(*ANEW)
    table.insert("z", 0, FAR)
    error = table.refusal(table.run)
    assert (error.code, "version 2" in error.problem) == ("LMR0613", True)
    anew = View(table.root / "anew", table.view.sql.replace("'events'", "'../events'"))
    anew.run(spark)
    assert anew.closed() == {(0, "a"): (2, None)}, "a new view takes the table as it is"


def test_a_view_that_has_read_all_before_a_column_was_added_anew_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark)
    table.insert("a", 1, 0)
    table.run()
    table.alter(*ANEW)
    table.insert("a", 2, 20)
    table.insert("z", 0, FAR)
    table.run()
    assert table.view.closed() == {(0, "a"): (1, 1), (20, "a"): (1, 2)}
    assert table.backfill(20, 30) is not None, "these rows came after the change"
    assert table.refusal(table.backfill).code == "LMR0613"


def test_a_planned_epoch_is_not_finished_under_another_column(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark)
    table.insert("a", 1, 0)
    with pytest.raises(CrashError):
        table.run(after_write=raising_after(1))
    table.alter(*ANEW)
    assert table.refusal(table.run).code == "LMR0613"
    table.insert("z", 0, FAR)
    table.run(replan=True)
    assert table.view.closed() == {(0, "a"): (1, None)}


@pytest.mark.parametrize("change", ["DROP COLUMN v", "RENAME COLUMN v TO u"])
def test_a_correction_refuses_a_table_that_lacks_a_declared_column(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    table = Table(tmp_path, spark)
    table.insert("a", 3, 1)
    table.insert("z", 0, FAR)
    table.run()
    table.alter(change)
    for act in (table.run, table.backfill, table.verify):
        assert table.refusal(act).code == "LMR0603"


def test_columns_that_come_and_go_beside_the_views_own_do_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark, ", w INT", properties="'delta.appendOnly' = 'true'")
    table.insert("a", 3, 1)
    table.run()
    table.alter(f"SET TBLPROPERTIES ({MAPPED})", "DROP COLUMN w", "ADD COLUMN w STRING", "ADD COLUMN u BIGINT")
    table.insert("z", 0, FAR)
    table.view = table.declared(f"u BIGINT, {COLUMNS}")
    table.run()
    table.backfill()
    assert table.verify().is_right
    assert table.view.closed() == {(0, "a"): (1, 3)}
    table.alter(*ANEW)
    assert table.refusal(table.backfill).code == "LMR0613", "its name in files was its own, without column mapping"


def test_a_feed_is_read_across_columns_that_were_renamed(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark, ", w BIGINT", changes="cdf")
    table.view = table.declared(select=CHANGING)
    table.insert("a", 1, 0)
    table.run()
    table.insert("a", 2, 1)
    table.alter("RENAME COLUMN w TO u")
    table.insert("a", 4, 1)
    table.spark.sql(f"DELETE FROM {table.name} WHERE v = 1")
    table.run()
    (row,) = table.view.store.read("output").to_pylist()
    assert (row["n"], row["total"]) == (2, 6)


def test_a_type_that_was_widened_is_read_as_it_is_declared(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/events`"
    spark.sql(f"CREATE TABLE {table} (k STRING, v INT, ts TIMESTAMP) USING delta "
              "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")  # fmt: skip
    spark.sql(f"INSERT INTO {table} VALUES ('a', 1, TIMESTAMP '{at(0).isoformat()}')")
    narrow = View(tmp_path, source(columns=COLUMNS.replace("BIGINT", "INT"), connector="delta", path="events") + SELECT)
    narrow.run(spark)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 5000000000, TIMESTAMP '{at(1).isoformat()}'), "
              f"('z', 0, TIMESTAMP '{at(FAR).isoformat()}')")  # fmt: skip
    for act in (lambda: narrow.run(spark), lambda: backfilled(narrow, spark)):
        with pytest.raises(LaminarError, match="LMR0603"):
            act()
    wide = View(tmp_path / "wide", source(connector="delta", path="../events") + SELECT)
    wide.run(spark)
    assert wide.closed() == {(0, "a"): (2, 5000000001)}
