"""The tests that pages name, as pytest collects them: what is there and runs, with its parameters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What has one of these marks may be there and never run.
NOT_RUN = ("skip", "skipif", "xfail")


def collected(paths: Iterable[str]) -> dict[str, set[str]]:
    """Tests that run, of these files and folders: each with its parameters."""
    marks = " and ".join(f"not {mark}" for mark in NOT_RUN)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", marks]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, *sorted(set(paths))], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        test, _, parameters = line.partition("[")
        if "::" in test:
            found.setdefault(test, set()).add(parameters.removesuffix("]"))
    return found


def require(shown: str, found: dict[str, set[str]]) -> None:
    """`tests/a.py::test_b[c]`, `tests/a.py` or a folder: some test of it runs."""
    name, _, parameters = shown.partition("[")
    if "::" not in name:
        assert any(test.startswith(name) for test in found), f"nothing of {name} is collected that runs"
        return
    assert name in found, f"no test {name} is collected that runs"
    if parameters:
        assert parameters.removesuffix("]") in found[name], f"{name} does not run with [{parameters}"
