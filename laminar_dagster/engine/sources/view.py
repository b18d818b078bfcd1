"""Another view as a source: each of its epochs is one commit, with the rows that the epoch showed or took back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.epoch_kinds import CORRECTIONS
from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.footers import Footers
from laminar_dagster.engine.sources.parquet import parquet_frame
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT
from state_store import CommitRow, DataFile, StoreReader
from state_store import format as f
from state_store.changelog import EPOCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MILLISECOND = 1_000


class ViewConnector:
    """Position: the last epoch taken. A view that only appends is read from its output, any other from its changelog.

    The commit carries the view's watermark, which moves also with epochs that show nothing.
    """

    keeps_ledger = False

    def __init__(self, source: Source, _: Path, data: Path) -> None:
        self.source = source
        self.root = data / source.options["view"]

    @cached_property
    def _table(self) -> str:
        return f.CHANGELOG if self.source.takes_retractions else f.OUTPUT

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found: list[SourceCommit] = []
        for commit in self._after(position):
            taken = self._commit(commit)
            if taken.files and not limit.take(taken) and any(c.files for c in found):
                break
            found.append(taken)
        return found

    def _after(self, position: Any) -> list[CommitRow]:
        reader = StoreReader(self.root)
        if not reader.exists:
            return []
        last = reader.commit()
        if last is None or last.epoch <= (position or 0):
            return []
        return reader.log.commits(limit=last.epoch - (position or 0))[::-1]

    def _commit(self, commit: CommitRow) -> SourceCommit:
        correction = commit.epoch_kind in CORRECTIONS
        name = f.CHANGELOG if correction else self._table
        version = commit.tables.get(name)
        files: list[SourceFile] = []
        if commit.counts.get("rows_out", 0):
            table = StoreReader(self.root).table(name)
            written = [file for file in table.files_at(version) if _is_of(file, commit.epoch)]
            files = [SourceFile(str(table.root / file.path), file.size, file.rows) for file in written]
            if sum(file.rows or 0 for file in files) < commit.counts["rows_out"]:
                raise self._forgotten(commit.epoch)
        described = Footers(self.source, self.source.watermark_column).of(files) if files else ()
        order = commit.processing_time // MILLISECOND
        return SourceCommit(
            self.source.name,
            str(commit.epoch),
            order,
            described,
            watermark=commit.watermark,
            correction=correction and bool(described),
        )

    def _forgotten(self, epoch: int) -> LaminarError:
        return LaminarError(
            "LMR0611",
            f'view "{self.source.name}" no longer has the changes of its epoch {epoch}',
            detail=f"{self.root}: they were folded or vacuumed before this view took them",
            hint="Build this view anew in another data directory, and run it more often than history is kept.",
        )

    def backlog(self, position: Any) -> int:
        reader = StoreReader(self.root)
        last = reader.commit() if reader.exists else None
        return 0 if last is None else last.epoch - (position or 0)

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return max([int(commit.id) for commit in commits] + [position or 0])

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        weight = (Field(WEIGHT_COLUMN, BIGINT),) if self.source.takes_retractions else ()
        return parquet_frame(spark, (*self.fields(), *weight), [commit for commit in commits if commit.files])


def _is_of(file: DataFile, epoch: int) -> bool:
    """Whether an epoch wrote the file, of its own rows: the first correction of a view that only appended also writes
    down what came before."""
    return file.path.startswith(f"e{epoch:010d}-") and int(file.high.get(EPOCH, epoch)) == epoch
