"""A source's log as the engine sees it: commits of files, in an order that is recorded and never changes."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from laminar_dagster.engine.sources.paths import file_url
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.watermark import shard_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_TEXT_ROW = 100
COMPRESSION_RATIO = 8
MESSAGES = "kafka:"
COMPRESSED = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File}


@dataclass(frozen=True)
class SourceFile:
    """A file of a commit. `low`, `high` and `nulls` are of the event time, where the file's footer tells them.

    A range of messages stands for a file too: `kafka:topic/partition/first-end`.
    """

    path: str
    size: int
    rows: int | None = None
    low: int | None = None
    high: int | None = None
    nulls: int | None = None
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def is_range(self) -> bool:
        return self.path.startswith(MESSAGES)

    @property
    def url(self) -> str:
        """As the file's rows name it."""
        return self.path if self.is_range else file_url(self.path)

    @property
    def knows_its_times(self) -> bool:
        return self.nulls is not None

    @property
    def estimated_rows(self) -> int:
        if self.rows is not None:
            return self.rows
        ratio = COMPRESSION_RATIO if Path(self.path).suffix.lower() in COMPRESSED else 1
        return self.size * ratio // BYTES_PER_TEXT_ROW + 1


@dataclass(frozen=True)
class SourceCommit:
    """One commit: a Delta version, a file, a test's commit. `order` sorts commits of different sources.

    A `snapshot` stands for all that a Delta table held at a version; which rows of its files count (deletion
    vectors), only Delta's own reader knows. `watermark` is what a view hands on with its epoch. `partition` is of a
    topic, and `skipped` how many of its messages were gone before they could be read. `correction`: the epoch of a view
    that is read corrected windows which may be closed here. `identity` tells a version of a Delta table from another of
    the same number, and `columns` are the names in files by which its rows were read (column mapping).
    """

    source: str
    id: str
    order: int
    files: tuple[SourceFile, ...]
    snapshot: bool = False
    watermark: int | None = None
    partition: int | None = None
    skipped: int = 0
    correction: bool = False
    identity: str | None = None
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def shard(self) -> str:
        return shard_name(self.source, self.partition)

    @property
    def estimated_rows(self) -> int:
        return sum(file.estimated_rows for file in self.files)

    def to_json(self) -> dict[str, Any]:
        files = [[f.path, f.size, f.rows, f.low, f.high, f.nulls, list(f.partition)] for f in self.files]
        handed_on = {} if self.watermark is None else {"watermark": self.watermark}
        body = {"source": self.source, "id": self.id, "order": self.order, "files": files, "snapshot": self.snapshot}
        messages = {} if self.partition is None else {"partition": self.partition, "skipped": self.skipped}
        version = {} if self.identity is None else {"identity": self.identity}
        names = {"columns": dict(self.columns)} if self.columns else {}
        corrects = {"correction": True} if self.correction else {}
        return {**body, **handed_on, **messages, **version, **names, **corrects}

    @staticmethod
    def from_json(entry: dict[str, Any]) -> SourceCommit:
        files = tuple(_source_file(*values) for values in entry["files"])
        watermark = entry.get("watermark")
        return SourceCommit(
            entry["source"],
            entry["id"],
            entry["order"],
            files,
            entry["snapshot"],
            watermark,
            entry.get("partition"),
            entry.get("skipped", 0),
            entry.get("correction", False),
            entry.get("identity"),
            tuple(entry.get("columns", {}).items()),
        )


def _source_file(
    path: str, size: int, rows: int | None, low: int | None, high: int | None, nulls: int | None, partition: list[Any]
) -> SourceFile:
    return SourceFile(path, size, rows, low, high, nulls, tuple((name, value) for name, value in partition))


class Connector(Protocol):
    """How one kind of source lists and reads its commits."""

    source: Source
    keeps_ledger: bool

    def fields(self) -> tuple[Field, ...]: ...

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        """The commits after `position`, oldest first, as many as `limit` allows but at least one.

        `order` never falls from one commit to the next: the engine sorts by it, and must not turn two around.
        """
        ...

    def backlog(self, position: Any) -> int:
        """How many commits wait after `position`, about: for a progress bar."""
        ...

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        """What to hand to `pending` once these commits are taken.

        Of a connector that keeps a ledger it is a mapping of every commit taken (id to size), kept in the store's
        `source_files` table rather than in the epoch log.
        """
        ...

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        """The commits' rows: the declared columns, `_file`, and for text `_raw`, `_fault` and `_detail`."""
        ...


@dataclass
class Limit:
    """How much one epoch may take. `take` says whether one more commit fits.

    `left` has the shards of which something waits behind what is taken, with the order of the first commit left.
    """

    rows: int
    files: int
    left: dict[str, int] = field(default_factory=dict)

    def take(self, commit: SourceCommit) -> bool:
        fits = self.has_room
        self.rows -= commit.estimated_rows
        self.files -= len(commit.files)
        if not fits:
            self.leave(commit.shard, commit.order)
        return fits

    @property
    def has_room(self) -> bool:
        return self.rows > 0 and self.files > 0

    def leave(self, shard: str, order: int) -> None:
        self.left.setdefault(shard, order)


def open_text(path: str) -> BinaryIO:
    """The file's bytes, decompressed as its name says."""
    opener = COMPRESSED.get(Path(path).suffix.lower())
    return Path(path).open("rb") if opener is None else cast("BinaryIO", opener(path))


# --- before an epoch that was planned is run -------------------------------------------------------------------


def require_files(commits: Sequence[SourceCommit], view: str, committed: str) -> None:
    """A planned file that is gone or has changed stops the run before anything is written."""
    files = [(commit.source, file) for commit in commits for file in commit.files if not file.is_range]
    missing = [(source, file.path) for source, file in files if not Path(file.path).exists()]
    if missing:
        raise _missing(missing, view, committed)
    for source, file in files:
        size = Path(file.path).stat().st_size
        if size != file.size:
            raise LaminarError(
                "LMR0606",
                f'a file of source "{source}" changed after its epoch was planned',
                detail=f"{file.path} had {file.size} bytes when the epoch was planned and has {size} now",
                hint=f"Put the planned content back and run again. If it is lost, `laminar run {view} --replan` plans "
                "the epoch anew, with what is there now.",
                committed=committed,
                next_command=f"laminar run {view}",
            )


def _missing(missing: Sequence[tuple[str, str]], view: str, committed: str) -> LaminarError:
    paths = [path for _, path in missing]
    return LaminarError(
        "LMR0601",
        f'{len(paths)} file(s) of source "{missing[0][0]}" are gone',
        detail="missing: " + ", ".join(paths[:3]) + (" …" if len(paths) > 3 else ""),
        hint="Put the files back and run again: the epoch that needs them is planned, and nothing else is taken before "
        f"it. If they are lost for good, `laminar run {view} --replan` plans the epoch anew without them.",
        committed=committed,
        next_command=f"laminar run {view}",
    )


def require_readable(commits: Sequence[SourceCommit], committed: str) -> None:
    """Names the compressed file that cannot be unpacked: Spark's own message for that names no file."""
    for commit in commits:
        for file in commit.files:
            if file.is_range or Path(file.path).suffix.lower() not in COMPRESSED:
                continue
            try:
                with open_text(file.path) as handle:
                    while handle.read(1 << 20):
                        pass
            except (OSError, EOFError) as problem:
                raise unreadable(commit.source, file.path, str(problem), committed) from problem


def unreadable(source: str, path: str, detail: str, committed: str | None = None) -> LaminarError:
    return LaminarError(
        "LMR0609",
        f'a file of source "{source}" cannot be read',
        detail=f"{path}: {detail}",
        hint="Replace the file with a whole one, or take it away (a name that begins with `_` or `.` is not read), "
        "and run again; with --replan if an epoch with this file is already planned.",
        committed=committed,
    )


def schema_sql(fields: Sequence[Field]) -> str:
    """The fields as Spark's DDL."""
    return ", ".join(f"`{field.name.replace('`', '``')}` {field.type}" for field in fields)
