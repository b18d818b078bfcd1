"""A table of the store: files get in and out exactly once, and their statistics are true."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from state_store import DeltaDirectory, StoreBusyError
from state_store.parquet import data_files, describe, write_file

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32()), ("s", pa.string())])


def rows(*numbers: int) -> pa.Table:
    moment = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    return pa.Table.from_pylist([{"n": n, "at": moment, "day": date(2026, 1, 1), "s": "x"} for n in numbers], SCHEMA)


def a_table(root: Path) -> DeltaDirectory:
    table = DeltaDirectory(root)
    table.create(SCHEMA)
    return table


def numbers_in(root: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(root)).to_pyarrow_table().column("n").to_pylist())


def test_a_commit_that_already_landed_is_not_repeated(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    file = write_file(tmp_path, "a.parquet", rows(1, 2))
    first = table.commit(add=[file], application="app", number=1)
    again = table.commit(add=[write_file(tmp_path, "b.parquet", rows(1, 2))], application="app", number=1)
    assert first == again
    assert numbers_in(tmp_path) == [1, 2]


def test_two_writers_of_one_number_do_not_both_land(tmp_path: Path) -> None:
    a_table(tmp_path)
    one, other = DeltaDirectory(tmp_path), DeltaDirectory(tmp_path)
    assert one.exists
    assert other.exists
    one.commit(add=[write_file(tmp_path, "a.parquet", rows(1))], application="app", number=1)
    with pytest.raises(StoreBusyError):
        other.commit(add=[write_file(tmp_path, "b.parquet", rows(1))], application="app", number=1)
    assert numbers_in(tmp_path) == [1]


def test_files_go_out_and_in_within_one_version_and_the_past_stays_readable(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    old = write_file(tmp_path, "a.parquet", rows(1))
    before = table.commit(add=[old], application="app", number=1)
    after = table.commit(add=[write_file(tmp_path, "b.parquet", rows(7))], remove=[old], application="app", number=2)
    assert after == before + 1
    assert [file.path for file in table.files()] == ["b.parquet"]
    assert [file.path for file in table.files(before)] == ["a.parquet"]


def test_bounds_are_rounded_outwards_so_that_no_reader_skips_a_row(tmp_path: Path) -> None:
    stats = json.loads(write_file(tmp_path, "a.parquet", rows(3, 1)).stats())
    assert stats["numRecords"] == 2
    assert (stats["minValues"]["n"], stats["maxValues"]["n"]) == (1, 3)
    assert stats["minValues"]["at"] == "2026-01-01T12:00:00.123Z"
    assert stats["maxValues"]["at"] == "2026-01-01T12:00:00.124Z"
    assert stats["maxValues"]["day"] == "2026-01-01"
    assert "s" not in stats["minValues"]


def test_partition_values_are_read_from_the_path_and_unescaped(tmp_path: Path) -> None:
    write_file(tmp_path, "e1/p=2026-01-01-13%3A00/q=__HIVE_DEFAULT_PARTITION__/a.parquet", rows(1))
    assert data_files(tmp_path, "e1")[0].partition == {"p": "2026-01-01-13:00", "q": None}


def test_a_file_whose_column_is_all_null_has_a_null_count_and_no_bounds(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([None, None], pa.int64())})
    write_file(tmp_path, "a.parquet", table)
    file = describe(tmp_path, tmp_path / "a.parquet")
    assert file.nulls == {"n": 2}
    assert "n" not in file.low


def test_other_readers_see_what_was_committed(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    table.commit(add=[write_file(tmp_path, "a.parquet", rows(1, 2, 3))], application="app", number=1)
    arrow = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("n", ">=", 2)])
    assert sorted(arrow.column("n").to_pylist()) == [2, 3]


def test_a_partition_value_with_a_colon_is_found_again_by_us_and_by_others(tmp_path: Path) -> None:
    table = DeltaDirectory(tmp_path)
    table.create(SCHEMA.append(pa.field("p", pa.string())), ["p"])
    write_file(tmp_path, "e1/p=2026-01-01-13%3A00/a.parquet", rows(1, 2))
    table.commit(add=data_files(tmp_path, "e1"), application="app", number=1)
    (file,) = table.files()
    assert (tmp_path / file.path).exists()
    assert file.partition == {"p": "2026-01-01-13:00"}
    found = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert [(row["n"], row["p"]) for row in found] == [(1, "2026-01-01-13:00"), (2, "2026-01-01-13:00")]
    table.commit(remove=[file], application="app", number=2)
    assert table.files() == []
