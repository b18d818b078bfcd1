"""State of groups without a window: one pane that never closes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.closing import ClosesApart, Closing, closed_until
from laminar_dagster.engine.merging import matching
from laminar_dagster.engine.partials import merge_expressions, partial_expressions, prepared_columns, state_frame
from laminar_dagster.engine.revising import Change, Revised
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.semantics.emit import Early
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_WINDOW = ["CAST(NULL AS BIGINT) AS window_start", "CAST(NULL AS BIGINT) AS window_end"]


class Groups(ClosesApart):
    """GROUP BY without a window."""

    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        plan = runtime.plan
        prepared = kept.selectExpr("0L AS pane_end", "0L AS pane_start", *prepared_columns(plan))
        keys = ["pane_end", "pane_start", *plan.layout.key_columns]
        return runtime.aggregated(prepared, keys, partial_expressions(plan))

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], _: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        return Closing(None, 0, [], list(fresh), closed_until(runtime.plan.query, watermark))

    def revise(self, runtime: Runtime, change: Change) -> Revised:
        plan, moment = runtime.plan, change.moment
        waiting = bool(change.fresh) or bool(runtime.carried.waiting)
        if not waiting:
            return Revised(None)
        if not moment.period_passed:
            return Revised(None, waiting=frozenset({None}))
        state = state_frame(runtime, change.files)
        if plan.query.emit.early is Early.EACH_EPOCH:
            state = matching(runtime, state, state_frame(runtime, change.fresh), plan.layout.key_columns)
        merged = runtime.aggregated(state, list(plan.layout.key_columns), merge_expressions(plan))
        return Revised(merged.selectExpr("*", *NO_WINDOW), rows=sum(file.rows for file in change.files))

    def still_open(self, _: Runtime, __: int | None) -> str:
        return "true"
