"""Corrects a view: backfills a stretch of event time, or folds late rows back; or shows what that would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar_dagster.engine.correction import Correction
from laminar_dagster.engine.epoch_kinds import BACKFILL, FOLD
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.ranges import joined
from laminar_dagster.semantics.windows import Window
from state_store import CommitRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Preview:
    """What a correction would do: changelog rows in order, and the counts and partitions that its epoch would have."""

    changes: pa.Table
    counts: dict[str, int]
    partitions: dict[str, dict[str, int]]


def backfill(
    plan: Plan, spark: SparkSession, *, project: Path, data: Path, ranges: Ranges, options: RunOptions | None = None
) -> CommitRow | None:
    """Compute every window that overlaps the ranges (microseconds, half-open) anew; None if the view never ran."""
    return _corrected(plan, spark, project, data, options, backfill_of(ranges))


def fold_late(
    plan: Plan,
    spark: SparkSession,
    *,
    project: Path,
    data: Path,
    where: str | None = None,
    options: RunOptions | None = None,
) -> CommitRow | None:
    """Put late rows into their windows, closed ones too; None if there are none that fit and are not folded yet."""
    return _corrected(plan, spark, project, data, options, fold_of(where))


def backfill_of(ranges: Ranges) -> Correction:
    return Correction(BACKFILL, joined(Window(*bounds) for bounds in ranges))


def fold_of(where: str | None) -> Correction:
    return Correction(FOLD, where=where)


def previewed(view: ViewRun, correction: Correction) -> Preview | None:
    """What a correction would change; None where there is nothing that could be corrected."""
    with view.preview(correction) as result:
        if result is None:
            return None
        return Preview(
            changes=result.corrected.found.changes,
            counts=result.counts,
            partitions=result.by_partition(view.runtime.plan.query),
        )


def _corrected(
    plan: Plan, spark: SparkSession, project: Path, data: Path, options: RunOptions | None, correction: Correction
) -> CommitRow | None:
    with open_view(plan, spark, project=project, data=data, options=options) as view:
        return view.correct(correction)
