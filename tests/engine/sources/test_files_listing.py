"""Which files of a directory are new, in which order, and what is refused: no Spark needed."""

from __future__ import annotations

import gzip
import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laminar_dagster.engine.sources.commits import Limit, SourceCommit, require_files, require_readable
from laminar_dagster.engine.sources.files import FilesConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT, STRING, TIMESTAMP, parse_type
from tests.engine.sources.views import files_view, ids, rows, write
from tests.machine import as_second_user

DECLARED = (Field("k", STRING), Field("v", BIGINT), Field("ts", TIMESTAMP))


def connector(
    root: Path, format_: str = "json", columns: tuple[Field, ...] = DECLARED, **options: str
) -> FilesConnector:
    options = {"path": "in", "format": format_, **options}
    time = Column("ts", TIMESTAMP)
    return FilesConnector(Source("ev", "files", columns, options, event_time=time, watermark_lag=0), root)


def new(found: FilesConnector, position: Any = None) -> list[SourceCommit]:
    return found.pending(position, Limit(1_000_000, 1_000))


def refusal(found: FilesConnector, position: Any = None) -> LaminarError:
    with pytest.raises(LaminarError) as raised:
        new(found, position)
    return raised.value


def parquet(root: Path, name: str, table: pa.Table, **options: Any) -> Path:
    path = root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def test_files_come_by_modification_time_then_by_name(tmp_path: Path) -> None:
    write(tmp_path, "c.json", "{}", mtime=10)
    write(tmp_path, "b.json", "{}", mtime=20)
    write(tmp_path, "a.json", "{}", mtime=20)
    assert ids(new(connector(tmp_path))) == ["c.json", "a.json", "b.json"]


def test_an_older_file_that_appears_later_is_taken_once(tmp_path: Path) -> None:
    write(tmp_path, "b.json", "{}", mtime=20)
    found = connector(tmp_path)
    position = found.position_after(new(found), None)
    write(tmp_path, "a.json", "{}", mtime=10)
    late = new(found, position)
    assert ids(late) == ["a.json"]
    assert new(found, found.position_after(late, position)) == []


def test_hidden_and_temporary_names_and_what_is_in_hidden_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("_a.json", ".b.json", "c.json.tmp", "d.json~", "e.txt", "_tmp/f.json", "x/.staging/g.json"):
        write(tmp_path, name, "{}")
    write(tmp_path, "x/y/h.json", "{}")
    (tmp_path / "in" / "folder.json").mkdir()
    assert ids(new(connector(tmp_path))) == ["x/y/h.json"]


@pytest.mark.parametrize(
    ("format_", "names"),
    [
        ("json", ["a.json", "b.JSONL", "c.ndjson", "d.json.gz", "e.json.bz2"]),
        ("csv", ["a.csv", "b.tsv", "c.csv.gz"]),
    ],
)
def test_files_are_known_by_their_endings(tmp_path: Path, format_: str, names: list[str]) -> None:
    for name in [*names, "x.parquet", "y.log"]:
        write(tmp_path, name, "{}", mtime=1)
    assert ids(new(connector(tmp_path, format_))) == names


def test_a_pattern_stands_in_for_the_endings(tmp_path: Path) -> None:
    write(tmp_path, "sales-1.log", "{}")
    write(tmp_path, "other.json", "{}")
    assert ids(new(connector(tmp_path, pattern="sales-*.log"))) == ["sales-1.log"]


@pytest.mark.parametrize(
    ("format_", "name"), [("json", "a.json.zst"), ("csv", "a.csv.zip"), ("parquet", "a.parquet.gz")]
)
def test_a_compression_that_is_not_read_is_refused_rather_than_passed_over(
    tmp_path: Path, format_: str, name: str
) -> None:
    write(tmp_path, name, b"?")
    error = refusal(connector(tmp_path, format_))
    assert error.code == "LMR0609"
    assert name in error.problem


def test_a_name_that_spark_cannot_look_up_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "12:30 [1].json", "{}")
    error = refusal(connector(tmp_path))
    assert error.code == "LMR0609"
    assert str(path) in (error.detail or "")


def test_a_file_that_grew_after_it_was_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "{}\n")
    found = connector(tmp_path)
    position = found.position_after(new(found), None)
    write(tmp_path, "a.json", "{}\n{}\n")
    error = refusal(found, position)
    assert error.code == "LMR0606"
    assert "It had 3 bytes when it was read and has 6 now" in (error.detail or "")


def test_a_file_that_is_gone_after_it_was_read_is_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", "{}\n")
    found = connector(tmp_path)
    position = found.position_after(new(found), None)
    path.unlink()
    assert new(found, position) == []


def test_a_directory_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    error = refusal(connector(tmp_path))
    assert error.code == "LMR0602"
    assert str(tmp_path / "in") in error.problem


def test_a_limit_takes_at_least_one_file_and_no_more_than_one_beyond(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path, f"{i}.json", "x" * 1000, mtime=i)
    found = connector(tmp_path)
    assert ids(found.pending(None, Limit(1_000_000, 2))) == ["0.json", "1.json"]
    assert ids(found.pending(None, Limit(1, 100))) == ["0.json"]
    assert ids(found.pending(None, Limit(12, 100))) == ["0.json", "1.json"]
    assert found.backlog(None) == 4


def test_a_planned_file_that_is_gone_or_changed_is_named_with_what_is_committed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", "{}\n")
    planned = new(connector(tmp_path))
    require_files(planned, "out", "Epoch 3 is committed.")
    path.write_text("{}\n{}\n")
    with pytest.raises(LaminarError) as changed:
        require_files(planned, "out", "Epoch 3 is committed.")
    path.unlink()
    with pytest.raises(LaminarError) as gone:
        require_files(planned, "out", "Epoch 3 is committed.")
    assert [changed.value.code, gone.value.code] == ["LMR0606", "LMR0601"]
    assert {changed.value.committed, gone.value.committed} == {"Epoch 3 is committed."}
    assert "laminar run out --replan" in (gone.value.hint or "")


def test_a_compressed_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json.gz", gzip.compress(random.Random(1).randbytes(1000))[:-20])
    with pytest.raises(LaminarError) as raised:
        require_readable(new(connector(tmp_path)), "Epoch 3 is committed.")
    assert raised.value.code == "LMR0609"
    assert str(path) in (raised.value.detail or "")


def test_parquet_files_tell_their_rows_and_times(tmp_path: Path) -> None:
    parquet(tmp_path, "a.parquet", rows(("a", 1, 0), ("b", 2, None)))
    (commit,) = new(connector(tmp_path, "parquet"))
    assert (commit.files[0].rows, commit.files[0].nulls) == (2, 1)


@pytest.mark.parametrize("options", [{"use_deprecated_int96_timestamps": True}, {"write_statistics": False}])
def test_a_parquet_file_without_exact_bounds_of_time_says_that_it_does_not_know(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    parquet(tmp_path, "a.parquet", rows(("a", 1, 0)), **options)
    (commit,) = new(connector(tmp_path, "parquet"))
    assert commit.files[0].rows == 1
    assert not commit.files[0].knows_its_times


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1PAR1"])
def test_a_file_that_is_no_parquet_is_refused_before_anything_is_planned(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, "a.parquet", content)
    error = refusal(connector(tmp_path, "parquet"))
    assert error.code == "LMR0609"
    assert str(path) in (error.detail or "")


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (pa.array(["1"]), "BIGINT"),
        (pa.array([1], pa.int64()), "INT"),
        (pa.array([1.5]), "BIGINT"),
        (pa.array([1], pa.int64()), "STRING"),
        (pa.array([None], pa.decimal128(20, 2)), "DECIMAL(10,2)"),
        (pa.array([0], pa.timestamp("ns", tz="UTC")), "TIMESTAMP"),
    ],
)
def test_a_parquet_column_that_does_not_fit_its_type_is_refused(tmp_path: Path, found: pa.Array, declared: str) -> None:
    parquet(tmp_path, "a.parquet", pa.table({"x": found}))
    error = refusal(connector(tmp_path, "parquet", (Field("x", parse_type(declared)),)))
    assert error.code == "LMR0603"
    assert f"{found.type} in the file and {declared} in CREATE SOURCE" in (error.detail or "")


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (pa.array([1], pa.int32()), "BIGINT"),
        (pa.array([1.5], pa.float32()), "DOUBLE"),
        (pa.array([None], pa.decimal128(8, 2)), "DECIMAL(10,2)"),
        (pa.array([0], pa.timestamp("ms")), "TIMESTAMP"),
        (pa.array(["x"]).dictionary_encode(), "STRING"),
    ],
)
def test_a_narrower_parquet_column_fits(tmp_path: Path, found: pa.Array, declared: str) -> None:
    parquet(tmp_path, "a.parquet", pa.table({"x": found}))
    assert len(new(connector(tmp_path, "parquet", (Field("x", parse_type(declared)),)))) == 1


def test_the_schema_comes_from_a_parquet_file_where_none_is_declared(tmp_path: Path) -> None:
    parquet(tmp_path, "a.parquet", rows(("a", 1, 0)))
    write(tmp_path, "_b.parquet", b"hidden, so not read")
    view = files_view(tmp_path, "parquet", None, event_time="ts", watermark_lag="1 second")
    (entry,) = view.plan.query.inputs
    assert [str(field.type) for field in entry.source.columns] == ["STRING", "BIGINT", "TIMESTAMP"]


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_text_needs_its_columns_declared(tmp_path: Path, format_: str) -> None:
    with pytest.raises(LaminarError) as raised:
        _ = files_view(tmp_path, format_, None, event_time="ts").plan
    assert raised.value.code == "LMR0607"


def test_csv_cannot_hold_a_nested_column(tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as raised:
        connector(tmp_path, "csv", (Field("tags", parse_type("ARRAY<STRING>")),))
    assert raised.value.code == "LMR0610"


@pytest.mark.parametrize("options", [{"delimiter": ",,"}, {"quote": ""}, {"header": "maybe"}])
def test_a_csv_option_that_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(LaminarError) as raised:
        _ = files_view(tmp_path, "csv", **options).plan
    assert raised.value.code == "LMR0303"


@pytest.mark.parametrize("options", [{"delimiter": "\t"}, {"delimiter": " "}, {"quote": "|"}])
def test_a_delimiter_is_one_character_or_a_tab(tmp_path: Path, options: dict[str, str]) -> None:
    (entry,) = files_view(tmp_path, "csv", **options).plan.query.inputs
    assert options.items() <= dict(entry.source.options).items()


def test_a_file_that_another_user_may_not_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "in").mkdir()
        pq.write_table(rows(("a", 1, 0)), root / "in" / "1.parquet")
        (root / "in" / "1.parquet").chmod(0o600)
        root.chmod(0o755)
        with as_second_user():
            error = refusal(connector(root, "parquet"))
    assert error.code == "LMR0609"
    assert "in/1.parquet" in str(error.detail)
    assert "Permission denied" in str(error.detail)


def test_by_name_files_come_in_the_order_of_their_names_whatever_their_times(tmp_path: Path) -> None:
    for name, mtime in (("b.json", 30), ("c.json", 20), ("a.json", 10), ("x/a.json", 5), ("d.json", 40)):
        write(tmp_path, name, "{}", mtime=mtime)
    commits = new(connector(tmp_path, order="name"))
    assert ids(commits) == ["a.json", "b.json", "c.json", "d.json", "x/a.json"]
    assert [commit.order for commit in commits] == [10_000, 30_000, 30_000, 40_000, 40_000]


def test_the_order_is_modified_or_name_and_no_part_of_what_a_view_means(tmp_path: Path) -> None:
    plans = [files_view(tmp_path, "json", **options).plan for options in ({}, {"order": "name"}, {"order": "modified"})]
    assert len({fingerprint(plan) for plan in plans}) == 1
    with pytest.raises(LaminarError) as raised:
        _ = files_view(tmp_path, "json", order="size").plan
    assert raised.value.code == "LMR0303"


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"a.json": 1, "b.json": 1, "c.json": 1}, "are all alike"),
        ({"a.json": 3, "b.json": 2, "c.json": 1}, "run against their names"),
        ({"2026-01-01.json": 1, "2026-01-03.json": 2, "2026-01-02.json": 3}, "run against their names"),
        ({"2026-01-01.json": 1, "2026-01-02.json": 2, "2026-01-03.json": 3}, None),
        ({"8.json": 1, "9.json": 2, "10.json": 3}, None),
        ({"b3e1.json": 1, "07aa.json": 2, "9d02.json": 3}, None),
        ({"a.json": 1, "b.json": 1}, None),
        ({}, None),
    ],
)
def test_modification_times_that_cannot_be_the_order_are_doubted(
    tmp_path: Path, times: dict[str, float], said: str | None
) -> None:
    (tmp_path / "in").mkdir()
    for name, mtime in times.items():
        write(tmp_path, name, "{}", mtime=mtime)
    caution = connector(tmp_path).caution()
    assert (caution is None) if said is None else (said in str(caution) and "order = 'name'" in str(caution))
    assert connector(tmp_path, order="name").caution() is None


def test_parquet_columns_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, "a.parquet", pa.table({"v": [1], "V": [2], "k": ["a"]}))
    error = refusal(connector(tmp_path, "parquet"))
    assert error.code == "LMR0617"
    assert f'{path}: "v" and "V"' in str(error.detail)
    assert len(new(connector(tmp_path, "parquet", (Field("k", STRING),)))) == 1


def test_a_parquet_column_of_another_case_is_checked_too(tmp_path: Path) -> None:
    parquet(tmp_path, "a.parquet", pa.table({"V": ["1"]}))
    assert refusal(connector(tmp_path, "parquet")).code == "LMR0603"
