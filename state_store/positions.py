"""How far each sink of a view has come: one small file for each, replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FOLDER = "sinks"


@dataclass(frozen=True)
class SinkPosition:
    """All epochs up to this one are delivered; `delivered` is the last of them that changed something.

    `target` is what they were delivered to, `at` when the last rows went there (microseconds); None: none did.
    `dropped` is how many rows it did not get, and will not: it could not take them, and was told to go on.
    """

    epoch: int = 0
    delivered: int = 0
    at: int | None = None
    target: Mapping[str, Any] = field(default_factory=dict)
    dropped: int = 0


class SinkPositions:
    """The positions in a view's store. A kill leaves the earlier position or the later one, never half a file."""

    def __init__(self, store: Path) -> None:
        self.folder = store / FOLDER

    def read(self, sink: str) -> SinkPosition | None:
        """None: the sink has never been delivered to."""
        path = self._path(sink)
        if not path.exists():
            return None
        told = json.loads(path.read_text(encoding="utf-8"))
        return SinkPosition(
            told["epoch"], told["delivered"], told.get("at"), told.get("target", {}), told.get("dropped", 0)
        )

    def write(self, sink: str, position: SinkPosition) -> None:
        path = self._path(sink)
        text = json.dumps(asdict(position), separators=(",", ":"), sort_keys=True)
        write_whole(path, text.encode())

    def _path(self, sink: str) -> Path:
        return self.folder / f"{sink}.json"


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in the place of the one that is there, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = unfinished_name(path)
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def unfinished_name(path: Path) -> Path:
    """Where a file is written before it gets its name; those who list a directory skip names with a dot."""
    return path.with_name(f".{path.name}.tmp")
