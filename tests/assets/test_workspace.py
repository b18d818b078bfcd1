"""The demo is a workspace that Dagster's own tools find nothing wrong with, and that loads without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LOAD = """
import sys
from assets.definitions import defs
defs.resolve_asset_graph()
print(sorted({"pyspark", "py4j"} & set(sys.modules)))
"""


@pytest.mark.programs
@pytest.mark.parametrize("command", ["dagster definitions validate -w workspace.yaml", "dg check defs"])
def test_dagsters_own_tools_find_nothing_wrong(command: str) -> None:
    program, *arguments = command.split()
    ran = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_demo_loads_without_spark() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOAD], cwd=ROOT, check=True, capture_output=True, text=True)
    assert loaded.stdout == "[]\n"
