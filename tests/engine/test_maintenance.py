"""Maintenance after each epoch of a real view: few files, the same results, and no kill that matters."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.engine.crash import CrashError
from laminar_dagster.engine.maintenance import Maintained, maintain
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from state_store import CommitRow, MaintenancePolicy, StoreError, StoreReader, StoreWriter
from state_store import format as f

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, region, COUNT(*) AS n, SUM(amount) AS total, ARRAY_AGG(amount) AS amounts
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
ALLOW LATENESS INTERVAL '2' MINUTE EMIT ON WINDOW CLOSE WITH (partition = 'hour');
"""
PLAN = plan_script(SQL)[0]
UPDATED = plan_script(SQL.replace("EMIT ON WINDOW CLOSE WITH (partition = 'hour')", "EMIT CHANGES"))[0]
NOW = timedelta(0)
TINY = MaintenancePolicy(
    files_per_bucket=3, merge_files=3, vacuum_every=2, retain_epochs=4, retain_state=NOW, retain_results=NOW
)
NEVER = MaintenancePolicy(files_per_bucket=10**9, merge_files=10**9, vacuum_every=10**9)
FILES = 20


class View:
    def __init__(self, spark: Any, root: Path, policy: MaintenancePolicy, plan: Plan = PLAN) -> None:
        self.spark, self.root, self.policy, self.plan = spark, root, policy, plan
        (root / "landing").mkdir(parents=True)

    def land(self, first: int, last: int) -> None:
        """Each file goes on by half a minute, and has a row that cannot be read."""
        for number in range(first, last + 1):
            at = [
                f"2026-01-01T{12 + s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}Z" for s in (number * 30, number * 31)
            ]
            rows = [{"region": "eu", "amount": number, "at": at[0]}, {"region": "us", "amount": -number, "at": at[1]}]
            path = self.root / "landing" / f"{number:04d}.json"
            path.write_text("\n".join([*map(json.dumps, rows), '{"region": "broken"']))
            os.utime(path, (1_000_000 + number, 1_000_000 + number))

    def run(self, after_write: Callable[[str], None] = lambda _: None) -> list[CommitRow]:
        options = RunOptions(max_files=1, maintenance=self.policy, after_write=after_write)
        return run_view(self.plan, self.spark, project=self.root, data=self.root / "data", options=options)

    @property
    def store(self) -> Path:
        return self.root / "data" / "per_minute"

    def content(self, epoch: int | None = None) -> dict[str, list[str]]:
        reader = StoreReader(self.store)
        commit = reader.commit(epoch)
        assert commit is not None
        columns = {
            f.OUTPUT: ("window_start", "region", "n", "total", "amounts", "_epoch", "_partition"),
            f.SIDE_OUTPUT: ("kind", "original_event", "_epoch"),
            f.SOURCE_FILES: ("id", "epoch"),
            f.CHANGELOG: ("_epoch", "_seq", "_op", "region", "n", "total"),
        }
        rows = {name: reader.read(name, commit).to_pylist() for name in columns}
        found = {name: sorted(repr([row[c] for c in columns[name]]) for row in rows[name]) for name in columns}
        return {**found, "time": [str(commit.watermark)], "open": [str(commit.counts["windows_open"])]}


@pytest.fixture(scope="module")
def calm(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> View:
    """The same files, and no maintenance at all."""
    view = View(spark, tmp_path_factory.mktemp("calm"), NEVER)
    view.land(1, FILES)
    view.run()
    return view


@pytest.fixture(scope="module")
def tidy(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> View:
    view = View(spark, tmp_path_factory.mktemp("tidy"), TINY)
    view.land(1, FILES)
    view.run()
    return view


def test_the_results_are_those_of_a_run_without_maintenance(tidy: View, calm: View) -> None:
    assert tidy.content() == calm.content()


def test_files_on_disk_stay_few_in_every_table(tidy: View, calm: View) -> None:
    few, many = StoreReader(tidy.store).sizes(), StoreReader(calm.store).sizes()
    for name in f.TABLES:
        data = few[name]["disk_files"] - few[name]["log_files"]
        assert few[name]["files"] <= 12, name
        assert data <= 30, name
        assert few[name]["log_files"] <= 45, name
    assert few[f.OUTPUT]["rows"] == many[f.OUTPUT]["rows"]
    assert sum(size["disk_files"] for size in few.values()) < sum(size["disk_files"] for size in many.values()) / 2


def test_a_retained_epoch_can_be_read_and_a_forgotten_one_says_which_can(tidy: View, calm: View) -> None:
    oldest = max(StoreReader(tidy.store).oldest(name) for name in f.TABLES)
    assert FILES - 5 <= oldest <= FILES - 3
    for epoch in range(oldest, FILES + 1):
        assert tidy.content(epoch) == calm.content(epoch)
    with pytest.raises(StoreError, match=f"as of epoch {oldest} and later"):
        tidy.content(oldest - 1)


def test_spark_reads_a_table_whose_log_was_cleaned(tidy: View, spark: Any) -> None:
    root = tidy.store / f.SIDE_OUTPUT
    assert not (root / "_delta_log" / f"{0:020d}.json").exists()
    assert spark.read.format("delta").load(str(root)).count() == FILES
    assert spark.read.format("delta").load(str(tidy.store / f.OUTPUT)).count() == len(tidy.content()[f.OUTPUT])


def test_killed_again_and_again_it_leaves_the_same(spark: Any, tmp_path: Path, calm: View) -> None:
    view = View(spark, tmp_path, TINY)
    view.land(1, 10)
    places: list[str] = []
    while True:
        try:
            view.run(killing(9 + len(places) % 11, places))
            break
        except CrashError:
            pass
    assert len(places) > 10
    assert any("merged file" in place or "compaction" in place or "vacuum" in place for place in places)
    assert view.content() == calm.content(10)


def killing(writes: int, places: list[str]) -> Callable[[str], None]:
    left = writes

    def hook(what: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            places.append(what)
            raise CrashError(what)

    return hook


def test_a_table_that_is_updated_in_place_and_its_changelog_stay_the_same(spark: Any, tmp_path: Path) -> None:
    kept, tidied = (View(spark, tmp_path / name, policy, UPDATED) for name, policy in (("a", NEVER), ("b", TINY)))
    for view in (kept, tidied):
        view.land(1, 12)
        view.run()
    assert tidied.content() == kept.content()
    assert tidied.content(9) == kept.content(9)
    few, many = StoreReader(tidied.store).sizes(), StoreReader(kept.store).sizes()
    assert few[f.CHANGELOG]["files"] < many[f.CHANGELOG]["files"] == 12
    assert few[f.OUTPUT]["disk_files"] < many[f.OUTPUT]["disk_files"]


def test_all_that_is_due_can_be_done_at_once_and_without_spark(spark: Any, tmp_path: Path, calm: View) -> None:
    """What was merged is deleted once an epoch is committed that does not need it."""
    view = View(spark, tmp_path, NEVER)
    done: list[Maintained] = []
    for last in (8, 10):
        view.land(1, last)
        view.run()
        with StoreWriter(view.store) as store:
            done += [maintain(store, PLAN, replace(TINY, retain_epochs=1)) for _ in range(2)]
        assert view.content() == calm.content(last)
    assert done[0].merged > 8
    assert done[1] == Maintained(0, 0)
    assert done[2].deleted > 16


def test_nothing_is_merged_under_an_epoch_that_is_not_finished(spark: Any, tmp_path: Path, calm: View) -> None:
    view = View(spark, tmp_path, NEVER)
    view.land(1, 5)
    with pytest.raises(CrashError):
        view.run(killing(45, []))
    assert StoreReader(view.store).tail().unfinished is not None
    with StoreWriter(view.store) as store:
        assert maintain(store, PLAN, TINY).merged == 0
    view.run()
    assert view.content() == calm.content(5)
