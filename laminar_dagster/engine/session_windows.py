"""State of sessions: fragments that are appended, and merged when they touch.

A fragment is `[first row, last row + gap)` of one key: `pane_start` and `pane_end`. It is its own timer: files are
bucketed by `pane_end`, so those that may be due are found by their bounds, and a timer whose fragment was bridged by a
later one is stale. A close takes the files that hold a due fragment out of the state, and puts back what stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.closing import Closing, closed_until
from laminar_dagster.engine.partials import (
    BUCKET,
    bucket_sql,
    merge_expressions,
    partial_expressions,
    prepared_columns,
    state_frame,
)
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Session
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY_HASH = "key_hash"


def session_of(query: Query) -> Session:
    assert isinstance(query.window, Session)
    return query.window


class SessionWindows:
    """Sessions, keyed or not."""

    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        """One row per fragment: what the epoch's rows of one key form by themselves."""
        plan = runtime.plan
        gap = session_of(plan.query).gap
        prepared = kept.selectExpr(*prepared_columns(plan), f"timestamp_micros({TIME}) AS _at")
        expr = functions_of(runtime.spark).expr
        fragment = expr(f"session_window(_at, '{gap} microseconds')").alias("_fragment")
        made = prepared.groupBy(fragment, *plan.layout.key_columns).agg(
            expr("count(*)").alias("_rows"),
            *(expr(f"{sql} AS {name}") for name, sql in partial_expressions(plan).items()),
        )
        bounds = ["unix_micros(_fragment.start) AS pane_start", "unix_micros(_fragment.end) AS pane_end"]
        columns = [*plan.layout.key_columns, *plan.layout.partial_columns]
        return made.selectExpr(*bounds, f"{key_hash_sql(plan.layout.key_columns)} AS {KEY_HASH}", *columns)

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        until = closed_until(runtime.plan.query, watermark)
        due = [file for file in [*pinned, *fresh] if until is not None and int(file.low["pane_end"]) <= until]
        if not due or until is None:
            return Closing(None, 0, [], list(fresh), until, counts=_open_fragments(pinned, fresh))
        rest = [file for file in [*pinned, *fresh] if file not in due]
        rows = sum(file.rows for file in due)
        runtime.fit_to(rows + sum(file.rows for file in rest))
        placed = self._placed(runtime, due, rest)
        survivors = self._survivors(runtime, placed, until, rows)
        live = [*(file for file in fresh if file in rest), *survivors]
        return Closing(
            merged=self._merged(runtime, placed, until),
            rows=rows,
            gone=[file for file in pinned if file in due],
            live=live,
            until=until,
            counts={
                **_open_fragments([file for file in pinned if file in rest], live),
                "due_timers": _due_timers(runtime, due, until),
            },
        )

    def still_open(self, _: Runtime, __: int | None) -> str:
        """A close takes its fragments out of the state, so whatever is there is open."""
        return "true"

    def _placed(self, runtime: Runtime, due: Sequence[DataFile], rest: Sequence[DataFile]) -> DataFrame:
        """Every fragment that may be due, and those of the same keys that may touch it, with their session."""
        keys = list(runtime.plan.layout.key_columns)
        taken = state_frame(runtime, due).selectExpr("*", "true AS _taken")
        if rest:
            hashes = taken.select(KEY_HASH).distinct()
            others = state_frame(runtime, rest).join(hashes.hint("broadcast"), KEY_HASH, "left_semi")
            taken = taken.unionByName(others.selectExpr("*", "false AS _taken"))
        by_key = ", ".join([KEY_HASH, *keys])
        earlier = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        upto = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        apart = taken.selectExpr("*", f"coalesce(pane_start > max(pane_end) OVER {earlier}, true) AS _begins")
        numbered = apart.selectExpr("*", f"count_if(_begins) OVER {upto} AS _session")
        whole = f"(PARTITION BY {by_key}, _session)"
        return numbered.selectExpr(
            "*",
            f"min(pane_start) OVER {whole} AS window_start",
            f"max(pane_end) OVER {whole} AS window_end",
        )

    def _merged(self, runtime: Runtime, placed: DataFrame, until: int) -> DataFrame:
        keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
        return runtime.aggregated(placed.filter(f"window_end <= {until}L"), keys, merge_expressions(runtime.plan))

    def _survivors(self, runtime: Runtime, placed: DataFrame, until: int, rows: int) -> list[DataFile]:
        """The fragments taken out that belong to sessions still open: one each, reaching to the session's end."""
        plan = runtime.plan
        open_ones = placed.filter(f"_taken AND window_end > {until}L")
        keys = [KEY_HASH, *plan.layout.key_columns, "window_end"]
        expr = functions_of(runtime.spark).expr
        merged = open_ones.groupBy(*keys).agg(
            expr("min(pane_start)").alias("pane_start"),
            *(expr(f"{sql} AS {name}") for name, sql in merge_expressions(plan).items()),
        )
        columns = [KEY_HASH, *plan.layout.key_columns, *plan.layout.partial_columns]
        frame = merged.selectExpr("pane_start", "window_end AS pane_end", *columns)
        bucketed = frame.selectExpr("*", f"{bucket_sql(plan)} AS {BUCKET}")
        return write_frame(runtime, f.PARTIALS, bucketed, rows=rows, partition_by=BUCKET)


def key_hash_sql(keys: Sequence[str]) -> str:
    return f"xxhash64({', '.join(keys)})" if keys else "0L"


def _open_fragments(kept: Sequence[DataFile], added: Sequence[DataFile]) -> dict[str, int]:
    return {"open_fragments": sum(file.rows for file in [*kept, *added])}


def _due_timers(runtime: Runtime, files: Sequence[DataFile], until: int) -> int:
    """How many fragments have come to their end; those that a later one bridged are stale."""
    root = runtime.store.table(f.PARTIALS).root
    ends = [pq.ParquetFile(root / file.path).read(columns=["pane_end"]).column("pane_end") for file in files]
    return sum(int(pc.sum(pc.less_equal(column, until)).as_py() or 0) for column in ends)
