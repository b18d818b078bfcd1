"""The rows that a view has taken and its sources still have: what a correction computes windows anew from.

The epoch log names every commit that was ever taken. Of a view that is read, its table counts, not its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.batch import reads_the_watermark_column
from laminar_dagster.engine.landing import pinned_commits
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.commits import Connector, Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.delta_changes import DeltaChangesConnector
from laminar_dagster.engine.sources.kafka import KafkaConnector
from laminar_dagster.engine.sources.reading_again import require_as_taken
from laminar_dagster.engine.sources.view import ViewConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.ranges import EVER, overlap
from laminar_dagster.semantics.windows import Window
from state_store import PlanRow, StoreError, StoreReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED = 5


class ViewTable:
    """A view's table as it stood after an epoch, as a source with one commit."""

    keeps_ledger = False

    def __init__(self, view: ViewConnector, epoch: int) -> None:
        self.view = view
        self.source = view.source
        self.epoch = epoch

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def pending(self, position: Any, _: Limit) -> list[SourceCommit]:
        return [] if position else self._commits()

    def _commits(self) -> list[SourceCommit]:
        reader = StoreReader(self.view.root)
        epoch = reader.log.commit_of(self.epoch) if reader.exists else None
        if epoch is None:
            return []
        try:
            commit = self.view.as_of(epoch)
        except StoreError as problem:
            raise self._forgotten(problem) from problem
        return [commit] if commit.files else []

    def _forgotten(self, problem: StoreError) -> LaminarError:
        return LaminarError(
            "LMR0723",
            f'view "{self.source.name}" no longer has its table as of epoch {self.epoch}',
            detail=problem.render(),
            hint="Run this view, so that it has taken what the other one shows now, and try again.",
            committed="Nothing was changed.",
        )

    def backlog(self, position: Any) -> int:
        return 0 if position else 1

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return self.epoch if commits else position

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        return self.view.frame(spark, commits)


def tables_of_views(runtime: Runtime, planned: PlanRow) -> dict[str, Connector]:
    """The connectors of a correction: views are read by their tables, as of the epoch that this view has taken."""
    positions = planned.sources["positions"]
    return {
        name: ViewTable(connector, positions.get(name) or 0) if isinstance(connector, ViewConnector) else connector
        for name, connector in runtime.connectors.items()
    }


def retained(runtime: Runtime, connectors: dict[str, Connector], needed: Sequence[Window]) -> list[SourceCommit]:
    """Every commit that was taken, without what lies apart from the needed stretches; all of it must be there."""
    found: list[SourceCommit] = []
    for planned, commit in runtime.store.log.history():
        commits = pinned_commits(planned)
        bounds = commit.taken or [None] * len(commits)
        pairs = [
            (c, b) for c, b in zip(commits, bounds, strict=True) if not isinstance(connectors[c.source], ViewTable)
        ]
        found += [kept for c, b in pairs if (kept := _needed(runtime, c, b, needed)) is not None]
    for connector in connectors.values():
        if isinstance(connector, ViewTable):
            found += connector.pending(None, Limit(1, 1))
    _require(runtime, found)
    return found


def _needed(
    runtime: Runtime, commit: SourceCommit, bounds: Sequence[int | None] | None, needed: Sequence[Window]
) -> SourceCommit | None:
    """The commit with those of its files that may have rows in the needed stretches."""
    if bounds is not None and _lies_apart(bounds, needed):
        return None
    entry = next(entry for entry in runtime.plan.query.inputs if entry.source.name == commit.source)
    if not reads_the_watermark_column(entry) or commit.snapshot:
        return commit if commit.files else None
    files = tuple(file for file in commit.files if not _file_lies_apart(file, needed))
    return replace(commit, files=files) if files else None


def _lies_apart(bounds: Sequence[int | None], needed: Sequence[Window]) -> bool:
    """By what the epoch measured; a row that was future-dated then is in no bounds."""
    _, low, high, future = bounds
    if future:
        return False
    return low is None or high is None or not _meet(low, high, needed)


def _file_lies_apart(file: SourceFile, needed: Sequence[Window]) -> bool:
    if not file.knows_its_times:
        return False
    return file.low is None or file.high is None or not _meet(file.low, file.high, needed)


def _meet(low: int, high: int, needed: Sequence[Window]) -> bool:
    return EVER in needed or overlap(Window(low, high + 1), needed)


def _require(runtime: Runtime, commits: Sequence[SourceCommit]) -> None:
    """Everything that is to be read must be there: nobody notices rows that are missing from a sum."""
    require_as_taken(runtime.connectors, commits, runtime.positions)
    gone = [f"{file.path} (commit {commit.id})" for commit in commits for file in commit.files if not _is_there(file)]
    for name, connector in runtime.connectors.items():
        mine = [commit for commit in commits if commit.source == name]
        if isinstance(connector, KafkaConnector):
            lost = connector.expired(mine).items()
            gone += [f"{connector.topic}, partition {n}: offsets {r.first} to {r.end - 1}" for n, r in sorted(lost)]
        if isinstance(connector, DeltaChangesConnector):
            gone += map(str, connector.unreadable(mine))
    if gone:
        raise _not_retained(runtime, gone)


def _is_there(file: SourceFile) -> bool:
    return file.is_range or (Path(file.path).exists() and Path(file.path).stat().st_size == file.size)


def _not_retained(runtime: Runtime, gone: Sequence[str]) -> LaminarError:
    more = f"\n  and {len(gone) - LISTED} more" if len(gone) > LISTED else ""
    return LaminarError(
        "LMR0723",
        f'the rows that windows of view "{runtime.plan.query.view}" were made of are not all there any more',
        detail="missing, or changed since they were taken:" + "".join(f"\n  {one}" for one in gone[:LISTED]) + more,
        hint="Put back what is missing, or choose a stretch of time whose rows are all there.",
        committed="Nothing was changed.",
    )
