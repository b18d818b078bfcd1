"""What is new in a Delta table and what can be wrong with it, from its log alone."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from laminar_dagster.engine.sources.commits import Limit, SourceCommit
from laminar_dagster.engine.sources.delta import DeltaConnector
from laminar_dagster.engine.sources.delta_changes import DeltaChangesConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT, STRING, TIMESTAMP, parse_type
from tests.engine.sources.views import append, at, delta_view, ids, rows

DECLARED = (Field("k", STRING), Field("v", BIGINT), Field("ts", TIMESTAMP))


def connector(root: Path, columns: tuple[Field, ...] = DECLARED, **options: str) -> DeltaConnector:
    time = Column("ts", TIMESTAMP)
    source = Source("ev", "delta", columns, {"path": "events", **options}, event_time=time, watermark_lag=0)
    return DeltaConnector(source, root)


def plenty() -> Limit:
    return Limit(1_000_000, 1_000)


def taken(found: DeltaConnector, position: Any = None) -> Any:
    return found.position_after(found.pending(position, plenty()), position)


def refusal(found: DeltaConnector, position: Any = None) -> LaminarError:
    with pytest.raises(LaminarError) as raised:
        found.pending(position, plenty())
    return raised.value


def micros(seconds: float) -> int:
    return round(at(seconds).timestamp() * 1_000_000)


def files_of(commits: list[SourceCommit]) -> list[str]:
    return [file.path for commit in commits for file in commit.files]


def edit_log(root: Path, version: int, key: str, name: str, value: Any) -> None:
    path = root / "events" / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if key in action:
            action[key][name] = value
    path.write_text("\n".join(json.dumps(action) for action in actions))


def test_each_version_is_a_commit_with_its_rows_and_times(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0), ("a", 2, 5))
    append(tmp_path, ("b", 3, 7))
    first, second = connector(tmp_path).pending(None, plenty())
    assert (first.id, first.files[0].rows, first.files[0].low, first.files[0].high) == ("0", 2, micros(0), micros(5))
    assert (second.id, second.files[0].rows, second.files[0].nulls) == ("1", 1, 0)


def test_only_versions_after_the_position_are_new(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    assert found.pending(position, plenty()) == []
    append(tmp_path, ("a", 1, 0))
    assert ids(found.pending(position, plenty())) == ["1"]
    assert found.backlog(position) == 1
    assert found.backlog(None) == 2


def test_a_position_names_the_version_the_table_and_the_commit(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    entry = (tmp_path / "events/_delta_log/00000000000000000000.json").read_bytes()
    assert taken(connector(tmp_path)) == {
        "version": 0,
        "table": str(DeltaTable(str(tmp_path / "events")).metadata().id),
        "identity": hashlib.sha256(entry).hexdigest()[:16],
        "columns": {},
    }


def test_a_limit_of_one_file_takes_one_version_at_a_time(tmp_path: Path) -> None:
    for _ in range(3):
        append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    assert ids(found.pending(None, Limit(1_000_000, 1))) == ["0"]
    assert ids(found.pending(None, Limit(2, 1_000))) == ["0", "1"]


def test_a_limit_that_is_smaller_than_a_version_still_takes_it(tmp_path: Path) -> None:
    append(tmp_path, *[("a", 1, 0)] * 50)
    append(tmp_path, ("a", 1, 0))
    assert ids(connector(tmp_path).pending(None, Limit(10, 1))) == ["0"]


def test_versions_stay_in_order_when_the_writers_clocks_do_not(tmp_path: Path) -> None:
    for _ in range(3):
        append(tmp_path, ("a", 1, 0))
    edit_log(tmp_path, 1, "commitInfo", "timestamp", 1_000)
    found = connector(tmp_path).pending(None, plenty())
    assert ids(sorted(found, key=lambda commit: commit.order)) == ["0", "1", "2"]


def test_optimize_moves_rows_and_brings_none(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    append(tmp_path, ("a", 2, 1))
    found = connector(tmp_path)
    position = taken(found)
    DeltaTable(str(tmp_path / "events")).optimize.compact()
    after = found.pending(position, plenty())
    assert ids(after) == ["2"]
    assert files_of(after) == []


@pytest.mark.parametrize("change", ["delete", "update", "overwrite"])
def test_a_rewrite_after_reading_is_refused_with_the_version(tmp_path: Path, change: str) -> None:
    append(tmp_path, ("a", 1, 0), ("b", 2, 1))
    found = connector(tmp_path)
    position = taken(found)
    rewrite(tmp_path, change)
    error = refusal(found, position)
    assert error.code == "LMR0604"
    assert "version 1" in error.problem
    assert "on_rewrite = 'ignore'" in (error.hint or "")
    assert "before version 1 is committed" in (error.committed or "")


def rewrite(root: Path, change: str) -> None:
    table = DeltaTable(str(root / "events"))
    if change == "delete":
        table.delete("k = 'a'")
    elif change == "update":
        table.update(updates={"v": "9"}, predicate="k = 'a'")
    else:
        write_deltalake(str(root / "events"), rows(("c", 1, 0)), mode="overwrite")


def test_what_was_appended_before_a_rewrite_is_taken_before_it_is_refused(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    append(tmp_path, ("b", 2, 1))
    rewrite(tmp_path, "delete")
    ready = found.pending(position, plenty())
    assert ids(ready) == ["1"]
    assert refusal(found, found.position_after(ready, position)).code == "LMR0604"


def test_on_rewrite_ignore_passes_over_the_version(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path, on_rewrite="ignore")
    position = taken(found)
    rewrite(tmp_path, "update")
    append(tmp_path, ("c", 3, 2))
    after = found.pending(position, plenty())
    assert [(commit.id, len(commit.files)) for commit in after] == [("1", 0), ("2", 1)]


def test_on_rewrite_takes_two_words_and_does_not_change_what_a_view_means(tmp_path: Path) -> None:
    plain, ignoring = (fingerprint(delta_view(tmp_path, **o).plan) for o in ({}, {"on_rewrite": "ignore"}))
    assert plain == ignoring
    with pytest.raises(LaminarError) as raised:
        _ = delta_view(tmp_path, on_rewrite="skip").plan
    assert raised.value.code == "LMR0303"


def test_a_table_that_was_rewritten_before_the_first_read_begins_as_one_snapshot(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0), ("b", 2, 1))
    rewrite(tmp_path, "delete")
    (commit,) = connector(tmp_path).pending(None, plenty())
    assert (commit.id, commit.snapshot) == ("1", True)


def test_a_table_whose_early_log_is_gone_begins_as_one_snapshot(tmp_path: Path) -> None:
    for _ in range(3):
        append(tmp_path, ("a", 1, 0))
    DeltaTable(str(tmp_path / "events")).create_checkpoint()
    (tmp_path / "events/_delta_log/00000000000000000000.json").unlink()
    found = connector(tmp_path)
    (commit,) = found.pending(None, plenty())
    assert (commit.id, commit.snapshot, len(commit.files)) == ("2", True, 3)
    assert taken(found)["version"] == 2


def test_a_log_cleaned_beyond_the_position_is_refused(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    for _ in range(3):
        append(tmp_path, ("a", 1, 0))
    DeltaTable(str(tmp_path / "events")).create_checkpoint()
    (tmp_path / "events/_delta_log/00000000000000000001.json").unlink()
    error = refusal(found, position)
    assert error.code == "LMR0605"
    assert "up to version 0 is committed" in (error.committed or "")


def test_a_file_vacuumed_before_it_was_read_is_refused(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    append(tmp_path, ("a", 2, 0))
    gone = files_of(found.pending(position, plenty()))[0]
    table = DeltaTable(str(tmp_path / "events"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    error = refusal(found, position)
    assert error.code == "LMR0605"
    assert gone in (error.detail or "")


def test_a_file_vacuumed_after_it_was_read_is_no_trouble(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    append(tmp_path, ("a", 2, 0))
    found = connector(tmp_path)
    position = taken(found)
    table = DeltaTable(str(tmp_path / "events"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert files_of(found.pending(position, plenty())) == []


def test_a_table_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    error = refusal(connector(tmp_path))
    assert error.code == "LMR0602"
    assert str(tmp_path / "events") in error.problem


@pytest.mark.parametrize("versions", [1, 5])
def test_a_table_made_anew_is_refused_however_long_its_history(tmp_path: Path, versions: int) -> None:
    for _ in range(3):
        append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    shutil.rmtree(tmp_path / "events")
    for _ in range(versions):
        append(tmp_path, ("z", 1, 0))
    error = refusal(found, position)
    assert error.code == "LMR0608"
    assert "version 2 of the former table is committed" in (error.committed or "")


def test_a_table_restored_from_an_old_backup_is_refused(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    shutil.copytree(tmp_path / "events", tmp_path / "backup")
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    shutil.rmtree(tmp_path / "events")
    shutil.move(tmp_path / "backup", tmp_path / "events")
    assert refusal(found, position).code == "LMR0608"


@pytest.mark.parametrize("kind", [DeltaConnector, DeltaChangesConnector])
@pytest.mark.parametrize("versions", [1, 3])
def test_a_table_restored_from_an_old_copy_is_refused_also_when_it_has_grown_again(
    tmp_path: Path, kind: type[DeltaConnector], versions: int
) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    append(tmp_path, ("a", 1, 0), configuration=feed)
    shutil.copytree(tmp_path / "events", tmp_path / "backup")
    append(tmp_path, ("a", 1, 0))
    found = kind(connector(tmp_path).source, tmp_path)
    commits = found.pending(None, plenty())
    position = json.loads(json.dumps(found.position_after(commits, None)))
    shutil.rmtree(tmp_path / "events")
    shutil.move(tmp_path / "backup", tmp_path / "events")
    for _ in range(versions):
        append(tmp_path, ("b", 1, 0))
    error = refusal(found, position)
    assert error.code == "LMR0608"
    assert "restored from an old copy" in (error.detail or "")
    assert "--data DIR" in (error.hint or "")
    with pytest.raises(LaminarError, match="LMR0608"):
        found.require_as_taken(commits, None)


def test_a_table_that_was_put_back_whole_goes_on(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    append(tmp_path, ("a", 2, 0))
    shutil.copytree(tmp_path / "events", tmp_path / "copy")
    shutil.rmtree(tmp_path / "events")
    shutil.move(tmp_path / "copy", tmp_path / "events")
    assert ids(found.pending(position, plenty())) == ["1"]


def test_a_position_whose_entry_was_cleaned_from_the_log_goes_on(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    append(tmp_path, ("a", 2, 0))
    found = connector(tmp_path)
    position = taken(found)
    append(tmp_path, ("a", 3, 0))
    DeltaTable(str(tmp_path / "events")).create_checkpoint()
    for version in (0, 1):
        (tmp_path / f"events/_delta_log/{version:020d}.json").unlink()
    assert ids(found.pending(position, plenty())) == ["2"]


def test_an_added_column_is_no_trouble(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    found = connector(tmp_path)
    position = taken(found)
    wider = rows(("b", 2, 1)).append_column("more", pa.array(["x"]))
    write_deltalake(str(tmp_path / "events"), wider, mode="append", schema_mode="merge")
    assert ids(found.pending(position, plenty())) == ["1"]


def test_a_declared_column_that_is_missing_is_refused_with_a_guess(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    error = refusal(connector(tmp_path, (*DECLARED, Field("vv", BIGINT))))
    assert error.code == "LMR0603"
    assert 'Did you mean "v"?' in (error.hint or "")


def test_a_declared_column_of_another_type_is_refused_with_both_types(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0))
    error = refusal(connector(tmp_path, (Field("v", STRING), Field("ts", TIMESTAMP))))
    assert error.code == "LMR0603"
    assert 'column "v" is BIGINT in the table and STRING in CREATE SOURCE' in (error.detail or "")


def test_the_schema_comes_from_the_table_where_none_is_declared(tmp_path: Path) -> None:
    nested = rows(("a", 1, 0)).append_column("tags", pa.array([["x"]], pa.list_(pa.string())))
    point = pa.array([{"x": 1, "at": {"y": 2}}], pa.struct([("x", pa.int64()), ("at", pa.struct([("y", pa.int32())]))]))
    write_deltalake(str(tmp_path / "events"), nested.append_column("p", point))
    fields = {field.name: str(field.type) for field in connector(tmp_path, ()).fields()}
    assert fields == {
        "k": "STRING", "v": "BIGINT", "ts": "TIMESTAMP", "tags": "ARRAY<STRING>",
        "p": "STRUCT<`x`:BIGINT,`at`:STRUCT<`y`:INT>>",
    }  # fmt: skip


def test_a_nested_column_may_be_declared_in_any_spelling(tmp_path: Path) -> None:
    nested = rows(("a", 1, 0)).append_column("tags", pa.array([["x"]], pa.list_(pa.string())))
    write_deltalake(str(tmp_path / "events"), nested)
    found = connector(tmp_path, (Field("ts", TIMESTAMP), Field("tags", parse_type("array< string >"))))
    assert ids(found.pending(None, plenty())) == ["0"]


def test_a_commit_survives_the_epoch_log(tmp_path: Path) -> None:
    append(tmp_path, ("a", 1, 0), partition_by=["k"])
    (commit,) = connector(tmp_path).pending(None, plenty())
    assert SourceCommit.from_json(json.loads(json.dumps(commit.to_json()))) == commit
