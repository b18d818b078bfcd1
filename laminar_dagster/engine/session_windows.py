"""State of sessions: fragments that are appended, and merged when they touch.

A fragment is `[first row, last row + gap)` of one key: `pane_start` and `pane_end`. It is its own timer: files are
bucketed by `pane_end`, so those that may be due are found by their bounds, and a timer whose fragment was bridged by a
later one is stale. A close takes the files that hold a due fragment out of the state, and puts back what stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.closing import Closing, closed_until
from laminar_dagster.engine.differences import Scope
from laminar_dagster.engine.merging import matching
from laminar_dagster.engine.partials import (
    BUCKET,
    bucket_sql,
    merge_expressions,
    partial_expressions,
    prepared_columns,
    state_frame,
)
from laminar_dagster.engine.revising import Change, Revised, moves_sql
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.plan.plan import partial_column
from laminar_dagster.semantics.emit import Early
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
        prepared = kept.selectExpr(*prepared_columns(plan), f"timestamp_micros({TIME}) AS _at", f"{TIME} AS _moment")
        gap = session_of(plan.query).gap
        if plan.query.live is not None:
            bounds = ["_moment AS pane_start", f"_moment + {gap}L AS pane_end"]
            made = runtime.aggregated(prepared, ["_moment", *plan.layout.key_columns], partial_expressions(plan))
        else:
            bounds = ["unix_micros(_fragment.start) AS pane_start", "unix_micros(_fragment.end) AS pane_end"]
            made = self._fragments(runtime, prepared, gap)
        columns = [*plan.layout.key_columns, *plan.layout.partial_columns]
        return made.selectExpr(*bounds, f"{key_hash_sql(plan.session_keys)} AS {KEY_HASH}", *columns)

    def _fragments(self, runtime: Runtime, prepared: DataFrame, gap: int) -> DataFrame:
        plan = runtime.plan
        expr = functions_of(runtime.spark).expr
        fragment = expr(f"session_window(_at, '{gap} microseconds')").alias("_fragment")
        return prepared.groupBy(fragment, *plan.layout.key_columns).agg(
            expr("count(*)").alias("_rows"),
            *(expr(f"{sql} AS {name}") for name, sql in partial_expressions(plan).items()),
        )

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

    def revise(self, runtime: Runtime, change: Change) -> Revised:
        query, moment = runtime.plan.query, change.moment
        waiting = bool(change.fresh) or bool(runtime.carried.waiting)
        left = frozenset({None}) if query.emit.early is Early.EACH_PERIOD and waiting else frozenset()
        state = self._suspects(runtime, change, waiting=waiting)
        if state is None or (query.emit.early is Early.NOTHING and moment.after is None):
            return Revised(None, waiting=left)
        keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
        return Revised(
            merged=runtime.aggregated(self._in_sessions(runtime, state), keys, merge_expressions(runtime.plan)),
            rows=sum(file.rows for file in change.files),
            scope=Scope(
                by_key=True,
                open_after=closed_until(query, moment.before),
                moves=moves_sql(query, moment),
            ),
            shown_until=moment.after if query.emit.early is Early.NOTHING else None,
            waiting=frozenset() if moment.period_passed else left,
        )

    def _suspects(self, runtime: Runtime, change: Change, *, waiting: bool) -> DataFrame | None:
        """All fragments of the keys whose sessions may have changed, or may be shown now; None if there are none."""
        query, moment = runtime.plan.query, change.moment
        if query.emit.early is Early.EACH_PERIOD and moment.period_passed:
            return state_frame(runtime, change.files) if waiting and change.files else None
        wanted = []
        if change.fresh and query.emit.early is not Early.EACH_PERIOD:
            wanted.append(state_frame(runtime, change.fresh))
        if query.emit.early is not Early.EACH_EPOCH:
            wanted += self._passing(runtime, change)
        if not wanted:
            return None
        keys = reduce(
            lambda a, b: a.unionByName(b), [frame.select(KEY_HASH, *runtime.plan.session_keys) for frame in wanted]
        )
        return matching(runtime, state_frame(runtime, change.files), keys, [KEY_HASH, *runtime.plan.session_keys])

    def _passing(self, runtime: Runtime, change: Change) -> list[DataFrame]:
        """Fragments whose end, or the time until which they wait for late rows, the watermark passes just now."""
        query, moment = runtime.plan.query, change.moment
        due = [file for file in change.files if moment.after is not None and int(file.low["pane_end"]) <= moment.after]
        if not due:
            return []
        reaches = [0, query.lateness] if query.emit.at_close else [0]
        since = "true" if moment.before is None else f"pane_end + {{late}}L > {moment.before}L"
        tests = [f"(pane_end + {late}L <= {moment.after}L AND {since.format(late=late)})" for late in reaches]
        return [state_frame(runtime, due).filter(" OR ".join(tests))]

    def _placed(self, runtime: Runtime, due: Sequence[DataFile], rest: Sequence[DataFile]) -> DataFrame:
        """Every fragment that may be due, and those of the same keys that may touch it, with their session."""
        taken = state_frame(runtime, due).selectExpr("*", "true AS _taken")
        if rest:
            hashes = taken.select(KEY_HASH).distinct()
            others = state_frame(runtime, rest).join(hashes.hint("broadcast"), KEY_HASH, "left_semi")
            taken = taken.unionByName(others.selectExpr("*", "false AS _taken"))
        return self._in_sessions(runtime, taken)

    def _in_sessions(self, runtime: Runtime, fragments: DataFrame) -> DataFrame:
        """Each fragment with the bounds of the session that it forms with those it touches.

        A moment whose rows were all taken back holds no session together, and stands by itself.
        """
        by_key = ", ".join([KEY_HASH, *runtime.plan.session_keys])
        live = runtime.plan.query.live
        if live is not None:
            left = f"sum({partial_column(live, 'n')}) OVER (PARTITION BY {by_key}, pane_start) > 0L"
            fragments = fragments.selectExpr("*", f"CASE WHEN {left} THEN NULL ELSE pane_start END AS _dead")
            by_key = f"{by_key}, _dead"
        earlier = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        upto = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        apart = fragments.selectExpr("*", f"coalesce(pane_start > max(pane_end) OVER {earlier}, true) AS _begins")
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
        """The fragments taken out that belong to sessions still open: one each, reaching to the session's end.

        Where rows may be taken back, moments stay apart, as a session may come apart at any of them.
        """
        plan = runtime.plan
        keys, partials = [KEY_HASH, *plan.layout.key_columns], plan.layout.partial_columns
        open_ones = placed.filter(f"_taken AND window_end > {until}L")
        if plan.query.live is None:
            results = {"pane_start": "min(pane_start)", **merge_expressions(plan)}
            merged = runtime.aggregated(open_ones, ["window_end", *keys], results).withColumnRenamed(
                "window_end", "pane_end"
            )
        else:
            merged = runtime.aggregated(open_ones, ["pane_start", "pane_end", *keys], merge_expressions(plan))
        frame = merged.selectExpr("pane_start", "pane_end", *keys, *partials)
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
