"""CSV, end to end: columns by name or by position, and every bad line set aside as it was written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.sources.views import FAR, SELECT, View, at, files_view, source, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

END = f"z,0,{at(FAR).isoformat()}"
T = "2026-01-01T12:00:00Z"


def test_a_header_names_the_columns_in_any_order(either_spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "csv")
    write(tmp_path, "1.csv", f"k,v,ts\na,1,{T}\nb,2,{T}\n", mtime=1)
    write(tmp_path, "2.csv", f'\ufeffTS,extra, K ,v\r\n{T},"x,y","a ""quoted"", b",10\r\n{T},,a,100\r\n', mtime=2)
    write(tmp_path, "3.csv", f"ts,k\n{T},no value\n", mtime=3)
    write(tmp_path, "4.csv", "\n" + f"k,v,ts\n{END}\n", mtime=4)
    write(tmp_path, "5.csv", "", mtime=5)
    write(tmp_path, "6.csv", "k,v,ts\n", mtime=6)
    view.run(either_spark)
    assert view.closed() == {
        (0, "a"): (2, 101), (0, "b"): (1, 2), (0, 'a "quoted", b'): (1, 10), (0, "no value"): (1, None),
    }  # fmt: skip
    assert view.counts()["rows_in"] == 6


def test_without_a_header_columns_go_by_position_and_the_first_line_is_a_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = files_view(tmp_path, "csv", header="false", delimiter=";", quote="|", null_value="NA")
    write(tmp_path, "1.csv", f"a;1;{T}\n|x;y|;NA;{T}\nNA;2;{T}\n" + END.replace(",", ";"))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1), (0, "x;y"): (1, None), (0, None): (1, 2)}


def test_tabs_separate_as_the_option_says_and_gz_is_read(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "csv", delimiter="\\t")
    lines = f"k,v,ts\na,1,{T}\n{END}\n".replace(",", "\t")
    write(tmp_path, "1.tsv.gz", gzip.compress(lines.encode()))
    view.run(spark)
    assert view.closed() == {(0, "a"): (1, 1)}


COLUMNS = (
    "k STRING, v BIGINT, s SMALLINT, x DOUBLE, d DECIMAL(5,2), b BOOLEAN, day DATE, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL '0' SECOND"
)
GOOD = [
    f"a,1,2,1.5,1.25,true,2026-01-01,{T}",
    f'"a", 2 ,-3,.5,"1.5",FALSE,2026-12-31,"{T}"',
    f"a,,,,,,,{T}",
    f"a,+3,,1e3,1e2,,,{T}",
    f'"a","4","","","","","",{T}',
]
MALFORMED = [
    f"few,{T}",
    f"many,1,2,1.5,1.25,true,2026-01-01,{T},more",
    f'a,1,2,1.5,1.25,true,2026-01-01,"{T}',
    "," * 25_000,
]
MISMATCHED = [
    f"a,one,,,,,,{T}",
    f"a,1.5,,,,,,{T}",
    f"a,9223372036854775808,,,,,,{T}",
    f"a,,40000,,,,,{T}",
    f"a,,,1e400,,,,{T}",
    f"a,,,NaN,,,,{T}",
    f'a,,,"1,5",,,,{T}',
    f"a,,,,1234.5,,,{T}",
    f"a,,,,,yes,,{T}",
    f"a,,,,,,2026-02-30,{T}",
    f"a,,,,,,2026/01/01,{T}",
    "a,,,,,,,1767268800",
    "a,,,,,,,2026-01-01 noon",
]
WITHOUT_TIME = ["a,1,2,1.5,1.25,true,2026-01-01,"]


def test_each_bad_line_is_set_aside_once_with_its_text_and_reason(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    view = View(tmp_path, source(columns=COLUMNS, connector="files", path="in", format="csv") + SELECT)
    header = "k,v,s,x,d,b,day,ts"
    last = f"z,,,,,,,{at(FAR).isoformat()}"
    lines = [header, *GOOD, *MALFORMED, "", *MISMATCHED, "  ", *WITHOUT_TIME, last]
    broken = "caf\udce9,1,,,,,," + T
    write(tmp_path, "1.csv", "\n".join([*lines, broken]).encode(errors="surrogateescape"))
    view.run(spark)
    assert view.faults() == {
        **dict.fromkeys([*MALFORMED, broken.replace("\udce9", "\ufffd")], "malformed_record"),
        **dict.fromkeys(MISMATCHED, "type_mismatch"),
        **dict.fromkeys(WITHOUT_TIME, "null_event_time"),
    }
    assert view.closed() == {(0, "a"): (len(GOOD), 10)}
    bad = len(MALFORMED) + 1 + len(MISMATCHED) + len(WITHOUT_TIME)
    assert view.counts()["rows_in"] == len(GOOD) + 1 + bad
    details = {entry["original_event"]: entry["error_detail"] for entry in view.aside()}
    assert details[MALFORMED[0]] == "the line does not have 8 fields"
    assert details[MALFORMED[2]] == "a quote is not closed"
    assert details[MISMATCHED[0]] == 'column "v": one is not a value of type BIGINT'


def test_a_late_row_is_set_aside_as_its_line_was_written(spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "csv")
    write(tmp_path, "1.csv", f"k,v,ts\n{END}\n", mtime=1)
    write(tmp_path, "2.csv", f'v,k,ts\n1,"a,b",{T}\n', mtime=2)
    view.run(spark)
    assert view.faults() == {f'1,"a,b",{T}': "allowed_lateness_exceeded"}


def test_a_value_in_quotes_may_go_over_lines(either_spark: SparkSession, tmp_path: Path) -> None:
    view = files_view(tmp_path, "csv")
    middle = f"b,2,{T}"
    write(tmp_path, "1.csv", f'k,v,ts\n"a\n{middle}\nc",1,{T}\nb,2,{T}\n', mtime=1)
    write(
        tmp_path, "2.csv", f'\ufeff"the\r\nkey", k ,v,ts\r\n,"x\r\n\r\n""y""\rz",1,"{T}"\r\n\r\n,b,1,{T}\r\n', mtime=2
    )
    write(tmp_path, "3.csv.gz", gzip.compress(f'k,v,ts\r"\n",1,{T}\r"",1,{T}\r{END}'.encode()), mtime=3)
    view.run(either_spark)
    assert view.closed() == {
        (0, f"a\n{middle}\nc"): (1, 1), (0, "b"): (2, 3), (0, 'x\r\n\r\n"y"\rz'): (1, 1), (0, "\n"): (1, 1),
        (0, None): (1, 1),
    }  # fmt: skip
    assert view.counts()["rows_in"] == 7
    assert list((tmp_path / "data" / ".csv").iterdir()) == []


@pytest.mark.parametrize("header", ["true", "false"])
def test_a_broken_row_over_lines_is_set_aside_with_its_text_and_takes_no_other_along(
    spark: SparkSession, tmp_path: Path, header: str
) -> None:
    view = files_view(tmp_path, "csv", header=header)
    few, open_, mistyped, timeless = f'"x\ny\nz",{T}', f'"open,1,{T}', f'"x\ny",one,{T}', '"x\ny",1,'
    broken = '"caf\udce9\n",1,' + T
    good = [f'"x\ny",1,{T}', f"b,2,{T}", f'"c",3,{T}']
    lines = [*(["k,v,ts"] if header == "true" else []), few, good[0], open_, good[1], mistyped, good[2], timeless]
    lines += [broken, END, '"never closed', f"b,4,{T}"]
    write(tmp_path, "1.csv", "\n".join(lines).encode(errors="surrogateescape"))
    view.run(spark)
    assert view.faults() == {
        few: "malformed_record", open_: "malformed_record", mistyped: "type_mismatch", timeless: "null_event_time",
        broken.replace("\udce9", "\ufffd"): "malformed_record", '"never closed': "malformed_record",
    }  # fmt: skip
    assert view.closed() == {(0, "x\ny"): (1, 1), (0, "b"): (2, 6), (0, "c"): (1, 3)}
    assert view.counts()["rows_in"] == 11
    details = {entry["original_event"]: entry["error_detail"] for entry in view.aside()}
    assert [details[open_], details['"never closed']] == ["a quote is not closed"] * 2
