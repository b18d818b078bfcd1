"""Java is checked before Spark is started, with an error that names what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from laminar_dagster.engine.java import find_java
from laminar_dagster.errors import LaminarError

ROOT = Path(__file__).parents[2]


def fake_java(directory: Path, script: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2022-01-01' >&2"


def test_a_path_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaminarError, match="LMR0501") as caught:
        find_java()
    assert "PATH has no java" in str(caught.value)
    assert "apt install" in str(caught.value)


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LaminarError, match="LMR0501") as caught:
        find_java()
    assert f"JAVA_HOME is {tmp_path}" in str(caught.value)


def test_a_java_that_only_says_where_to_get_one_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LaminarError, match="LMR0501"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.20", "16"])
def test_a_java_before_17_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    program = fake_java(tmp_path, says(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LaminarError, match="LMR0502") as caught:
        find_java()
    assert version in str(caught.value)
    assert str(program) in str(caught.value)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_a_java_from_17_on_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int) -> None:
    program = fake_java(tmp_path, says(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert (found.path, found.version, found.major) == (program, version, major)


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", says("17.0.1"))
    fake_java(tmp_path / "home", says("21.0.1"))
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java().major == 21


def test_the_check_runs_before_anything_is_installed() -> None:
    """`make` calls it with -S, that is, without site-packages."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "laminar_dagster.engine.java"],
        cwd=ROOT,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "[LMR0501]" in done.stderr
    assert "Traceback" not in done.stderr
