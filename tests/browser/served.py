"""The demo shop under a real `laminar dev`: web server, daemon, code server, and a Spark that stays warm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar_dagster.engine.ports import free_port

ROOT = Path(__file__).parents[2]
FILES = ("laminar.toml", "workspace.yaml")
SECONDS_TO_START = 240.0
SECONDS_TO_RUN = 240.0
ENDED = ("SUCCESS", "FAILURE", "CANCELED")

RUNS = """
query ($filter: RunsFilter, $limit: Int) { runsOrError(filter: $filter, limit: $limit) { ... on Runs { results {
  runId status jobName creationTime startTime endTime tags { key value } assetSelection { path } } } } }
"""
BACKFILLS = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status } } } }"
LOCATIONS = """
{ workspaceOrError { ... on Workspace { locationEntries { loadStatus locationOrLoadError {
  ... on RepositoryLocation { id } ... on PythonError { message } } } } } }
"""


def copied(root: Path) -> Path:
    """A project of its own, with the demo's SQL and definitions in it."""
    shutil.copytree(ROOT / "assets", root / "assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, root)
    return root


def until(what: str, found: Callable[[], Any], seconds: float) -> Any:
    """The first answer that is something; an error if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} seconds")
        time.sleep(0.2)
    return answer


@dataclass(frozen=True)
class Served:
    """Where the shop is, and what Dagster says of it."""

    root: Path
    url: str

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            said = json.load(answer)
        assert "errors" not in said, said["errors"]
        return said["data"]

    def runs(self, **filters: Any) -> list[dict[str, Any]]:
        """The last runs, newest first."""
        found: list[dict[str, Any]] = self.ask(RUNS, filter=filters, limit=20)["runsOrError"]["results"]
        return found

    def ended(self, run_id: str) -> dict[str, Any]:
        """A run, once it is over."""

        def over() -> dict[str, Any] | None:
            (run,) = self.runs(runIds=[run_id])
            return run if run["status"] in ENDED else None

        run: dict[str, Any] = until(f"the end of run {run_id}", over, SECONDS_TO_RUN)
        return run

    def backfills(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(BACKFILLS)["partitionBackfillsOrError"]["results"]
        return found

    def is_loaded(self) -> bool:
        try:
            entries = self.ask(LOCATIONS)["workspaceOrError"]["locationEntries"]
        except OSError:
            return False
        if not entries or any(entry["loadStatus"] != "LOADED" for entry in entries):
            return False
        problems = [entry["locationOrLoadError"].get("message") for entry in entries]
        assert problems == [None], problems
        return True


@contextmanager
def served(root: Path, *arguments: str, output: Path, **settings: str) -> Iterator[Served]:
    """`laminar dev` over the project until the end of the block; nothing of it is left after. Settings: environment."""
    port = free_port(None, 0, next_command="")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"LAMINAR_HOME": str(root / ".laminar"), "LAMINAR_DRIVER_MEMORY": "1g", **settings}
    command = [sys.executable, "-m", "laminar_dagster.cli", "dev", "--project", str(root), "--port", str(port)]
    with output.open("wb") as printed:
        process = subprocess.Popen([*command, *arguments], cwd=root, env=environment, stdout=printed, stderr=printed)
    shop = Served(root, f"http://127.0.0.1:{port}")
    try:
        until("Dagster's web server", lambda: process.poll() is not None or shop.is_loaded(), SECONDS_TO_START)
        assert process.poll() is None, output.read_text()
        yield shop
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)
