"""Processes of the command line, forked from one that has imported all of it: as real as any, and sooner there."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PRELOADED = ("laminar_dagster.cli.app", "laminar_dagster.cli.run", "pyspark.sql.connect.session")
SECONDS = 120.0


class Laminar:
    """`laminar …` in a process of its own, under this environment."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        with tempfile.NamedTemporaryFile(prefix="laminar-output-", delete=False) as output:
            self._output = Path(output.name)
        given = (arguments, {**os.environ, **environment}, self._output)
        self._process = _forking().Process(target=_run, args=given)
        self._process.start()

    def finish(self) -> tuple[int, str]:
        """How it ended (a negative number: by that signal), and what it said."""
        self._process.join(SECONDS)
        code, text = self._process.exitcode, self._output.read_text()
        self._output.unlink()
        assert code is not None, f"still running after {SECONDS:.0f} seconds:\n{text}"
        return code, text


@cache
def _forking() -> multiprocessing.context.ForkServerContext:
    """One server, and it has no thread, no connection and no JVM that a fork could take over."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _run(arguments: tuple[str, ...], environment: Mapping[str, str], output: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with output.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["laminar", *arguments]
    from laminar_dagster.cli import main

    main()
