"""A directory of JSON lines, CSV or Parquet files: each file is a commit, in the order in which it was first taken."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.sources.commits import COMPRESSED, Limit, SourceCommit, SourceFile, unreadable
from laminar_dagster.engine.sources.csv_copies import Copies
from laminar_dagster.engine.sources.csv_lines import Dialect, csv_frame
from laminar_dagster.engine.sources.footers import Footers
from laminar_dagster.engine.sources.json_lines import json_frame
from laminar_dagster.engine.sources.parquet import parquet_frame
from laminar_dagster.engine.sources.paths import can_be_named, located
from laminar_dagster.engine.sources.text_values import can_be_text
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIXES = {"json": (".json", ".jsonl", ".ndjson"), "csv": (".csv", ".tsv"), "parquet": (".parquet",)}
UNREADABLE = (".zip", ".zst", ".xz", ".7z", ".lz4", ".snappy", ".br", ".z")
BY_NAME = "name"
FEWEST_TO_DOUBT = 3


class FilesConnector:
    """Position: every file taken, with its size. A file that changes after it was read is an error, not a loss."""

    keeps_ledger = True

    def __init__(self, source: Source, root: Path, data: Path | None = None) -> None:
        self.source = source
        self._copies = Copies(data)
        self.path = located(root, source.options["path"])
        self.format = source.options["format"]
        unfit = [field for field in source.columns if not can_be_text(field.type)]
        if self.format == "csv" and unfit:
            raise LaminarError(
                "LMR0610",
                f'column "{unfit[0].name}" of source "{source.name}" is {unfit[0].type}, which CSV cannot hold',
                hint="Declare it STRING, or use JSON lines or Parquet.",
            )

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found: list[SourceCommit] = []
        footers = Footers(self.source, self.source.watermark_column, self.source.columns)
        for path, size, order in self._new(position or {}):
            files = (SourceFile(str(path), size),)
            known = footers.of(files) if self.format == "parquet" else files
            commit = SourceCommit(self.source.name, self._name(path), order, known)
            if not limit.take(commit) and found:
                break
            found.append(commit)
        return found

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _new(self, seen: dict[str, int]) -> list[tuple[Path, int, int]]:
        """Files not taken yet, in the order of the source, each with a time that never falls; recorded when taken."""
        if not self.path.is_dir():
            raise LaminarError(
                "LMR0602",
                f'source "{self.source.name}" has no directory at {self.path}',
                hint="Create the directory, or correct `path` in CREATE SOURCE (it is relative to the project).",
                committed="Nothing was read; all earlier epochs stand.",
            )
        listed: list[tuple[int, str, Path, int]] = []
        below = len(str(self.path)) + 1
        for entry in self._entries():
            name = entry.path[below:]
            if name not in seen and not self._wanted(Path(entry.path)):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            if name not in seen:
                self._require_name(entry.path)
                listed.append((status.st_mtime_ns, name, Path(entry.path), status.st_size))
            elif seen[name] != status.st_size:
                raise self._changed(name, seen[name], status.st_size)
        return self._in_order(listed)

    def _in_order(self, listed: list[tuple[int, str, Path, int]]) -> list[tuple[Path, int, int]]:
        """By name, or by modification time and then by name.

        By name, a file counts among the commits of other sources as if it were as old as the newest before it.
        """
        if self.source.options.get("order") != BY_NAME:
            return [(path, size, at // 1_000_000) for at, _, path, size in sorted(listed)]
        by_name = sorted(listed, key=lambda found: found[1])
        times = accumulate((at for at, *_ in by_name), max)
        return [(path, size, at // 1_000_000) for at, (_, _, path, size) in zip(times, by_name, strict=True)]

    def caution(self) -> str | None:
        """Before a first build: modification times that cannot be the order in which the files came."""
        if self.source.options.get("order") == BY_NAME:
            return None
        files = [(path.stat().st_mtime_ns, self._name(path)) for path in self.listed()]
        doubt = _doubt(sorted(files))
        return doubt and (
            f'the {len(files)} files of source "{self.source.name}" are taken by modification time, and these times '
            f"{doubt}: a copy does not keep them, and rows of a file taken too late are late. "
            "If the names tell the order, say order = 'name' in CREATE SOURCE, and build the view anew."
        )

    def listed(self) -> Iterator[Path]:
        """The source's files, in no order."""
        paths = (Path(entry.path) for entry in self._entries())
        return (path for path in paths if self._wanted(path))

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """All files below the directory. What is hidden, or in a hidden folder, is not there yet.

        Each epoch goes through all of them, so nothing is made of a file here that it may do without.
        """
        folders = [str(self.path)]
        while folders:
            # A folder that is gone by now, or that may not be read, holds nothing.
            with contextlib.suppress(FileNotFoundError, PermissionError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(("_", ".")):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file():
                        yield entry

    def _require_name(self, path: str) -> None:
        if not can_be_named(path):
            raise unreadable(self.source.name, path, "the name has both a colon and one of [ ] { } * ?")

    def _wanted(self, path: Path) -> bool:
        last = path.suffix.lower()
        bare = path.with_suffix("") if last in (*COMPRESSED, *UNREADABLE) else path
        pattern = self.source.options.get("pattern")
        wanted = fnmatch(path.name, pattern) if pattern else bare.suffix.lower() in SUFFIXES[self.format]
        if wanted and (last in UNREADABLE or (last in COMPRESSED and self.format == "parquet")):
            raise LaminarError(
                "LMR0609",
                f'file "{self._name(path)}" of source "{self.source.name}" is compressed in a way that is not read',
                hint="Text may be plain, .gz or .bz2; Parquet is compressed inside. Unpack the file, or rename it to "
                "begin with `_`, which leaves it out.",
                committed="Everything read so far is committed; nothing of this run is.",
            )
        return wanted

    def _changed(self, name: str, before: int, now: int) -> LaminarError:
        return LaminarError(
            "LMR0606",
            f'file "{name}" of source "{self.source.name}" changed after it was read',
            detail=f"It had {before} bytes when it was read and has {now} now; a file is read once, as a whole.",
            hint="Write new rows to new files (write under a name that begins with `_` or `.`, then rename). To go on, "
            "put the old content back and add the new rows as a file of their own.",
            committed="Everything read so far is committed; nothing of this run is.",
        )

    def backlog(self, position: Any) -> int:
        return len(self._new(position or {}))

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return {**(position or {}), **{commit.id: commit.files[0].size for commit in commits}}

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        if self.format == "parquet":
            return parquet_frame(spark, self.fields(), commits)
        paths = [file.path for commit in commits for file in commit.files]
        if self.format == "json":
            return json_frame(spark, self.fields(), paths)
        return csv_frame(spark, self.fields(), paths, Dialect.from_options(self.source.options), self._copies)


def _doubt(files: Sequence[tuple[int, str]]) -> str | None:
    """What is odd about modification times, oldest first, each with the file's name.

    Names that differ in digits alone (numbers, dates) should rise; any others should not all fall.
    """
    if len(files) < FEWEST_TO_DOUBT:
        return None
    if files[0][0] == files[-1][0]:
        return "are all alike"
    names = [name for _, name in files]
    numbered = len({re.sub(r"\d", "0", name) for name in names}) == 1
    falls = [later < earlier for earlier, later in pairwise(names)]
    return "run against their names" if (any(falls) if numbered else all(falls)) else None
