"""A source's log as the engine sees it: commits of files, in an order that is recorded and never changes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.parquet as pq

from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.time import from_datetime
from state_store.parquet import footer_bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_TEXT_ROW = 100


@dataclass(frozen=True)
class SourceFile:
    """A file of a commit. `low`, `high` and `nulls` are of the event time, where the file's footer tells them."""

    path: str
    size: int
    rows: int | None = None
    low: int | None = None
    high: int | None = None
    nulls: int | None = None
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def knows_its_times(self) -> bool:
        return self.nulls is not None

    @property
    def estimated_rows(self) -> int:
        return self.size // BYTES_PER_TEXT_ROW + 1 if self.rows is None else self.rows


@dataclass(frozen=True)
class SourceCommit:
    """One commit: a Delta version, a file, a test's commit. `order` sorts commits of different sources."""

    source: str
    id: str
    order: int
    files: tuple[SourceFile, ...]
    snapshot: bool = False

    @property
    def estimated_rows(self) -> int:
        return sum(file.estimated_rows for file in self.files)

    def to_json(self) -> dict[str, Any]:
        files = [[f.path, f.size, f.rows, f.low, f.high, f.nulls, list(f.partition)] for f in self.files]
        return {"source": self.source, "id": self.id, "order": self.order, "files": files, "snapshot": self.snapshot}

    @staticmethod
    def from_json(entry: dict[str, Any]) -> SourceCommit:
        files = tuple(_source_file(*values) for values in entry["files"])
        return SourceCommit(entry["source"], entry["id"], entry["order"], files, entry["snapshot"])


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
        """The commits after `position`, oldest first, as many as `limit` allows but at least one."""
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
        """The commits' rows: the declared columns, `_file`, and for text `_raw` and `_malformed`."""
        ...


@dataclass
class Limit:
    """How much one epoch may take. `take` says whether one more commit fits."""

    rows: int
    files: int

    def take(self, commit: SourceCommit) -> bool:
        fits = self.rows > 0 and self.files > 0
        self.rows -= commit.estimated_rows
        self.files -= len(commit.files)
        return fits


def with_footers(files: Sequence[SourceFile], event_time: str | None) -> tuple[SourceFile, ...]:
    """The same Parquet files with row counts and the event time's exact bounds."""
    if len(files) < 4:
        return tuple(_with_footer(file, event_time) for file in files)
    with ThreadPoolExecutor(max_workers=4) as pool:
        return tuple(pool.map(lambda file: _with_footer(file, event_time), files))


def _with_footer(file: SourceFile, event_time: str | None) -> SourceFile:
    try:
        footer = pq.read_metadata(file.path)
    except FileNotFoundError:
        return file
    low, high, nulls = footer_bounds(footer)
    known = event_time in nulls and (event_time in low or nulls[event_time] == footer.num_rows)
    return SourceFile(
        file.path,
        file.size,
        footer.num_rows,
        _micros(low.get(event_time or "")),
        _micros(high.get(event_time or "")),
        nulls[event_time] if known and event_time is not None else None,
        file.partition,
    )


def _micros(moment: Any) -> int | None:
    if not isinstance(moment, datetime):
        return None
    return from_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def require_files(commits: Sequence[SourceCommit], source: str, committed: str) -> None:
    """A planned file that is gone stops the run before anything is written."""
    missing = [file.path for commit in commits for file in commit.files if not Path(file.path).exists()]
    if missing:
        raise LaminarError(
            "LMR0601",
            f'{len(missing)} file(s) of source "{source}" are gone',
            detail="missing: " + ", ".join(missing[:3]) + (" …" if len(missing) > 3 else ""),
            hint="Put the files back and run again. If they are lost for good, `laminar run VIEW --replan` plans the "
            "epoch anew without them.",
            committed=committed,
            next_command="laminar run VIEW",
        )


def schema_sql(fields: Sequence[Field]) -> str:
    """The fields as Spark's DDL."""
    return ", ".join(f"`{field.name.replace('`', '``')}` {field.type}" for field in fields)


def file_url(path: str) -> str:
    """A local path as Spark's `_metadata.file_path` spells it: percent-encoded, with one slash."""
    return "file:" + Path(path).as_uri().removeprefix("file://")
