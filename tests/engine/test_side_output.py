"""What a side output keeps: originals or none, up to a limit, the same rows whenever an epoch is done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine.crash import CrashError
from laminar_dagster.engine.metrics import METRICS, facts_of
from state_store import CommitRow, MaintenancePolicy
from state_store import format as f
from tests.engine.sources.views import COLUMNS, FAR, SELECT, View, json_line, json_lines, source, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPEN = "early.json"


def view_of(root: Path, options: str, columns: str = COLUMNS, **more: str) -> View:
    (root / "in").mkdir(parents=True, exist_ok=True)
    declared = source(columns=columns, connector="files", path="in", format="json", **more)
    return View(root, declared + SELECT.replace("EMIT ON WINDOW CLOSE;", f"EMIT ON WINDOW CLOSE WITH ({options});"))


def test_late_rows_go_back_as_files_that_another_view_reads(spark: SparkSession, tmp_path: Path) -> None:
    first = view_of(tmp_path / "one", "side_output.late = 'reinject', side_output.reinject_to = 'again'")
    late = [json_line("a", 1, 1), json_line("b", None, 2)]
    write(first.root, OPEN, json_lines(("z", 0, FAR)), mtime=1)
    write(first.root, "2.json", "\n".join(["oops", *late]) + "\n", mtime=2)
    first.run(spark, max_files=1)
    assert first.counts()["late"] == 2
    assert sorted((first.root / "again" / "e0000000002-out-late.json").read_text().splitlines()) == sorted(late)

    again = View(tmp_path / "two", source(connector="files", path=str(first.root / "again"), format="json") + SELECT)
    again.root.mkdir()
    (commit,) = again.run(spark)
    assert (commit.counts["rows_in"], commit.counts["aggregated"], commit.counts["error"]) == (2, 2, 0)


def flood(view: View, name: str, reverse: bool = False) -> None:
    lines = (
        [json_line("a", n, n % 7) for n in range(20)] + [f"broken {n}" for n in range(5)] + [json_line("a", 0, None)]
    )
    write(view.root, OPEN, json_lines(("z", 0, FAR)), mtime=1)
    write(view.root, name, "\n".join(lines[::-1] if reverse else lines) + "\n", mtime=2)


def shown_in_metrics(view: View) -> Mapping[str, float]:
    """What the limit left out of the side output, over all epochs, as `laminar metrics` shows it."""
    facts = facts_of(view.plan, view.store)
    assert facts is not None
    (metric,) = (each for each in METRICS if each.name == "laminar_side_output_dropped_rows")
    return metric.values(facts)


LIMITED = "side_output.max_rows_per_epoch = 4, side_output.late.include_original = false"


def test_beyond_a_limit_rows_are_counted_by_kind_and_which_stay_follows_from_the_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    views = [view_of(tmp_path / name, LIMITED) for name in ("one", "other")]
    for number, view in enumerate(views):
        flood(view, "2.json", reverse=bool(number))
        last = view.run(spark, max_files=1)[-1].counts
        assert (last["late"], last["error"], last["side_output_dropped"]) == (20, 6, 18)
        assert (last["side_output_dropped_late"], last["side_output_dropped_error"]) == (16, 2)
        assert last["rows_in"] == last["aggregated"] + last["filtered"] + last["late"] + last["error"]
        assert shown_in_metrics(view) == {"": 18}
    one, other = (sorted((e["kind"], e["event_time"], e["original_event"]) for e in view.aside()) for view in views)
    assert str(one) == str(other)
    late = [entry for entry in one if entry[0] == "late"]
    assert [(entry[1].second, entry[2]) for entry in late] == [(0, None), (0, None), (0, None), (1, None)]
    texts = [entry[2] for entry in one if entry[0] == "error"]
    assert texts == ["broken 0", "broken 1", "broken 2", "broken 3"]


def crash_at(wanted: str) -> Callable[[str], None]:
    def after_write(what: str) -> None:
        if what == wanted:
            raise CrashError(what)

    return after_write


def test_an_epoch_that_is_done_again_keeps_what_its_plan_says_whatever_the_options_say_by_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    flood(view_of(tmp_path, LIMITED), "2.json")
    view_of(tmp_path, LIMITED).run(spark, max_files=1, max_epochs=1)
    with pytest.raises(CrashError):
        view_of(tmp_path, LIMITED).run(spark, after_write=crash_at("side_output commit"))
    changed = view_of(tmp_path, "side_output.max_rows_per_epoch = 100")
    (commit,) = changed.run(spark)
    assert commit.counts["side_output_dropped"] == 18
    assert len(changed.aside()) == 8


# --- keys that are remembered --------------------------------------------------------------------------------

UNIQUE = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts"
HORIZON = {"unique_key": "id", "unique_within": "30 seconds"}


def numbered_line(number: int, seconds: int) -> str:
    return json.dumps({"id": number, **json.loads(json_line("a", 1, seconds))}) + "\n"


def run_one_by_one(view: View, spark: SparkSession, seconds: list[int], **options: object) -> list[CommitRow]:
    """Each file is an epoch, with a key of its own and one that comes again in every file."""
    for position, second in enumerate(seconds):
        text = numbered_line(1000 + position, second) + numbered_line(7, second)
        write(view.root, f"{position:03d}.json", text, mtime=position + 1)
    return view.run(spark, max_files=1, **options)


def test_remembered_keys_are_bounded_by_the_watermark_also_where_files_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = view_of(tmp_path, "partition = 'hour'", columns=UNIQUE, **HORIZON)
    moments = [0, 10, 20, 50, 100, 110]
    done = run_one_by_one(view, spark, moments, maintenance=MaintenancePolicy(merge_files=3))
    assert [commit.counts["duplicate"] for commit in done] == [0, 1, 1, 1, 1, 1]
    live = view.store.read(f.SEEN_KEYS).to_pylist()
    remembered = {(row["key"], row["remembered_until"]) for row in live}
    assert {key for key, until in remembered if until > (done[-1].watermark or 0)} == {
        '{"id":1004}', '{"id":1005}', '{"id":7}',
    }  # fmt: skip
    assert len(remembered) < 2 * len(moments)
    assert view.store.sizes()[f.SEEN_KEYS]["files"] < len(moments)
    assert view.reasons() == {"duplicate_key": 5}


def test_a_duplicate_of_an_epoch_that_was_cut_short_is_the_same_row(spark: SparkSession, tmp_path: Path) -> None:
    view = view_of(tmp_path, "partition = 'hour'", columns=UNIQUE, **HORIZON)
    write(tmp_path, "1.json", numbered_line(1, 0), mtime=1)
    view.run(spark)
    write(tmp_path, "2.json", numbered_line(1, 1) + numbered_line(2, 1), mtime=2)
    with pytest.raises(CrashError):
        view.run(spark, after_write=crash_at("seen_keys commit"))
    (commit,) = view.run(spark)
    assert (commit.counts["duplicate"], commit.counts["aggregated"]) == (1, 1)
    assert view.faults() == {numbered_line(1, 1).strip(): "duplicate_key"}
