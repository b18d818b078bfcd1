"""Another view as a source: each of its epochs is one commit, with the rows that the epoch showed or took back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import DeltaError

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
# Below a table: the folder of what an epoch wrote.
EPOCH_FOLDER = re.compile(r"e(\d{10})-")


class ViewConnector:
    """Position: the last epoch taken. A view that only appends is read from its output, any other from its changelog.

    The commit carries the view's watermark, which moves also with epochs that show nothing. Where upkeep has merged
    what the first epochs wrote, the table as it stands is the first commit, and the epochs after it are the others.
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
        epochs = self._after(position)
        if position is None and not self._are_kept(epochs):
            return [self.as_of(epochs[-1])]
        found: list[SourceCommit] = []
        order = 0
        for epoch in epochs:
            commit = self._commit(epoch)
            # The view's clock may have been set back; epochs never change places.
            order = max(order, commit.order)
            if commit.files and not limit.take(commit) and any(c.files for c in found):
                break
            found.append(replace(commit, order=order))
        return found

    def _after(self, position: Any) -> list[CommitRow]:
        reader = StoreReader(self.root)
        if not reader.exists:
            return []
        last = reader.commit()
        if last is None or last.epoch <= (position or 0):
            return []
        return reader.log.commits(limit=last.epoch - (position or 0))[::-1]

    def _are_kept(self, epochs: Sequence[CommitRow]) -> bool:
        """Whether the files of each epoch are still there as the epoch wrote them, and the table that it corrected."""
        reader = StoreReader(self.root)
        oldest = reader.oldest(f.OUTPUT)
        if any(e.epoch_kind in CORRECTIONS and e.epoch < oldest for e in epochs):
            return False
        current: Counter[tuple[str, int | None]] = Counter()
        for name in {self._table, f.CHANGELOG}:
            for file in reader.table(name).files():
                current[name, _epoch_of(file)] += file.rows
        replaced = [e for e in epochs if current[self._table_of(e), e.epoch] < e.counts.get("rows_out", 0)]
        return all(self._written(reader, epoch) is not None for epoch in replaced)

    def _written(self, reader: StoreReader, epoch: CommitRow) -> list[SourceFile] | None:
        """The files that an epoch wrote, by the version that it left; None if some are gone."""
        table = reader.table(self._table_of(epoch))
        try:
            files = [
                file
                for file in table.files_at(epoch.tables.get(self._table_of(epoch)))
                if _epoch_of(file) == epoch.epoch
            ]
        except DeltaError:
            return None
        found = [SourceFile(str(table.root / file.path), file.size, file.rows) for file in files]
        there = sum(file.rows or 0 for file in found if Path(file.path).exists())
        return found if there >= epoch.counts.get("rows_out", 0) else None

    def as_of(self, epoch: CommitRow) -> SourceCommit:
        """The view's table as it stood after an epoch, as one commit."""
        reader = StoreReader(self.root)
        table = reader.table(f.OUTPUT)
        shown = [
            SourceFile(str(table.root / file.path), file.size, file.rows) for file in reader.files(f.OUTPUT, epoch)
        ]
        files = Footers(self.source, self.source.watermark_column).of(shown)
        return SourceCommit(self.source.name, str(epoch.epoch), 0, files, snapshot=True, watermark=epoch.watermark)

    def _table_of(self, epoch: CommitRow) -> str:
        return f.CHANGELOG if epoch.epoch_kind in CORRECTIONS else self._table

    def _commit(self, commit: CommitRow) -> SourceCommit:
        correction = commit.epoch_kind in CORRECTIONS
        files: Sequence[SourceFile] = ()
        if commit.counts.get("rows_out", 0):
            written = self._written(StoreReader(self.root), commit)
            if written is None:
                raise self._forgotten(commit.epoch)
            files = written
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
        """The table's rows have no weight: each is there once."""
        snapshots = [commit for commit in commits if commit.snapshot and commit.files]
        epochs = [commit for commit in commits if not commit.snapshot and commit.files]
        weighted = self.source.takes_retractions
        frames = []
        if snapshots:
            rows = parquet_frame(spark, self.fields(), snapshots)
            frames.append(rows.selectExpr("*", f"1L AS {WEIGHT_COLUMN}") if weighted else rows)
        if epochs or not frames:
            weight = (Field(WEIGHT_COLUMN, BIGINT),) if weighted else ()
            frames.append(parquet_frame(spark, self.fields(), epochs, own=weight))
        return reduce(lambda one, other: one.unionByName(other), frames)


def _epoch_of(file: DataFile) -> int | None:
    """The epoch that wrote the file, of its own rows; None where it is a merge, or has rows of others.

    The first correction of a view that only appended also writes down what came before.
    """
    written = EPOCH_FOLDER.match(file.path)
    epoch = None if written is None else int(written[1])
    return epoch if epoch == int(file.high.get(EPOCH, epoch or 0)) else None
