"""Text of users and of data stays what it is wherever it becomes part of SQL.

Spark would put settings and the environment in the place of `${…}`; quotes, backslashes and backquotes end a literal or
a name where they are not escaped. Sources, views and time zones cannot have such names (LMR0014, LMR0303).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laminar_dagster.engine.column_names import held
from laminar_dagster.engine.correcting import backfill, fold_late
from laminar_dagster.engine.sources.messages import message_frame
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.time import SECOND, from_datetime
from laminar_dagster.semantics.types import STRING
from tests.engine.sources.views import FAR, NOON, View, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOSTILE = (
    "${env:HOME}", "${system:user.name}", "${spark.app.name}", "${hivevar:x}", "it's", "''", 'say "x"', "back\\slash\\",
    "\\u0041\\n", "tick`tick", "``", "'; DROP TABLE t; --", "/* x */", "%s {x} {{y}}", "$1 \\1", "ü\u2028ü",
)  # fmt: skip
# The event time of each row, in seconds; the last one closes all windows.
Rows = Sequence[tuple[dict[str, str], float]]


def name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def literal(value: str) -> str:
    """A quote is doubled, and so is a backslash."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def hostile_rows() -> list[tuple[dict[str, str], float]]:
    """Two rows of each hostile text, in all columns and as the key."""
    rows = [(dict.fromkeys(HOSTILE, text), 1.0) for text in HOSTILE]
    return [*rows, *rows]


def sql(options: dict[str, str], columns: Sequence[str] = HOSTILE) -> str:
    """Columns with hostile names, grouped by one, compared with literals, shown under hostile names."""
    declared = ", ".join(f"{name(column)} STRING" for column in columns)
    given = ", ".join(f"{key} = {literal(value)}" for key, value in options.items())
    same = ", ".join(f"COUNT(*) FILTER (WHERE {name(c)} = {literal(c)}) AS {name(f'is {c}')}" for c in columns)
    shown = ", ".join(f"MAX(concat({name(c)}, {literal(c)})) AS {name(c)}" for c in columns)
    return f"""
    CREATE SOURCE ev ({declared}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND)
    WITH ({given});
    CREATE MATERIALIZED VIEW out AS
    SELECT window_start, {name(columns[0])} AS k, {same}, {shown}
    FROM TUMBLE(ev, ts, INTERVAL '10' SECOND)
    WHERE coalesce({name(columns[-1])}, '') <> 'none'
    GROUP BY window_start, window_end, {name(columns[0])}
    EMIT ON WINDOW CLOSE;
    """


def expected(columns: Sequence[str], n: int) -> dict[str, dict[str, Any]]:
    return {
        text: {**{f"is {c}": n if c == text else 0 for c in columns}, **{c: text + c for c in columns}}
        for text in HOSTILE
    }


def shown(view: View) -> dict[str, dict[str, Any]]:
    rows = view.store.read("output").to_pylist()
    return {
        row["k"]: {c: v for c, v in row.items() if c not in ("k", "window_start") and not c.startswith("_")}
        for row in rows if row["k"] != "z"
    }  # fmt: skip


def jsonl(path: Path, rows: Rows) -> None:
    lines = [json.dumps({**row, "ts": at(seconds).isoformat()}, ensure_ascii=False) for row, seconds in rows]
    path.with_name(path.name + ".json").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def csv_(path: Path, rows: Rows) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*HOSTILE, "ts"])
    writer.writerows([*(row[column] for column in HOSTILE), at(seconds).isoformat()] for row, seconds in rows)
    path.with_name(path.name + ".csv").write_text(text.getvalue(), encoding="utf-8")


def parquet(path: Path, rows: Rows) -> None:
    table = pa.Table.from_pylist([{**row, "ts": at(seconds)} for row, seconds in rows])
    pq.write_table(table, path.with_name(path.name + ".parquet"), coerce_timestamps="us")


FORMATS: dict[str, Callable[[Path, Rows], None]] = {"json": jsonl, "csv": csv_, "parquet": parquet}


@pytest.mark.parametrize("form", FORMATS)
def test_text_of_files_and_of_views_over_them_stays_what_it_is(
    either_spark: SparkSession, tmp_path: Path, form: str
) -> None:
    folder = "${spark.app.name} it's `x` \\u0041 [1] {a} %25"
    (tmp_path / folder).mkdir()
    options = {
        "connector": "files",
        "format": form,
        "path": folder,
        **({"null_value": "${env:HOME} "} if form == "csv" else {}),
    }
    view = View(tmp_path, sql(options))
    end = [(dict.fromkeys(HOSTILE, "z"), float(FAR))]
    FORMATS[form](tmp_path / folder / "1 ${spark.app.name}'s `file`", [*hostile_rows(), *end])
    view.run(either_spark)
    assert shown(view) == expected(HOSTILE, 2)
    FORMATS[form](tmp_path / folder / "2 ${system}", hostile_rows()[: len(HOSTILE)])
    view.run(either_spark)
    check_late(view)
    assert corrected(view, either_spark) == expected(HOSTILE, 3)


def check_late(view: View) -> None:
    """Each late row is in the side output as it came, with its group."""
    late = view.aside()
    assert sorted(next(iter(json.loads(entry["group_key"]).values())) for entry in late) == sorted(HOSTILE)
    rows = [json.loads(entry["original_event"]) for entry in late if entry["original_event"].startswith("{")]
    assert all({row[column] for column in HOSTILE} <= set(HOSTILE) for row in rows)


def corrected(view: View, spark: SparkSession) -> dict[str, dict[str, Any]]:
    """The view after its late rows were folded back; a backfill of the same stretch finds nothing more to do."""
    data, noon = view.root / "data", from_datetime(NOON)
    folded = fold_late(view.plan, spark, project=view.root, data=data)
    assert folded is not None
    assert folded.counts["folded_rows"] == len(HOSTILE)
    again = backfill(view.plan, spark, project=view.root, data=data, ranges=[(noon, noon + 10 * SECOND)])
    assert again is not None
    assert again.counts["rows_out"] == 0
    found = verify(view.plan, spark, project=view.root, data=data, range_=Range())
    assert found is not None
    assert found.is_right
    return shown(view)


def test_text_of_a_delta_table_and_of_its_partitions_stays_what_it_is(
    either_spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "${spark.app.name} it's"
    columns = HOSTILE
    table = f"delta.{name(str(folder))}"
    declared = ", ".join(f"{name(column)} STRING" for column in columns)
    either_spark.sql(
        f"CREATE TABLE {table} ({declared}, ts TIMESTAMP) USING delta PARTITIONED BY ({name(columns[0])}) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    view = View(tmp_path, sql({"connector": "delta", "path": folder.name}))
    parquet(tmp_path / "rows", [*hostile_rows(), (dict.fromkeys(columns, "z"), float(FAR))])
    parquet(tmp_path / "late", hostile_rows()[: len(HOSTILE)])
    for name_ in ("rows", "late"):
        rows = either_spark.read.parquet(str(tmp_path / f"{name_}.parquet"))
        rows.coalesce(1).write.format("delta").mode("append").save(str(folder))
        view.run(either_spark)
    check_late(view)
    assert corrected(view, either_spark) == expected(columns, 3)


def test_values_that_do_not_fit_are_told_with_their_text_and_their_columns_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    declared = ", ".join(f"{name(column)} BIGINT" for column in HOSTILE)
    view = View(tmp_path, f"""
    CREATE SOURCE ev ({declared}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND)
    WITH (connector = 'files', format = 'json', path = 'in');
    CREATE MATERIALIZED VIEW out AS SELECT window_start, COUNT(*) AS n FROM TUMBLE(ev, ts, INTERVAL '10' SECOND)
    GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
    """)  # fmt: skip
    jsonl(tmp_path / "in" / "1", [({column: text}, 1.0) for column, text in zip(HOSTILE, HOSTILE[::-1], strict=True)])
    view.run(spark)
    told = sorted(entry["error_detail"] for entry in view.aside())
    wanted = zip(HOSTILE, HOSTILE[::-1], strict=True)
    assert told == sorted(f'column "{column}": {text} is not a value of type BIGINT' for column, text in wanted)


def test_a_header_of_a_message_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    headers = [{"key": text, "value": text.encode()} for text in HOSTILE]
    message = {"key": b"k", "value": b"'${env:HOME}'\\", "headers": headers, "partition": 0, "offset": 0, FILE: "f"}
    pq.write_table(pa.Table.from_pylist([message]), tmp_path / "messages.parquet")
    options = {"format": "text", **{f"metadata.{text}": f"header:{text}" for text in HOSTILE}}
    columns = (Field("line", STRING), *(Field(text, STRING) for text in HOSTILE))
    messages = spark.read.parquet(str(tmp_path / "messages.parquet"))
    (row,) = message_frame(spark, Source("ev", "kafka", columns, options), messages).collect()
    assert [row[held(text)] for text in HOSTILE] == list(HOSTILE)
    assert row[held("line")] == "'${env:HOME}'\\"
