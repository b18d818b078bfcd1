"""The component in a project of its own, by Dagster's command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

COMPONENT = "laminar_dagster.integration.LaminarComponent"
PYPROJECT = """
[project]
name = "shop"
version = "0"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """
from pathlib import Path
from dagster import definitions, load_from_defs_folder

@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
MORE = """
  automation: {name: shop, sensor_seconds: 30, maintenance: "0 3 * * *"}
  checks:
    late_rate: {max: 0.01, blocking: true}
    verify: null
"""


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(tools.parent),
        "PYTHONPATH": str(folder),
        "COLUMNS": "200",
        "DAGSTER_HOME": "",
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def require(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop" / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "defs" / "__init__.py").touch()
    (tmp_path / "shop" / "definitions.py").write_text(DEFINITIONS)
    return tmp_path


def test_the_component_is_scaffolded_checked_and_loaded_by_dg(shop: Path) -> None:
    require(ran(shop, "dg", "scaffold", "defs", COMPONENT, "sales"))
    yaml = shop / "shop" / "defs" / "sales" / "defs.yaml"
    scaffolded = yaml.read_text()
    yaml.write_text(scaffolded + MORE)
    require(ran(shop, "dg", "check", "defs"))
    yaml.write_text(scaffolded + "  checks: {late_rat: {max: 0.01}}\n")
    wrong = ran(shop, "dg", "check", "yaml")
    assert wrong.returncode != 0
    assert "late_rat" in wrong.stdout + wrong.stderr
