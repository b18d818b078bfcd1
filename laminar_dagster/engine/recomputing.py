"""Windows computed anew from the retained rows, by the view's own engine, in a store that goes away again.

One epoch over everything: nothing is late in it, and it ends at the view's own watermark. So what is closed there is
closed here, and the state that is left is the state of the windows that are open here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.late_rows import COPIES
from laminar_dagster.engine.retained import retained, tables_of_views
from laminar_dagster.engine.runtime import TOLD, Runtime
from laminar_dagster.semantics.ranges import ALWAYS, EVER, rows_needed
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, PlanRow, StoreWriter
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RunEpoch = Callable[[Runtime, PlanRow], CommitRow]


@dataclass(frozen=True)
class Anew:
    """The view as it comes out of the retained rows: its runtime after the one epoch, and that epoch."""

    runtime: Runtime
    commit: CommitRow

    def files(self, name: str) -> list[str]:
        table = self.runtime.store.table(name)
        return table.absolute(table.files_at(self.commit.tables.get(name)))


def scratch_of(runtime: Runtime) -> Path:
    root = runtime.store.root
    return root.parent / f".{root.name}-anew"


@contextmanager
def computed_anew(
    runtime: Runtime, planned: PlanRow, ranges: Sequence[Window], excluded: Path | None, run_epoch: RunEpoch
) -> Iterator[Anew]:
    """The windows that overlap the ranges, and perhaps others that are not whole."""
    scratch = scratch_of(runtime)
    needed = _needed(runtime, ranges)
    connectors = tables_of_views(runtime, planned)
    commits = retained(runtime, connectors, needed)
    try:
        with StoreWriter(scratch / "store", lock=False) as store:
            store.tail()
            again = Runtime(runtime.plan, runtime.fingerprint, runtime.spark, store, connectors)
            again.selection = lambda frame: _selected(runtime, frame, needed, excluded)
            one = PlanRow(
                epoch=1,
                epoch_kind="tick",
                run_id=store.run_id,
                processing_time=planned.processing_time,
                fingerprint=runtime.fingerprint,
                watermark=None,
                sources={"commits": [c.to_json() for c in commits], "positions": {}, TOLD: runtime.clocks.watermark},
                tables=store.versions(f.TABLES),
                shards={},
            )
            store.begin(one)
            yield Anew(again, run_epoch(again, one))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _needed(runtime: Runtime, ranges: Sequence[Window]) -> tuple[Window, ...]:
    window = runtime.plan.query.window
    if window is None or isinstance(window, Session) or any(r == EVER for r in ranges):
        return (EVER,)
    return rows_needed(window, ranges)


def _selected(runtime: Runtime, frame: DataFrame, needed: Sequence[Window], excluded: Path | None) -> DataFrame:
    """Sound rows in the needed stretches, without those that stay aside."""
    low, high = min(r.start for r in needed), max(r.end for r in needed)
    bounds = "" if low <= -ALWAYS and high >= ALWAYS else f" AND {TIME} >= {low}L AND {TIME} < {high}L"
    rows = frame.filter(f"NOT _bad AND {TIME} IS NOT NULL{bounds}")
    if excluded is None:
        return rows
    by = ["_source", "_original"]
    apart = runtime.spark.read.parquet(str(excluded)).hint("broadcast")
    alike = rows.join(apart, by).selectExpr(
        "*", f"row_number() OVER (PARTITION BY {', '.join(by)} ORDER BY {TIME}) AS _copy"
    )
    stay = alike.filter(f"_copy > {COPIES}").select(*rows.columns)
    return rows.join(apart, by, "left_anti").select(*rows.columns).unionByName(stay)
