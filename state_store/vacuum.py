"""Deletes the files that no retained epoch needs.

What nobody can need follows from one version of a table, the one of the oldest epoch that is kept, and from names: a
file begins with the number that it can get into the table under. If that number was taken by then, and the file is not
in that version, no version from there on has it or ever will: it was removed before, or never got in because its run
was killed. So leaving off anywhere does no harm, nor does a run that does not know yet that another took over.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltalake.exceptions import DeltaError

from state_store import format as f
from state_store.delta_log import LOG_FOLDER, forgotten_log_files, version_before
from state_store.epochs import LOG
from state_store.policy import MaintenancePolicy
from state_store.retention import Kept, kept_of
from state_store.tables import DeltaDirectory
from state_store.writer import COMPACTION_APPLICATION, StoreWriter

_NUMBERED = re.compile(r"(e|m|log-)(\d{10,})\b")


@dataclass(frozen=True)
class Doomed:
    """A file, or a folder that is empty, that can go."""

    table: DeltaDirectory
    path: Path
    size: int


def vacuum_if_due(store: StoreWriter, policy: MaintenancePolicy, rewritten: Collection[str] = ()) -> int:
    """Every so many epochs, or as long as the last vacuum was not the end of it; gives how many files went."""
    if store.last is None:
        return 0
    left = store.maintenance.get("vacuum", {}).get("left", 0)
    if store.last.epoch % policy.vacuum_every and not left:
        return 0
    return vacuum(store, policy, policy.deletions, rewritten)


def vacuum(
    store: StoreWriter, policy: MaintenancePolicy, most: int | None = None, rewritten: Collection[str] = ()
) -> int:
    """Delete what the policy does not retain, `most` files of it; first it is written down what is forgotten."""
    if store.last is None:
        return 0
    now = datetime.now(UTC)
    kept = kept_of(store.log, store.last, policy, now, store.readable, rewritten)
    left = store.maintenance.get("vacuum", {}).get("left", 0)
    if not left and all(store.readable.get(name, 1) == what.epoch for name, what in kept.items()):
        return 0
    found = [*_doomed_log(store, now - policy.retain_state), *_doomed_tables(store, kept)]
    chosen = found[:most]
    if not chosen:
        return 0
    store.forget(
        {name: what.epoch for name, what in kept.items()},
        files=len(chosen),
        size=sum(doomed.size for doomed in chosen),
        left=len(found) - len(chosen),
    )
    for doomed in chosen:
        _delete(doomed)
        store.after_write(f"{doomed.table.root.name} vacuum")
    return len(chosen)


def _doomed_tables(store: StoreWriter, kept: Mapping[str, Kept]) -> Iterator[Doomed]:
    for name, what in kept.items():
        table = store.table(name)
        # A table that began later has its whole history.
        version = 0 if what.version is None else what.version
        with contextlib.suppress(DeltaError):  # its log was cleaned by somebody else: what is needed cannot be known
            oldest = table.at(version)
            merges = oldest.landed(COMPACTION_APPLICATION) or 0
            yield from _doomed_files(table, oldest, {"e": what.epoch, "m": merges})


def _doomed_log(store: StoreWriter, since: datetime) -> Iterator[Doomed]:
    """The epoch log is only ever read as it is now, so of its past a stretch of time is enough."""
    table = store.table(f.EPOCHS)
    version = version_before(table.root, since)
    if version is not None:
        with contextlib.suppress(DeltaError):
            oldest = table.at(version)
            yield from _doomed_files(table, oldest, {"log-": oldest.landed(LOG) or 0})


def _doomed_files(table: DeltaDirectory, oldest: DeltaDirectory, taken: Mapping[str, int]) -> Iterator[Doomed]:
    """Data files first, then the log that named them."""
    for path in _leftovers(table.root, oldest.paths() | table.paths(), taken):
        yield Doomed(table, path, path.stat().st_size if path.is_file() else 0)
    for path in forgotten_log_files(table.root, oldest.version or 0):
        yield Doomed(table, path, path.stat().st_size)


def _leftovers(root: Path, needed: set[str], taken: Mapping[str, int]) -> Iterator[Path]:
    """What lies below a table's root under a number that was taken, and is not needed."""
    for entry in sorted(root.iterdir()) if root.is_dir() else []:
        number = _NUMBERED.match(entry.name)
        if number is None or int(number[2]) > taken.get(number[1], -1):
            continue
        for path in _below(entry):
            written = path.with_name(path.name[1:-4]) if path.suffix == ".crc" else path
            if written.relative_to(root).as_posix() not in needed:
                yield path


def _below(entry: Path) -> Iterator[Path]:
    """A file itself; of a folder its files, and folders that hold nothing."""
    if not entry.is_dir():
        yield entry
        return
    for folder, folders, files in os.walk(entry):
        yield from (Path(folder, name) for name in files)
        if not files and not folders:
            yield Path(folder)


def _delete(doomed: Doomed) -> None:
    """Delete a file, and the folders that it leaves empty."""
    if doomed.path.is_file():
        doomed.path.unlink(missing_ok=True)
    folder = doomed.path if doomed.path.is_dir() else doomed.path.parent
    with contextlib.suppress(OSError):  # not empty: something in it is needed
        while folder not in (doomed.table.root, doomed.table.root / LOG_FOLDER):
            folder.rmdir()
            folder = folder.parent
