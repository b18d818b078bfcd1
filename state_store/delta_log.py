"""A table's `_delta_log` as files: which of them no version from some version on needs."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

LOG_FOLDER = "_delta_log"
_VERSIONED = re.compile(r"\.?(\d{20})\.")


def forgotten_log_files(root: Path, version: int) -> list[Path]:
    """Commits and checkpoints before the last checkpoint at or before `version`, oldest first.

    A version is loaded from a checkpoint and the commits after it, so what is before is not needed.
    """
    found = _by_version(root)
    begins = next((v for v in sorted(found, reverse=True) if v <= version and _has_checkpoint(root, v)), None)
    if begins is None:
        return []
    return [path for number in sorted(found) if number < begins for path in sorted(found[number])]


def version_before(root: Path, moment: datetime) -> int | None:
    """The version that was the table's last one at some moment; None if there was none."""
    commits = {number: root / LOG_FOLDER / f"{number:020d}.json" for number in _by_version(root)}
    older = (n for n, path in commits.items() if path.exists() and path.stat().st_mtime < moment.timestamp())
    return max(older, default=None)


def _by_version(root: Path) -> dict[int, list[Path]]:
    folder = root / LOG_FOLDER
    found: dict[int, list[Path]] = {}
    for path in folder.iterdir() if folder.is_dir() else []:
        number = _VERSIONED.match(path.name)
        if number is not None:
            found.setdefault(int(number[1]), []).append(path)
    return found


def _has_checkpoint(root: Path, version: int) -> bool:
    """Whether there is a whole one: nothing is deleted on the strength of a file that was cut short."""
    path = root / LOG_FOLDER / f"{version:020d}.checkpoint.parquet"
    try:
        return bool(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return False
