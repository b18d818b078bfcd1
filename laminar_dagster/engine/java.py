"""Finds the Java that Spark will use, and says what to do when there is none.

Spark's own message for a missing or old Java comes late and names neither. `make` runs this module before
anything is installed, so it imports only the standard library and `laminar_dagster.errors`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from laminar_dagster.errors import LaminarError

OLDEST_JAVA = 17

HOW_TO_GET_JAVA = (
    "Debian, Ubuntu: sudo apt install openjdk-17-jre-headless. "
    "macOS: brew install openjdk@17. "
    "Installed elsewhere: set JAVA_HOME to its directory (the one that holds bin/java)."
)


@dataclass(frozen=True)
class JavaInfo:
    """The `java` program that Spark's scripts will start."""

    path: Path
    version: str
    major: int


def find_java() -> JavaInfo:
    """The Java that Spark will use (JAVA_HOME before PATH, as Spark's scripts choose)."""
    path = _java_program()
    version = _version_of(path)
    major = _major(version)
    if major < OLDEST_JAVA:
        raise LaminarError(
            "LMR0502",
            f"Java {version} is too old: Spark needs Java {OLDEST_JAVA} or later",
            detail=f"Found {path}.",
            hint=HOW_TO_GET_JAVA,
        )
    return JavaInfo(path, version, major)


def _java_program() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise _no_java(f"JAVA_HOME is {home}, but there is no program {path}.")
        return path
    found = shutil.which("java")
    if found is None:
        raise _no_java("JAVA_HOME is not set, and PATH has no java.")
    return Path(found)


def _version_of(path: Path) -> str:
    try:
        done = subprocess.run([str(path), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_java(f"{path} -version failed: {error}") from error
    said = done.stderr + done.stdout
    match = re.search(r'version "([^"]+)"', said)
    if done.returncode != 0 or match is None:
        # macOS ships a /usr/bin/java that only says where to get one.
        raise _no_java(f"{path} -version ended with status {done.returncode} and said: {said.strip()[:300]}")
    return match.group(1)


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    old_scheme = numbers[0] == 1 and len(numbers) > 1  # "1.8.0_292" is Java 8
    return numbers[1] if old_scheme else numbers[0]


def _no_java(detail: str) -> LaminarError:
    return LaminarError(
        "LMR0501",
        f"Java {OLDEST_JAVA} or later is needed to run Spark, and none was found",
        detail=detail,
        hint=HOW_TO_GET_JAVA,
    )


def main() -> int:
    """Silent when Java is there; else the error, and status 1."""
    try:
        find_java()
    except LaminarError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
