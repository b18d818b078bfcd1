"""A user's column may have any name, also one that the engine has for a column of its own."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from laminar_dagster.cli.show import columns_for_screen, select
from laminar_dagster.engine.column_names import USERS
from laminar_dagster.engine.correcting import backfill
from laminar_dagster.engine.in_process_sql import parquet
from laminar_dagster.engine.sinks.collapsing import NEW, refuse_present
from laminar_dagster.engine.soundness import changelog_against_table, faults_of
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.engine.window_account import accounts
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import SECOND, from_datetime
from state_store import format as f
from tests.engine.sources.views import NOON, View, at, source

ENGINE = Path(__file__).parents[2] / "laminar_dagster" / "engine"
# What the engine's code calls columns, and what its tables of state do.
UNDERSCORED = {
    name
    for path in ENGINE.rglob("*.py")
    for name in re.findall(r"(?<![\w.])_[a-z][a-z_]*\b(?!\()", "".join(re.findall(r'"[^"\n]*"', path.read_text())))
}
STATE = {
    *("k0", "k1", "a0", "a1", "a0_n", "pane_start", "pane_end", "hidden_until", "evicted_from", "bucket", "key_hash"),
    *("row_count", "updated_at", "x", "value", "window_id", "c_0", "c_k0", "c__file", "a.b", "how many", "x`y"),
    *("filename", "weight", "place", "copy", "low", "high", "file", "side", "_p_k", "_p__file"),
}
PUBLIC = {"_op", "_weight", "_epoch", "_seq", "_event_time", "_emitted_at", "_change_type", "_commit_version"}
PUBLIC |= {"_commit_timestamp", "_delta_log"}
NAMES = sorted((UNDERSCORED | STATE) - PUBLIC)
ROWS = ((1, 0), (2, 5), (4, 40), (8, 3))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_the_engines_own_columns_are_found_and_none_begins_as_those_of_users_do() -> None:
    assert {
        "_file",
        "_raw",
        "_fault",
        "_detail",
        "_t",
        "_error",
        "_reason",
        "_broken",
        "_j",
        "_odd",
        "_whole",
        "_s",
    } <= {*NAMES}
    assert not [name for name in UNDERSCORED if name.startswith(USERS)]


def records() -> list[dict[str, Any]]:
    return [{**dict.fromkeys(NAMES, value), "k": "a", "ts": at(seconds)} for value, seconds in ROWS]


def write_json(root: Path, number: int, row: dict[str, Any]) -> None:
    (root / "in" / f"{number}.json").write_text(json.dumps(row, default=str) + "\n")


def write_csv(root: Path, number: int, row: dict[str, Any]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([row.keys(), row.values()])
    (root / "in" / f"{number}.csv").write_text(text.getvalue())


def write_parquet(root: Path, number: int, row: dict[str, Any]) -> None:
    pq.write_table(pa.Table.from_pylist([row]), root / "in" / f"{number}.parquet")


def write_delta(root: Path, _: int, row: dict[str, Any]) -> None:
    row = {name: value for name, value in row.items() if not set(name) & set(" `")}
    write_deltalake(str(root / "in"), pa.Table.from_pylist([row]), mode="append", partition_by=["_file", "k"])


FORMS: dict[str, tuple[Callable[[Path, int, dict[str, Any]], None], dict[str, str]]] = {
    "json": (write_json, {"connector": "files", "format": "json"}),
    "csv": (write_csv, {"connector": "files", "format": "csv"}),
    "parquet": (write_parquet, {"connector": "files", "format": "parquet"}),
    "delta": (write_delta, {"connector": "delta"}),
}
# In the table of results beside the data: refused there, and nowhere else.
OF_THE_TABLE = ("_partition", "_epochs", "_window_start", "_window_end")
KEYS = ("_file", "_reason", "k0", "pane_start")
# By these the engine orders rows that have one event time.
OF_ARRIVAL = ("_arrival", "_block", "_row_in_block", "_file_number")
SHOWN = "CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, {keys}, {sums} FROM {window} WHERE {where}"
GROUPED = " GROUP BY window_start, window_end, {keys} EMIT {strategy} WITH (max_{limit} = 5);"


def aggregate(name: str) -> str:
    """In a group are one row, or rows alike."""
    return "FIRST" if name in OF_ARRIVAL else "SUM"


def early(view: View) -> list[dict[str, Any]]:
    """The results of windows within half a minute of noon."""
    found = view.store.read(f.OUTPUT).to_pylist()
    return [row for row in found if row["window_start"] >= NOON and row["window_end"] <= at(30)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("form", "strategy", "window"),
    [
        ("json", "ON WINDOW CLOSE", "TUMBLE(ev, ts, INTERVAL '10' SECOND)"),
        ("csv", "ON UPDATE", "HOP(ev, ts, INTERVAL '10' SECOND, INTERVAL '20' SECOND)"),
        ("parquet", "CHANGES", "TUMBLE(ev, ts, INTERVAL '10' SECOND)"),
        ("delta", "ON WINDOW CLOSE", "SESSION(ev, ts, INTERVAL '10' SECOND)"),
    ],
)
def test_a_column_of_a_source_may_be_called_as_the_engine_calls_its_own(
    spark: Any, tmp_path: Path, form: str, strategy: str, window: str
) -> None:
    (tmp_path / "in").mkdir()
    add, options = FORMS[form]
    names = [name for name in NAMES if form != "delta" or not set(name) & set(" `")]
    columns = ", ".join(f"{quoted(name)} BIGINT" for name in names)
    declared = f"k STRING, {columns}, ts TIMESTAMP, WATERMARK FOR ts"
    keys = ", ".join(map(quoted, KEYS))
    others = [name for name in names if name not in (*KEYS, *OF_THE_TABLE)]
    sums = ", ".join(f"{aggregate(name)}({quoted(name)}) AS {quoted(name)}" for name in others)
    where = f"{quoted('_kept')} + {quoted('_t')} > 0"
    sql = SHOWN.format(keys=keys, sums=sums, window=window, where=where) + GROUPED.format(
        keys=keys, strategy=strategy, limit="state_rows" if window.startswith("SESSION") else "groups_per_window"
    )
    view = View(tmp_path, source(columns=declared, path="in", **options) + sql)
    for number, row in enumerate(records()):
        add(tmp_path, number, row)
        view.run(spark)
    noon = from_datetime(NOON)
    shown = early(view)
    assert sorted(row["_file"] for row in shown)[:2] == [1, 2]
    assert all(row[name] == row["_file"] for row in shown for name in others)
    (late,) = view.aside()
    original = late["original_event"]
    assert form == "csv" or json.loads(original)["_original"] == 8
    assert json.loads(late["group_key"]) == dict.fromkeys(KEYS, 8)
    backfill(view.plan, spark, project=tmp_path, data=tmp_path / "data", ranges=[(noon, noon + 10 * SECOND)])
    anew = early(view)
    assert sorted(row["_file"] for row in anew) == [1, 2, 8]
    assert all(row[name] == row["_file"] for row in anew for name in others)


MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
# Of a Delta source and its feed; the feed's own names Delta itself refuses.
OF_DELTA = ("_file", "_metadata", "_asked", "_p_k", "_weight", "_source", "c_v", "v")
TOTALS = "CREATE MATERIALIZED VIEW out AS SELECT k, {sums} FROM ev GROUP BY k EMIT CHANGES;"


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["versions", "snapshot", "feed"])
def test_a_mapped_column_of_a_delta_table_may_be_called_as_the_engine_calls_its_own(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    table, feed = f"delta.`{tmp_path / 'in'}`", ", 'delta.enableChangeDataFeed' = 'true'" if kind == "feed" else ""
    columns = ", ".join(f"{name} BIGINT" for name in OF_DELTA)
    properties = f"PARTITIONED BY (_p_k, k) TBLPROPERTIES ({MAPPED}{feed})"
    spark.sql(f"CREATE TABLE {table} (k STRING, {columns}) USING delta {properties}")
    changes = {"changes": "cdf"} if kind == "feed" else {}
    sums = ", ".join(f"SUM({name}) AS `sum of {name}`" for name in OF_DELTA)
    declared = source(columns=f"k STRING, {columns}", connector="delta", path="in", **changes)
    view = View(tmp_path, declared + TOTALS.format(sums=sums))
    for value in (1, 2):
        values = ", ".join(f"{value}L AS {name}" for name in OF_DELTA)
        spark.sql(f"INSERT INTO {table} BY NAME SELECT 'a' AS k, {values}")
        if kind == "snapshot" and value == 1:
            spark.sql(f"INSERT INTO {table} BY NAME SELECT 'gone' AS k, {values}")
            spark.sql(f"DELETE FROM {table} WHERE k = 'gone'")
        view.run(spark)
    (row,) = view.store.read(f.OUTPUT).to_pylist()
    assert [row[f"sum of {name}"] for name in OF_DELTA] == [3] * len(OF_DELTA)


# What tables are called in the engine's SQL, and columns that it looks up there.
TABLES = ("t", "s", "a", "b", "c", "n", "o", "g", "p", "shown", "expected", "results", "gone", "side", "spans")
INSIDE = "k STRING, total DOUBLE, _window_start BIGINT, _window_end BIGINT, event_time STRING, file_row_number BIGINT"
FIELDS = {"k": "x", "total": 0.5, "_window_start": 1, "_window_end": 1, "event_time": "x", "file_row_number": 0}


@pytest.mark.spark
@pytest.mark.parametrize("window", ["TUMBLE", "SESSION"])
def test_a_struct_may_be_called_as_a_table_of_the_engines_sql(spark: Any, tmp_path: Path, window: str) -> None:
    (tmp_path / "in").mkdir()
    columns = ", ".join(f"{name} STRUCT<{INSIDE}>" for name in TABLES)
    declared = f"k STRING, v DOUBLE, {columns}, ts TIMESTAMP, WATERMARK FOR ts"
    keys = ", ".join(["k", *TABLES])
    view = View(
        tmp_path,
        source(columns=declared, path="in", connector="files", format="parquet")
        + f"CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, {keys}, SUM(v) AS total "
        f"FROM {window}(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, {keys} EMIT CHANGES;",
    )
    for number, (value, seconds) in enumerate(((1.0, 0), (2.0, 5), (4.0, 40), (8.0, 3))):
        row = {"k": "a", "v": value, **dict.fromkeys(TABLES, FIELDS), "ts": at(seconds)}
        write_parquet(tmp_path, number, row)
        view.run(spark)
    assert [row["total"] for row in early(view)] == [3.0]
    noon = from_datetime(NOON)
    backfill(view.plan, spark, project=tmp_path, data=tmp_path / "data", ranges=[(noon, noon + 10 * SECOND)])
    assert [row["total"] for row in early(view)] == [11.0]
    found = verify(view.plan, spark, project=tmp_path, data=tmp_path / "data", range_=Range())
    assert found is not None
    assert found.is_right


BACKSLASH, QUOTE = "back\\slash\\", 'say "x"'


@pytest.mark.spark
def test_the_accounts_of_sessions_take_columns_of_any_name(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    keys = ", ".join(map(quoted, (BACKSLASH, QUOTE)))
    declared = f"{quoted(BACKSLASH)} STRING, {quoted(QUOTE)} STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts"
    view = View(
        tmp_path,
        source(columns=declared, path="in", connector="files", format="json")
        + f"CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, {keys}, SUM(v) AS first, MAX(v) AS until, "
        f"COUNT(*) AS weight FROM SESSION(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, {keys} "
        "EMIT CHANGES;",
    )
    for number, (value, seconds) in enumerate(ROWS):
        write_json(tmp_path, number, {BACKSLASH: "a", QUOTE: "b", "v": value, "ts": at(seconds)})
        view.run(spark)
    plan, store = view.plan, view.store
    commit = store.commit()
    assert commit is not None
    asked = {BACKSLASH: "a", QUOTE: "b"}
    (account,) = accounts(plan, store, commit, from_datetime(at(2)), asked)
    assert (account.is_open, dict(account.keys), dict(account.aside)) == (
        False,
        asked,
        {("late", "allowed_lateness_exceeded"): 1},
    )
    faults = changelog_against_table(plan.query, store, commit)
    assert faults is not None
    assert faults.count == 0
    noon = from_datetime(NOON)
    backfill(plan, spark, project=tmp_path, data=tmp_path / "data", ranges=[(noon, noon + 10 * SECOND)])
    assert [row["first"] for row in early(view)] == [11]


def test_a_fault_is_counted_beside_columns_of_any_name(tmp_path: Path) -> None:
    row = {"too_many": 5, "_too_many": 6, "weight": 7}
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([row]), path)
    counted = f"SELECT *, 2 AS counted FROM {parquet([str(path)])}"
    assert faults_of(counted, "too_many", []).examples == [{**row, "__too_many": 2}]


def test_a_target_may_have_a_struct_that_is_called_as_the_changes_are(tmp_path: Path) -> None:
    one, other = {"k": 1, "c": {"k": 2}, "t": {"k": 1}}, {"k": 2, "c": {"k": 2}, "t": {"k": 2}}
    fresh = pa.Table.from_pylist([{**one, NEW: True}])
    refuse_present(fresh, pa.Table.from_pylist([other]), ["k"])
    with pytest.raises(LaminarError, match="LMR0642"):
        refuse_present(fresh, pa.Table.from_pylist([other, one]), ["k"])


def test_what_a_view_shows_has_all_its_columns_whatever_they_are_called() -> None:
    names = ("_file", "_t", QUOTE, "_k", "rows", "_op_")
    own = ("_k0", "_window_start", "_window_end", "_epoch", "_emitted_at", "_partition")
    table = pa.Table.from_pylist([dict.fromkeys((*names, *own), value) for value in (2, 3, 1)])
    found, total = select(table, None, 2, side_output=False)
    assert ([row["_file"] for row in found.to_pylist()], total) == ([2, 3], 3)
    assert tuple(columns_for_screen(table)) == names
