"""Keeps the local Spark Connect server up for as long as somebody needs it: started once, started again if it dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.connect_server import ServerStatus
from laminar_dagster.engine.session import SparkSettings
from laminar_dagster.errors import LaminarError

# A port that is silent this often in a row belongs to a server that hangs.
SILENT_LOOKS = 5
# Seconds before the next try, by how many tries have failed.
PAUSES = (2.0, 5.0, 15.0, 60.0)


@dataclass
class SupervisedServer:
    """The server of a project. `look` is called again and again; `end` stops a server that was started here."""

    settings: SparkSettings
    port: int
    tell: Callable[[str], None]
    given_up: Callable[[], bool]
    _seen: int | None = None
    _began: int | None = None
    _silent: int = 0
    _failed: int = 0
    _not_before: float = 0.0

    def look(self) -> None:
        """Start the server if it does not run."""
        found = connect_server.status()
        if found.state == "running":
            self._silent = 0
            self._welcome(found)
            return
        self._silent = self._silent + 1 if found.state == "unhealthy" else SILENT_LOOKS
        if self._silent >= SILENT_LOOKS and time.monotonic() >= self._not_before:
            self._start()

    def end(self) -> None:
        """Stop the server, unless it ran before or somebody has started another one since."""
        if self._began is not None and connect_server.status().pid == self._began:
            connect_server.stop()

    def _welcome(self, found: ServerStatus) -> None:
        if self._seen != found.pid:
            self.tell(f"Spark Connect server at {found.url}, process {found.pid}, was running already")
            self._seen = found.pid

    def _start(self) -> None:
        if self._seen is not None:
            self.tell(f"Spark Connect server, process {self._seen}, is gone: starting it again")
        try:
            found = connect_server.start(self.port, self.settings, self.given_up)
        except LaminarError as problem:
            self._put_off(problem)
            return
        self.tell(f"Spark Connect server at {found.url}, process {found.pid}")
        self._seen = self._began = found.pid
        self._failed, self._silent = 0, 0

    def _put_off(self, problem: LaminarError) -> None:
        if self.given_up():
            return
        pause = PAUSES[min(self._failed, len(PAUSES) - 1)]
        self._failed, self._not_before = self._failed + 1, time.monotonic() + pause
        self.tell(f"{problem.render()}\nnext try in {pause:.0f} seconds")
