"""Windows computed anew from the retained rows, by the view's own engine, in a store that goes away again.

One epoch over everything: nothing is late in it, and it ends at the view's own watermark. So what is closed there is
closed here, and the state that is left is the state of the windows that are open here. Limits and duplicates are not
judged again, since they depend on what was open then: whom they set aside is known, and is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.column_names import PASSES
from laminar_dagster.engine.epoch_kinds import CHECK, TICK
from laminar_dagster.engine.late_rows import COPIES
from laminar_dagster.engine.retained import retained, tables_of_views
from laminar_dagster.engine.runtime import TOLD, Runtime
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.expressions import Named
from laminar_dagster.semantics.query import Input, Query
from laminar_dagster.semantics.ranges import ALWAYS, EVER, rows_needed
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, DataFile, PlanRow, StoreWriter
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RunEpoch = Callable[[Runtime, PlanRow], CommitRow]
# Of a session that HAVING leaves out it must be known all the same which others it has swallowed.
NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Anew:
    """The view as it comes out of the retained rows: its runtime after the one epoch, and that epoch."""

    runtime: Runtime
    commit: CommitRow

    def files(self, name: str) -> list[str]:
        table = self.runtime.store.table(name)
        return table.absolute(table.files_at(self.commit.tables.get(name)))

    @property
    def state(self) -> list[DataFile]:
        return self.runtime.store.table(f.PARTIALS).files_at(self.commit.tables.get(f.PARTIALS))


def scratch_of(runtime: Runtime, planned: PlanRow) -> Path:
    root = runtime.store.root
    return root.parent / f".{root.name}-{'check' if planned.epoch_kind == CHECK else 'anew'}"


@contextmanager
def computed_anew(
    runtime: Runtime, planned: PlanRow, needed: Sequence[Window], excluded: Path | None, run_epoch: RunEpoch
) -> Iterator[Anew]:
    """The windows whose rows all lie in the needed stretches, and perhaps others that are not whole."""
    scratch = scratch_of(runtime, planned)
    connectors = tables_of_views(runtime, planned)
    commits = retained(runtime, connectors, needed)
    plan = replace(runtime.plan, query=without_judgement(runtime.plan))
    try:
        with StoreWriter(scratch / "store", lock=False) as store:
            store.tail()
            again = Runtime(plan, runtime.fingerprint, runtime.spark, store, connectors)
            again.selection = lambda frame: _selected(runtime, frame, needed, excluded)
            one = PlanRow(
                epoch=1,
                epoch_kind=TICK,
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


def without_judgement(plan: Plan) -> Query:
    """The view's query where nobody is evicted and nothing is a duplicate; the state that it leaves is laid out alike.

    Sessions that HAVING leaves out are there too, and say so.
    """
    query = replace(
        plan.query,
        inputs=tuple(_without_keys(entry) for entry in plan.query.inputs),
        max_groups_per_window=_beyond(plan.query.max_groups_per_window),
        max_windows_per_group=_beyond(plan.query.max_windows_per_group),
        max_state_rows=_beyond(plan.query.max_state_rows),
    )
    if not shows_hidden(query) or query.having is None:
        return query
    return replace(query, having=None, output=(*query.output, Named(PASSES, query.having)))


def _beyond(limit: int | None) -> int | None:
    return None if limit is None else NO_LIMIT


def shows_hidden(query: Query) -> bool:
    return isinstance(query.window, Session) and query.having is not None and query.tells_results_apart


def _without_keys(entry: Input) -> Input:
    return replace(entry, source=replace(entry.source, unique=None))


def rows_of(query: Query, ranges: Sequence[Window]) -> tuple[Window, ...]:
    """The stretches that hold all rows of the windows that overlap the ranges."""
    window = query.window
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
    by = ["_source", FILE, "_original"]
    apart = runtime.spark.read.parquet(str(excluded)).hint("broadcast")
    alike = rows.join(apart, by).selectExpr(
        "*", f"row_number() OVER (PARTITION BY {', '.join(by)} ORDER BY {TIME}) AS _copy"
    )
    stay = alike.filter(f"_copy > {COPIES}").select(*rows.columns)
    return rows.join(apart, by, "left_anti").select(*rows.columns).unionByName(stay)
