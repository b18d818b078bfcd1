"""A directory's files keep the order in which a store took them, whatever becomes of their modification times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from laminar_dagster.cli.run import run_and_report
from laminar_dagster.engine.correcting import backfill
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.semantics.time import SECOND, from_datetime
from tests.engine.sources.views import NOON, View, files_view, json_lines, write

pytestmark = pytest.mark.spark


def touched(view: View, order: list[str]) -> None:
    for mtime, name in enumerate(order):
        os.utime(view.root / "in" / name, (mtime, mtime))


def test_a_store_is_verified_and_corrected_in_the_order_of_its_ledger(spark: Any, tmp_path: Path) -> None:
    view = files_view(tmp_path, "json")
    for number in range(6):
        rows = json_lines(("a", number, 10 * number), ("b", number, 10 * number - 15))
        write(tmp_path, f"{number}.json", rows, mtime=number)
        if number in (2, 3, 5):
            view.run(spark)
    shown, late = view.closed(), view.reasons()
    assert late == {"allowed_lateness_exceeded": 5}
    touched(view, [f"{number}.json" for number in reversed(range(6))])
    write(tmp_path, "new.json", json_lines(("a", 100, 1)), mtime=0)
    found = verify(view.plan, spark, project=tmp_path, data=tmp_path / "data", range_=Range())
    assert found is not None
    assert (found.is_right, found.rows, found.gone) == (True, len(shown), 0)
    bounds = [(from_datetime(NOON), from_datetime(NOON) + 20 * SECOND)]
    backfill(view.plan, spark, project=tmp_path, data=tmp_path / "data", ranges=bounds)
    assert view.closed() == {**shown, (0, "b"): (1, 2), (10, "b"): (1, 3)}
    corrected = verify(view.plan, spark, project=tmp_path, data=tmp_path / "data", range_=Range())
    assert corrected is not None
    assert corrected.is_right


def test_a_first_build_of_files_whose_times_cannot_be_their_order_is_warned_of_once(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = files_view(tmp_path, "json")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "out.sql").write_text(view.sql)
    project = Project.find(tmp_path)
    for number in range(3):
        write(tmp_path, f"{number}.json", json_lines(("a", number, number)), mtime=1)
    for times in (1, 0):
        assert run_and_report(view.plan, spark, project, RunOptions(), Console(stderr=True), as_json=False)
        assert capsys.readouterr().err.count('warning: out: the 3 files of source "ev" are taken by') == times
