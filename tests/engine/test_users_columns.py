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

from laminar_dagster.engine.column_names import USERS
from laminar_dagster.engine.correcting import backfill
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
SHOWN = "CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, {keys}, {sums} FROM {window} WHERE {where}"
GROUPED = " GROUP BY window_start, window_end, {keys} EMIT {strategy} WITH (max_{limit} = 5);"


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
    sums = ", ".join(f"SUM({quoted(name)}) AS {quoted(name)}" for name in others)
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
