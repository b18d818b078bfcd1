"""Delta tables as sources, end to end: every row once, whoever wrote the table and whatever it looks like inside."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.errors import LaminarError
from tests.engine.sources.views import (
    COLUMNS,
    FAR,
    ROWS,
    SELECT,
    View,
    append,
    at,
    delta_view,
    json_lines,
    rows,
    source,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def refusal(view: View, spark: SparkSession, **options: Any) -> LaminarError:
    with pytest.raises(LaminarError) as raised:
        view.run(spark, **options)
    return raised.value


def crash(view: View, spark: SparkSession, writes: int) -> None:
    """End the run after so many writes of its first epoch."""
    with pytest.raises(CrashError):
        view.run(spark, after_write=raising_after(writes))


def test_each_version_is_judged_by_the_watermark_before_it(either_spark: SparkSession, tmp_path: Path) -> None:
    view = delta_view(tmp_path)
    append(tmp_path, ("a", 1, 0), ("a", 2, 25))
    append(tmp_path, ("a", 10, 3), ("a", 20, 21))
    append(tmp_path, ("a", 100, 40), ("a", 200, 22))
    append(tmp_path, ("z", 0, FAR))
    (epoch,) = view.run(either_spark)
    assert epoch.counts["commits"] == 4
    assert view.closed() == {(0, "a"): (1, 1), (20, "a"): (3, 222), (40, "a"): (1, 100)}
    (late,) = view.aside()
    assert (late["reason"], late["event_time"]) == ("allowed_lateness_exceeded", at(3))
    assert view.counts()["rows_in"] == 7


def test_results_are_the_same_under_any_bound(spark: SparkSession, tmp_path: Path) -> None:
    seen = []
    for name, options in {"all": {}, "files": {"max_files": 1}, "rows": {"max_rows": 3}}.items():
        root = tmp_path / name
        root.mkdir()
        for i, seconds in enumerate([0, 25, 3]):
            append(root, ("a", i, seconds), ("b", i, seconds + 1))
        append(root, ("z", 0, FAR))
        view = delta_view(root)
        epochs = view.run(spark, **options)
        assert len(epochs) == {"all": 1, "files": 4, "rows": 2}[name]
        seen.append((view.closed(), sorted(e["original_event"] for e in view.aside()), view.counts()))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][2]["late"] == 2


def test_partition_columns_come_from_the_log_also_with_odd_values(either_spark: SparkSession, tmp_path: Path) -> None:
    keys = ["x y", "a/b:c%20", "ü", None, "a[1]"]
    for i, key in enumerate(keys):
        append(tmp_path, (key, 1, 20 * i), partition_by=["k"])
    append(tmp_path, ("x y", 1, 0), ("z", 0, FAR), partition_by=["k"])
    view = delta_view(tmp_path)
    view.run(either_spark)
    assert view.closed() == {(20 * i, key): (1, 1) for i, key in enumerate(keys)}
    assert view.counts() == {"rows_in": 7, "aggregated": 6, "filtered": 0, "late": 1, "error": 0}


BYTES = (b"\x01\x02", b"abc", b"a'\\b", "\u00fc".encode(), b"\\", b"${env:HOME}", None)


def of_bytes(root: Path, changes: str | None = None) -> View:
    """Each key is the text of bytes, in hexadecimal."""
    select = """CREATE MATERIALIZED VIEW out AS SELECT p, COUNT(*) AS n FROM ev GROUP BY p EMIT CHANGES;"""
    options = {} if changes is None else {"changes": changes}
    return View(root, source(columns=f"p BINARY, {COLUMNS}", connector="delta", path="events", **options) + select)


@pytest.mark.parametrize("kind", ["versions", "snapshot", "cdf"])
def test_bytes_that_partition_a_table_written_by_spark_are_what_spark_reads(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = f"delta.`{tmp_path}/events`"
    spark.sql(f"CREATE TABLE {table} (k STRING, v BIGINT, ts TIMESTAMP, p BINARY) USING delta PARTITIONED BY (p) "
              "TBLPROPERTIES (delta.enableChangeDataFeed = true)")  # fmt: skip
    values = ", ".join(f"('a', 1L, TIMESTAMP '{at(0).isoformat()}', {_hex(p)})" for p in BYTES)
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    if kind == "snapshot":
        spark.sql(f"INSERT INTO {table} VALUES ('gone', 1, NULL, NULL)")
        spark.sql(f"DELETE FROM {table} WHERE k = 'gone'")
    assert Counter(bytes(row.p) if row.p is not None else None for row in spark.table(table).collect()) == Counter(
        BYTES
    )
    assert _bytes_taken(spark, tmp_path, "cdf" if kind == "cdf" else None) == Counter(BYTES)


def _hex(value: bytes | None) -> str:
    return "NULL" if value is None else f"X'{value.hex()}'"


def _bytes_taken(spark: SparkSession, root: Path, changes: str | None = None) -> Counter[bytes | None]:
    view = of_bytes(root, changes)
    view.run(spark)
    return Counter({row["p"]: row["n"] for row in view.store.read("output").to_pylist()})


@pytest.mark.parametrize("begins", ["versions", "snapshot"])
def test_bytes_that_partition_a_table_written_by_deltalake_are_not_their_escapes(
    spark: SparkSession, tmp_path: Path, begins: str
) -> None:
    values = [*BYTES, b"\x80\xff", b"\x00"]
    table = pa.table({"p": pa.array(values, pa.binary())})
    given = rows(*(("a", 1, 0) for _ in values)).append_column("p", table.column("p"))
    write_deltalake(str(tmp_path / "events"), given, partition_by=["p"])
    if begins == "snapshot":
        append_gone = rows(("gone", 1, 0)).append_column("p", pa.array([b"x"], pa.binary()))
        write_deltalake(str(tmp_path / "events"), append_gone, mode="append")
        DeltaTable(str(tmp_path / "events")).delete("k = 'gone'")
    assert _bytes_taken(spark, tmp_path) == Counter(values)


def test_a_table_partitioned_by_a_date_written_by_spark_is_read(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/events`"
    spark.sql(f"CREATE TABLE {table} (k STRING, v BIGINT, ts TIMESTAMP, day DATE) USING delta PARTITIONED BY (day, k)")
    values = ", ".join(f"('{k}', 1, TIMESTAMP '{at(s).isoformat()}', DATE '2026-01-0{d}')" for k, s, d in [
        ("a b", 0, 1), ("a b", 1, 2), ("z", FAR, 1)])  # fmt: skip
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    view = View(tmp_path, source(columns=f"day DATE, {COLUMNS}", connector="delta", path="events") + SELECT.replace(
        "GROUP BY", "WHERE day = DATE '2026-01-01' GROUP BY"))  # fmt: skip
    view.run(spark)
    assert view.closed() == {(0, "a b"): (1, 1)}
    assert view.counts()["filtered"] == 1


def test_columns_may_be_left_out_of_create_source(spark: SparkSession, tmp_path: Path) -> None:
    tags = pa.array([["x"], ["y"]], pa.list_(pa.string()))
    write_deltalake(str(tmp_path / "events"), rows(("a", 1, 0), ("z", 0, FAR)).append_column("tags", tags))
    view = delta_view(tmp_path, None, event_time="ts", watermark_lag="0 seconds")
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1)}


def test_column_mapping_and_renamed_columns_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/events`"
    spark.sql(
        f"CREATE TABLE {table} (old STRING, v BIGINT, ts TIMESTAMP, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {table} VALUES ('a', 1, TIMESTAMP '{at(0).isoformat()}', 'x y')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN old TO k")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 2, TIMESTAMP '{at(1).isoformat()}', NULL), "
              f"('z', 0, TIMESTAMP '{at(FAR).isoformat()}', 'x y')")  # fmt: skip
    view = View(tmp_path, source(columns=f"p STRING, {COLUMNS}", connector="delta", path="events") + SELECT.replace(
        "COUNT(*)", "COUNT(p)"))  # fmt: skip
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 3)}


def test_deleted_rows_of_the_first_snapshot_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/events`"
    spark.sql(
        f"CREATE TABLE {table} (k STRING, v BIGINT, ts TIMESTAMP) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ 'a', id, TIMESTAMP '{at(0).isoformat()}' FROM range(5)")
    spark.sql(f"DELETE FROM {table} WHERE v < 2")
    view = delta_view(tmp_path)
    (first,) = view.run(spark)
    assert (first.counts["commits"], first.counts["rows_in"]) == (1, 3)
    spark.sql(f"INSERT INTO {table} VALUES ('z', 0, TIMESTAMP '{at(FAR).isoformat()}')")
    view.run(spark)
    assert view.closed() == {(0, "a"): (3, 9)}


def test_a_table_whose_early_log_is_gone_is_taken_as_one_commit(either_spark: SparkSession, tmp_path: Path) -> None:
    for i in range(3):
        append(tmp_path, ("a/b c", 1, 30 - 10 * i), partition_by=["k"])
    DeltaTable(str(tmp_path / "events")).create_checkpoint()
    (tmp_path / "events/_delta_log/00000000000000000000.json").unlink()
    view = delta_view(tmp_path)
    (first,) = view.run(either_spark)
    assert (first.counts["commits"], first.counts["rows_in"], first.counts["late"]) == (1, 3, 0)
    append(tmp_path, ("z", 0, FAR), partition_by=["k"])
    view.run(either_spark)
    assert view.closed() == {(10 * i, "a/b c"): (1, 1) for i in (1, 2, 3)}


@pytest.mark.parametrize("options", [{"coerce_timestamps": "ms"}, {"use_deprecated_int96_timestamps": True}])
def test_times_of_other_resolutions_are_read(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    append(tmp_path, ("a", 1, 0.5), ("z", 0, FAR))
    (file,) = (tmp_path / "events").glob("*.parquet")
    pq.write_table(pq.read_table(file), file, **options)
    resize(tmp_path, file)
    view = delta_view(tmp_path)
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1)}


def resize(root: Path, file: Path) -> None:
    """Let the log say the size that the file has now."""
    path = root / "events/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = file.stat().st_size
    path.write_text("\n".join(json.dumps(action) for action in actions))


def test_a_row_without_a_time_is_set_aside_with_its_values(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, None), ("a", 2, 0), ("z", 0, FAR))
    view = delta_view(tmp_path)
    view.run(spark)
    assert view.faults() == {'{"k":"a","v":1,"ts":null}': "null_event_time"}
    assert view.counts() == {"rows_in": 3, "aggregated": 2, "filtered": 0, "late": 0, "error": 1}


def test_optimize_and_vacuum_between_runs_take_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    view = delta_view(tmp_path)
    append(tmp_path, ("a", 1, 0))
    append(tmp_path, ("a", 2, 1))
    view.run(spark)
    table = DeltaTable(str(tmp_path / "events"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    append(tmp_path, ("z", 0, FAR))
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3)}
    assert view.counts()["rows_in"] == 3


def test_a_rewrite_stops_the_view_and_ignore_lets_it_go_on(spark: SparkSession, tmp_path: Path) -> None:
    view = delta_view(tmp_path)
    append(tmp_path, ("a", 1, 0))
    view.run(spark)
    append(tmp_path, ("a", 2, 1))
    DeltaTable(str(tmp_path / "events")).update(updates={"v": "9"})
    append(tmp_path, ("z", 0, FAR))
    error = refusal(view, spark)
    assert error.code == "LMR0604"
    assert view.counts()["rows_in"] == 2, "what came before the rewrite is taken"
    patient = delta_view(tmp_path, on_rewrite="ignore")
    patient.run(spark)
    assert patient.closed() == {(0, "a"): (2, 3)}


def test_columns_added_later_are_null_in_older_files(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    wider = rows(("a", 2, 1), ("z", 0, FAR)).append_column("w", pa.array([5, 6]))
    write_deltalake(str(tmp_path / "events"), wider, mode="append", schema_mode="merge")
    view = View(tmp_path, source(columns=f"w BIGINT, {COLUMNS}", connector="delta", path="events") + SELECT.replace(
        "SUM(v)", "SUM(w)"))  # fmt: skip
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 5)}


def test_a_planned_file_that_is_gone_stops_the_view_until_it_is_back(spark: SparkSession, tmp_path: Path) -> None:
    view = delta_view(tmp_path)
    append(tmp_path, ("a", 1, 0))
    view.run(spark)
    append(tmp_path, ("a", 2, 1), ("z", 0, FAR))
    crash(view, spark, writes=1)
    newest = max((tmp_path / "events").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    shutil.move(newest, tmp_path / "kept")
    error = refusal(view, spark)
    assert error.code == "LMR0601"
    assert "Epoch 1 is committed" in (error.committed or "")
    assert newest.name in (error.detail or "")
    shutil.move(tmp_path / "kept", newest)
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3)}


def replan_view(root: Path) -> tuple[View, Path]:
    (root / "in").mkdir()
    write(root, "kept.json", json_lines(("a", 1, 0)), mtime=1)
    lost = write(root, "lost.json", json_lines(("a", 2, 1)), mtime=2)
    return View(root, source(connector="files", path="in", format="json") + SELECT), lost


def test_replan_goes_on_without_files_that_are_lost(spark: SparkSession, tmp_path: Path) -> None:
    view, lost = replan_view(tmp_path)
    crash(view, spark, writes=1)
    lost.unlink()
    write(tmp_path, "next.json", json_lines(("z", 0, FAR)))
    assert refusal(view, spark).code == "LMR0601"
    view.run(spark, replan=True)
    assert view.closed() == {(0, "a"): (1, 1)}
    assert view.counts()["rows_in"] == 2


def test_replan_is_refused_once_part_of_the_epoch_has_landed(spark: SparkSession, tmp_path: Path) -> None:
    view, lost = replan_view(tmp_path)
    crash(view, spark, writes=4)
    content = lost.read_bytes()
    lost.unlink()
    assert refusal(view, spark).code == "LMR0601"
    assert refusal(view, spark, replan=True).code == "LMR0403"
    lost.write_bytes(content)
    write(tmp_path, "next.json", json_lines(("z", 0, FAR)))
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3)}


def test_a_delta_table_and_a_directory_can_feed_one_view(either_spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    union = """
    CREATE MATERIALIZED VIEW out AS
    SELECT window_start, k, COUNT(*) AS n, SUM(v) AS total
    FROM TUMBLE((SELECT k, v, ts FROM table_events UNION ALL SELECT k, v, ts FROM file_events),
                ts, INTERVAL '10' SECOND)
    GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
    """
    sql = source("table_events", connector="delta", path="events")
    sql += source("file_events", connector="files", path="in", format="json")
    view = View(tmp_path, sql + union)
    append(tmp_path, ("a", 1, 0))
    write(tmp_path, "1.json", json_lines(("a", 10, 5)) + "bad\n")
    view.run(either_spark)
    append(tmp_path, ("a", 2, 6), ("t", 0, FAR))
    view.run(either_spark)
    assert view.closed() == {}, "the directory holds the watermark back"
    write(tmp_path, "2.json", json_lines(("a", 20, 7), ("f", 0, FAR)))
    view.run(either_spark)
    assert view.closed() == {(0, "a"): (4, 33)}
    (entry,) = view.aside()
    assert (entry["source"], entry["original_event"]) == ("file_events", "bad")
    assert view.counts()["rows_in"] == 7


def test_a_source_may_lie_beside_the_project(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in (0, 30, 1):
        append(tmp_path, ("a", 1, seconds), partition_by=["k"])
    append(tmp_path, ("z", 0, FAR), partition_by=["k"])
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    view = View(Path(), source(connector="delta", path="../events") + SELECT)
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (30, "a"): (1, 1)}
    assert view.counts() == {"rows_in": 4, "aggregated": 3, "filtered": 0, "late": 1, "error": 0}


def test_parquet_files_are_read_with_times_without_a_zone_as_utc(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    naive = rows(("a", 1, 0)).set_column(2, "ts", rows(("a", 1, 0)).column("ts").cast(pa.timestamp("us")))
    pq.write_table(naive, tmp_path / "in/day=1/x [1].parquet")
    pq.write_table(
        pa.table({"ts": pa.array([at(1)], ROWS.field("ts").type)}), tmp_path / "in/day=1/lacks-k-and-v.parquet"
    )
    pq.write_table(rows(("a", 2, None), ("z", 0, FAR)), tmp_path / "in/last.parquet")
    view = View(tmp_path, source(connector="files", path="in", format="parquet") + SELECT)
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (0, None): (1, None)}
    assert view.reasons() == {"null_event_time": 1}
    assert view.counts()["rows_in"] == 4
