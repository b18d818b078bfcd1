"""JSON lines, end to end: every good row is counted, every bad line is set aside once, as it was written."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.errors import LaminarError
from state_store import format as f
from tests.engine.sources.views import FAR, View, at, files_view, json_line, json_lines, source, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TS = '"ts":"2026-01-01T12:00:00Z"'
WIDE = (
    "k STRING, n BIGINT, i INT, t TINYINT, x DOUBLE, r FLOAT, d DECIMAL(10,2), b BOOLEAN, day DATE, y BINARY, "
    "tags ARRAY<INT>, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND"
)
WIDE_SELECT = """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS rows, COUNT(k) AS k, SUM(n) AS n, SUM(i) AS i, SUM(t) AS t, SUM(x) AS x, SUM(d) AS d,
       COUNT(b) AS b, MAX(day) AS day, COUNT(r) AS r
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


def wide_view(root: Path) -> View:
    (root / "in").mkdir()
    return View(root, source(columns=WIDE, connector="files", path="in", format="json") + WIDE_SELECT)


def test_json_lines_are_counted_over_several_files_and_runs(either_spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    write(tmp_path, "1.json", json_lines(("a", 1, 0), ("b", 2, 1)), mtime=1)
    write(tmp_path, "deep/er/2.json", json_lines(("a", 10, 2)), mtime=2)
    view.run(either_spark)
    write(tmp_path, "3.json", json_lines(("a", 100, 3), ("z", 0, FAR)), mtime=3)
    view.run(either_spark)
    assert view.closed() == {(0, "a"): (3, 111), (0, "b"): (1, 2)}
    assert view.counts() == {"rows_in": 5, "aggregated": 5, "filtered": 0, "late": 0, "error": 0}
    assert view.run(either_spark) == []


MALFORMED = [
    '{"k":"truncated",' + TS,
    "word",
    "5",
    "null",
    '"text"',
    '[{"k":"array",' + TS + "}]",
    '{"k":"two",' + TS + '}{"k":"two",' + TS + "}",
    '{"k":"tail",' + TS + "} and more",
    '{"k":"tail",' + TS + "}}",
    '{"k":"comma",' + TS + ",}",
    "{'k':'quotes'}",
    '{"x":NaN,' + TS + "}",
    '{"x":007,' + TS + "}",
    '{"k":"tab\there",' + TS + "}",
    '{"deep":' + "[" * 2000 + "]" * 2000 + "," + TS + "}",
    # Text that is JSON only inside of something else, whatever the parser is given around it.
    '{"k":"twice",' + TS + '},"_row":{"k":"twice",' + TS + "}",
    '{"k":"member",' + TS + '},"junk":1',
    '{"k":"end",' + TS + '},"_end":0}',
    '{"k":"end",' + TS + '},"_end":0} and more',
    '{"k":"comma",' + TS + "},",
    '{"k":"row, row",' + TS + '},{"k":"row, row",' + TS + "}",
    '{"k":"row, end",' + TS + "},{}]}",
    '{"k":"array",' + TS + "}]",
    '{"k":"array",' + TS + '}],"junk":[1',
    '{"k":"array",' + TS + '}],[{"k":"array",' + TS + "}",
    '],[{"k":"array",' + TS + "}",
    ',{"k":"comma",' + TS + "}",
    'null,{"k":"null",' + TS + "}",
]
MISMATCHED = [
    '{"n":"abc",' + TS + "}",
    '{"n":"12",' + TS + "}",
    '{"n":1.5,' + TS + "}",
    '{"n":true,' + TS + "}",
    '{"n":{"a":1},' + TS + "}",
    '{"n":9223372036854775808,' + TS + "}",
    '{"i":2147483648,' + TS + "}",
    '{"t":200,' + TS + "}",
    '{"x":"1.5",' + TS + "}",
    '{"x":1e400,' + TS + "}",
    '{"x":"NaN",' + TS + "}",
    '{"r":1e39,' + TS + "}",
    '{"d":123456789.5,' + TS + "}",
    '{"d":1e400,' + TS + "}",
    '{"d":"1,5",' + TS + "}",
    '{"d":"abc",' + TS + "}",
    '{"b":"true",' + TS + "}",
    '{"b":1,' + TS + "}",
    '{"day":"2026-02-30",' + TS + "}",
    '{"day":"2026-2-3",' + TS + "}",
    '{"day":20260203,' + TS + "}",
    '{"y":"***",' + TS + "}",
    '{"tags":[1,"a"],' + TS + "}",
    '{"ts":"yesterday"}',
    '{"ts":""}',
    '{"ts":"2026-02-30T00:00:00Z"}',
    '{"ts":"2026-01-01T25:00:00Z"}',
    '{"ts":"2026"}',
    '{"ts":"T12:30"}',
    '{"ts":1767268800}',
    '{"ts":1767268800.5}',
    '{"ts":"2026-01-01T12:00:00 Europe/Paris"}',
    '{"n":"bad","k":"kept",' + TS + "}",
]
WITHOUT_TIME = ['{"k":"no time"}', '{"k":"null time","ts":null}', "{}"]
GOOD = [
    '{"k":"all","n":1,"i":2,"t":3,"x":1.5,"r":0.5,"d":1.10,"b":true,"day":"2026-01-01","y":"YWJj","tags":[1],'
    + TS
    + "}",
    '{"k":null,"n":null,' + TS + "}",
    '{"extra":{"deep":[1,{"a":2}]},' + TS + "}",
    '  {"n":-9223372036854775808,"t":-128,' + TS + "}  ",
    '{"n":9223372036854775807,"d":"2.20","x":1,' + TS + "}",
    '{"d":99999999.99,"ts":"2026-01-01 12:00:00"}',
    '{"ts":"2026-01-01T14:00:00.123456+02:00"}',
    '{"ts":"2026-01-01T12:00:00+0000"}',
    '{"k":5,' + TS + "}",
    '{"k":"ünï \\u00e9 \\n",' + TS + "}",
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> View:
    """One file with every kind of line, run once."""
    root = tmp_path_factory.mktemp("json")
    view = wide_view(root)
    end = '{"ts":"2026-01-01T13:00:00Z"}'
    lines = [*GOOD, *MALFORMED, "", "   ", "\t", *MISMATCHED, *WITHOUT_TIME, end]
    write(root, "all.json", "\n".join(lines) + "\n")
    view.run(spark)
    return view


def test_each_bad_line_is_set_aside_once_with_its_text_and_reason(judged: View) -> None:
    expected = {
        **dict.fromkeys(MALFORMED, "malformed_record"),
        **dict.fromkeys(MISMATCHED, "type_mismatch"),
        **dict.fromkeys(WITHOUT_TIME, "null_event_time"),
    }
    assert judged.faults() == expected


def test_every_good_line_is_counted_and_blank_ones_are_not_rows(judged: View) -> None:
    bad = len(MALFORMED) + len(MISMATCHED) + len(WITHOUT_TIME)
    good = len(GOOD) + 1
    assert judged.counts() == {
        "rows_in": good + bad, "aggregated": good, "filtered": 0, "late": 0, "error": bad
    }  # fmt: skip


def test_good_values_are_exact(judged: View) -> None:
    (row,) = judged.store.read(f.OUTPUT).to_pylist()
    assert row["rows"] == len(GOOD)
    assert (row["n"], row["i"], row["t"], row["x"]) == (0, 2, -125, 2.5)
    assert row["d"] == Decimal("100000003.29")
    assert (row["b"], row["r"], row["day"].isoformat()) == (1, 1, "2026-01-01")


def test_a_bad_line_tells_its_file_and_what_is_wrong_with_it(judged: View) -> None:
    entries = {entry["original_event"]: entry for entry in judged.aside()}
    assert all(entry["source_file"].endswith("/in/all.json") for entry in entries.values())
    assert {entry["source"] for entry in entries.values()} == {"ev"}
    assert entries[MISMATCHED[0]]["error_detail"] == 'column "n": abc is not a value of type BIGINT'
    assert entries["word"]["error_detail"] == "the line is not one JSON object"
    assert entries[MISMATCHED[0]]["event_time"] == at(0)
    assert entries["word"]["event_time"] is None


def test_a_bad_line_does_not_move_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    write(tmp_path, "1.json", json_line("a", "not a number", FAR) + "\n" + json_line("a", 1, 0) + "\n")
    write(tmp_path, "2.json", json_lines(("a", 1, 1)))
    view.run(spark)
    assert view.closed() == {}
    assert view.counts()["error"] == 1


def test_bytes_that_are_not_utf8_are_malformed_and_still_shown(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    good = json_lines(("a", 1, 0), ("z", 1, FAR)).encode()
    write(tmp_path, "1.json", b'{"k":"caf\xe9","v":1,' + TS.encode() + b"}\n" + good)
    view.run(spark)
    (entry,) = view.aside()
    assert entry["reason"] == "malformed_record"
    assert entry["original_event"] == '{"k":"caf\ufffd","v":1,' + TS + "}"
    assert view.counts()["aggregated"] == 2


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    text = json_lines(("a", 1, 0), ("a", 2, 1), ("z", 1, FAR)).replace("\n", "\r\n")
    write(tmp_path, "1.json", "\ufeff" + text)
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3)}


def test_empty_files_and_blank_files_are_commits_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    write(tmp_path, "1.json", "")
    write(tmp_path, "2.json", "\n  \n\t\n")
    (only,) = view.run(spark)
    assert (only.counts["commits"], only.counts["rows_in"]) == (2, 0)
    write(tmp_path, "3.json", json_lines(("a", 1, 0), ("z", 1, FAR)))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1)}


def test_gz_is_read_and_one_that_is_cut_short_is_named(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    write(tmp_path, "1.json.gz", gzip.compress(json_lines(("a", 1, 0)).encode()))
    view.run(spark)
    whole = gzip.compress(json_lines(*[("a", i, 1) for i in range(500)], ("z", 0, FAR)).encode())
    path = write(tmp_path, "2.json.gz", whole[: len(whole) // 2])
    with pytest.raises(LaminarError) as raised:
        view.run(spark)
    assert raised.value.code == "LMR0609"
    assert "Epoch 1 is committed" in (raised.value.committed or "")
    path.write_bytes(whole)
    view.run(spark, replan=True)
    assert view.closed() == {(0, "a"): (501, 1 + sum(range(500)))}


def test_files_with_odd_names_are_judged_by_their_own_commit(either_spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    names = ["dt=2026-01-01/a b.json", "ü 100%25.json", "x[1]{2}*.json", "12:30.json"]
    for i, name in enumerate(names):
        write(tmp_path, name, json_lines(("a", 1, 20 * i)), mtime=i)
    write(tmp_path, "late.json", json_lines(("late", 1, 0)), mtime=9)
    write(tmp_path, "end.json", json_lines(("z", 1, FAR)), mtime=10)
    view.run(either_spark)
    assert view.closed() == {(20 * i, "a"): (1, 1) for i in range(len(names))}
    (entry,) = view.aside()
    assert (entry["reason"], entry["source_file"].rsplit("/", 1)[1]) == ("allowed_lateness_exceeded", "late.json")
    assert entry["original_event"] == json_line("late", 1, 0)
    assert view.counts()["rows_in"] == len(names) + 2


def test_results_are_the_same_under_any_bound(spark: SparkSession, tmp_path: Path) -> None:
    seen = []
    for name, options in {"all": {}, "files": {"max_files": 2}, "rows": {"max_rows": 1}}.items():
        root = tmp_path / name
        root.mkdir()
        view = files_view(root, "json")
        for i, seconds in enumerate([0, 25, 3, 22]):
            write(root, f"{i}.json", json_lines(("a", i, seconds), ("b", i, seconds + 1)) + "bad\n", mtime=i)
        write(root, "end.json", json_lines(("z", 0, FAR)), mtime=99)
        epochs = view.run(spark, **options)
        seen.append((view.closed(), sorted(e["original_event"] for e in view.aside()), view.counts()))
        assert len(epochs) == {"all": 1, "files": 3, "rows": 5}[name]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][2]["late"] == 2
