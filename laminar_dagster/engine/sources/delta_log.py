"""A Delta table's log, version by version, as it lies on disk: what each version added and removed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar_dagster.engine.sources.commits import SourceFile
from laminar_dagster.engine.sources.paths import path_in_log


@dataclass(frozen=True)
class Version:
    """What one version did to the table's rows. `rewrites`: it removed rows, or added a file only in part."""

    number: int
    at: int
    files: tuple[SourceFile, ...]
    rewrites: bool


class DeltaLog:
    """Reads `_delta_log/*.json`; checkpoints hold no history, so a version whose file is cleaned away is lost."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, version: int) -> Path:
        return self.root / "_delta_log" / f"{version:020d}.json"

    def version(self, number: int) -> Version | None:
        """None if the log no longer has the version."""
        try:
            text = self.file(number).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        actions = [json.loads(line) for line in text.splitlines() if line]
        adds = _changes(actions, "add")
        rewrites = bool(_changes(actions, "remove")) or any(add.get("deletionVector") for add in adds)
        times = [int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action]
        return Version(number, max(times, default=0), tuple(self._source_file(add) for add in adds), rewrites)

    def _source_file(self, add: dict[str, Any]) -> SourceFile:
        partition = tuple(add.get("partitionValues", {}).items())
        return SourceFile(str(path_in_log(self.root, add["path"])), add["size"], partition=partition)

    def replayable(self, current: int) -> bool:
        """Whether the whole history is there and only ever appended, so that each version can be read by itself."""
        if not all(self.file(number).exists() for number in range(current + 1)):
            return False
        versions = (self.version(number) for number in range(current + 1))
        return all(v is not None and not v.rewrites and not missing(v.files) for v in versions)


def _changes(actions: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The file actions that change rows: OPTIMIZE and its like only move them (`dataChange` false)."""
    return [action[kind] for action in actions if kind in action and action[kind].get("dataChange", True)]


def missing(files: Sequence[SourceFile]) -> list[str]:
    return [file.path for file in files if not Path(file.path).exists()]
