"""What the README and the tutorial tell a reader to save and to run works, and prints what they say."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from laminar_dagster.cli import main
from tests.docs.pages import ROOT, Command, SavedFile, same, steps

RUNNABLE = {
    "README.md": 4,
    "docs/tutorial/first-view.md": 4,
    "docs/how-to/backfill-a-day.md": 5,
    "docs/how-to/deliver-to-sinks.md": 3,
    "docs/how-to/fold-late-rows.md": 5,
    "docs/how-to/follow-changes.md": 5,
    "docs/how-to/use-from-python.md": 1,
}


@pytest.mark.spark
@pytest.mark.parametrize("name", RUNNABLE)
def test_the_page_can_be_followed_step_by_step(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LAMINAR_SPARK", spark.sparkContext.master)
    commands = 0
    for step in steps(ROOT / name):
        if isinstance(step, SavedFile):
            _save(tmp_path / step.path, step.text)
            continue
        commands += 1
        printed = _printed(step, monkeypatch, capsys)
        assert same(step.output, printed), f"{' '.join(step.arguments)} printed:\n{printed}"
    assert commands >= RUNNABLE[name]


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _printed(command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    if command.arguments[0] == "python":
        runpy.run_path(command.arguments[1], run_name="__main__")
    else:
        monkeypatch.setattr(sys, "argv", list(command.arguments))
        with pytest.raises(SystemExit):
            main()
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_an_ellipsis_stands_for_anything_and_nothing_else_does() -> None:
    assert same("a … c", "a b\nb  c")
    assert not same("a b", "a b c")
