"""A Delta table's log, version by version, as it lies on disk: what each version added and removed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar_dagster.engine.sources.commits import SourceFile
from laminar_dagster.engine.sources.paths import path_in_log

IDENTITY_LENGTH = 16


@dataclass(frozen=True)
class Version:
    """What one version did to the table's rows. `rewrites`: it removed rows, or added a file only in part.

    `identity`: a table that is restored from an old copy and written to again has the number a second time.
    """

    number: int
    at: int
    files: tuple[SourceFile, ...]
    rewrites: bool
    identity: str


class DeltaLog:
    """Reads `_delta_log/*.json`; checkpoints hold no history, so a version whose file is cleaned away is lost."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, version: int) -> Path:
        return self.root / "_delta_log" / f"{version:020d}.json"

    def version(self, number: int) -> Version | None:
        """None if the log no longer has the version."""
        entry = self.entry(number)
        if entry is None:
            return None
        actions = actions_of(entry)
        adds = _changes(actions, "add")
        rewrites = bool(_changes(actions, "remove")) or any(add.get("deletionVector") for add in adds)
        times = [int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action]
        files = tuple(self.source_file(add) for add in adds)
        return Version(number, max(times, default=0), files, rewrites, _identity(entry))

    def entry(self, version: int) -> bytes | None:
        try:
            return self.file(version).read_bytes()
        except FileNotFoundError:
            return None

    def identity(self, version: int) -> str | None:
        """None if the log no longer has the version."""
        entry = self.entry(version)
        return None if entry is None else _identity(entry)

    def source_file(self, change: dict[str, Any]) -> SourceFile:
        """The data file of an action; an old `remove` may lack the size."""
        partition = tuple((change.get("partitionValues") or {}).items())
        return SourceFile(str(path_in_log(self.root, change["path"])), change.get("size") or 0, partition=partition)

    def replayable(self, current: int) -> bool:
        """Whether the whole history is there and only ever appended, so that each version can be read by itself."""
        if not all(self.file(number).exists() for number in range(current + 1)):
            return False
        versions = (self.version(number) for number in range(current + 1))
        return all(v is not None and not v.rewrites and not missing(v.files) for v in versions)


def actions_of(entry: bytes) -> list[dict[str, Any]]:
    """One on each line. U+2028 in a name or a value ends no line, as it would for `splitlines`."""
    return [json.loads(line) for line in entry.split(b"\n") if line.strip()]


def _identity(entry: bytes) -> str:
    """An entry is written once and never changed; it names files that nobody else wrote, and its own time."""
    return hashlib.sha256(entry).hexdigest()[:IDENTITY_LENGTH]


def _changes(actions: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The file actions that change rows: OPTIMIZE and its like only move them (`dataChange` false)."""
    return [action[kind] for action in actions if kind in action and action[kind].get("dataChange", True)]


def missing(files: Sequence[SourceFile]) -> list[str]:
    return [file.path for file in files if not Path(file.path).exists()]
