"""The pages that follow from the code are as the code says."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
import typer

from laminar_dagster.cli.app import app
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["aggregates.md", "cli.md", "metrics.md"])
def test_the_page_is_as_the_generator_writes_it(generator: ModuleType, name: str) -> None:
    page = ROOT / "docs" / "reference" / name
    assert page.read_text(encoding="utf-8") == generator.PAGES[name](), "run: python docs/generate.py"


def test_the_command_line_page_has_every_command_and_option_of_help() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for path in _command_paths():
        section = page.split(f"## `{' '.join(path)}`\n")[1].split("\n## ")[0]
        missing = [option for option in _options_in_help(path) if f"`{option}`" not in section]
        assert not missing, path


def _command_paths() -> list[tuple[str, ...]]:
    found = []
    todo = [(("laminar",), typer.main.get_command(app))]
    while todo:
        path, command = todo.pop()
        found.append(path)
        todo += [((*path, name), child) for name, child in getattr(command, "commands", {}).items()]
    return found


def _options_in_help(path: tuple[str, ...]) -> set[str]:
    from typer.testing import CliRunner

    text = CliRunner().invoke(app, [*path[1:], "--help"]).output
    return {option for option in re.findall(r"(?<![\w-])--[a-z-]+", text) if option != "--help"}


def test_the_configuration_page_has_every_environment_variable_that_the_code_reads() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "laminar_dagster").rglob("*.py"))
    read = set(re.findall(r"\bLAMINAR_[A-Z_]+\b", code))
    assert {name for name in read if f"`{name}`" not in page} == set()


def test_the_configuration_page_has_every_key_of_laminar_toml() -> None:
    from laminar_dagster.engine.project import KEYS

    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"| `{key}` |" not in page] == []


def test_the_changelog_page_has_every_name_that_python_programs_import() -> None:
    from laminar_dagster import changes

    page = (ROOT / "docs" / "reference" / "changelog.md").read_text(encoding="utf-8").split("## In Python")[1]
    assert [name for name in changes.__all__ if not re.search(rf"`{name}\b", page)] == []
