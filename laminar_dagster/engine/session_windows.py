"""State of sessions: fragments that are appended, and merged when they touch.

A fragment is `[first row, last row + gap)` of one key: `pane_start` and `pane_end`. It is its own timer: files are
bucketed by `pane_end`, so those that may be due are found by their bounds, and a timer whose fragment was bridged by a
later one is stale. A close takes the files that hold a due fragment out of the state, and puts back what stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.batch import TIME, Batch
from laminar_dagster.engine.closing import Closing, closed_until, finish, partition_sql
from laminar_dagster.engine.column_names import REASON, STATE
from laminar_dagster.engine.counting import Counting
from laminar_dagster.engine.differences import Scope
from laminar_dagster.engine.in_process_sql import connection
from laminar_dagster.engine.merging import matching
from laminar_dagster.engine.partials import (
    BUCKET,
    bucket_sql,
    in_few_tasks,
    merge_expressions,
    partial_expressions,
    prepared_columns,
    state_frame,
)
from laminar_dagster.engine.revising import Change, Revised, moves_sql
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.shown import reason_sql, shown_sql
from laminar_dagster.engine.writing import BROUGHT_ROWS, nullable, write_frame, write_table
from laminar_dagster.plan.plan import UPDATED_AT, partial_column
from laminar_dagster.semantics.emit import Early
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.windows import Session
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY_HASH = "key_hash"


@dataclass(frozen=True)
class Over:
    """What becomes of the fragments that a close takes out: sessions to emit (or their results, where these came with
    them), about how many groups, how many sessions, and what is put back."""

    merged: DataFrame | None
    rows: int
    ended: int
    survivors: list[DataFile]
    results: pa.Table | None = None

    def closing(self, due: list[DataFile], rest: Sequence[DataFile], until: int, timers: int) -> Closing:
        return Closing(
            merged=self.merged,
            rows=self.rows,
            ended=self.ended,
            gone=due,
            live=self.survivors,
            until=until,
            results=self.results,
            counts={**_open_fragments(rest, self.survivors), "due_timers": timers},
        )


def session_of(query: Query) -> Session:
    assert isinstance(query.window, Session)
    return query.window


class SessionWindows:
    """Sessions, keyed or not."""

    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        """One row per fragment: rows of one key that lie in the same stretch as long as the gap are one session.

        Where rows may be taken back, each moment is a fragment of its own.
        """
        plan = runtime.plan
        gap = session_of(plan.query).gap
        cell = TIME if plan.query.live is not None else f"{TIME} - pmod({TIME}, {gap}L)"
        prepared = kept.selectExpr(*prepared_columns(plan), f"{TIME} AS _moment", f"{cell} AS _cell")
        bounds = {"_first": "min(_moment)", "_last": "max(_moment)"}
        keys = ["_cell", *plan.layout.key_columns]
        made = runtime.aggregated(prepared, keys, {**bounds, **partial_expressions(plan)})
        columns = [*plan.layout.key_columns, *partial_expressions(plan)]
        return made.selectExpr(
            "_first AS pane_start",
            f"_last + {gap}L AS pane_end",
            f"{key_hash_sql(plan.session_keys)} AS {KEY_HASH}",
            *columns,
        )

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        until = closed_until(runtime.plan.query, watermark)
        if until is None or not any(int(file.low["pane_end"]) <= until for file in [*pinned, *fresh]):
            return Closing(None, 0, [], list(fresh), until, counts=_open_fragments(pinned, fresh))
        due, rest = _due(pinned, until)
        taken = [*due, *fresh]
        rows = sum(file.rows for file in taken)
        runtime.fit_to(rows + sum(file.rows for file in rest))
        over = self._over(runtime, state_frame(runtime, taken), rest, until, rows)
        return over.closing(due, rest, until, _due_timers(runtime, taken, until))

    def fold_and_close(
        self, runtime: Runtime, batch: Batch, kept: DataFrame, pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing | None:
        """Rows that close sessions go right into these, and only what stays open is written.

        None where nothing is due, where it would be too much at once, or where fragments are needed by themselves.
        """
        until = closed_until(runtime.plan.query, watermark)
        if until is None or not _shows_at_close(runtime.plan.query) or runtime.plan.query.live is not None:
            return None
        due, rest = _due(pinned, until)
        rows = batch.rows + sum(file.rows for file in due)
        if rest or rows > BROUGHT_ROWS or not (due or _may_be_over(runtime.plan.query, batch, until)):
            return None
        runtime.fit_to(rows)
        fragments = self.partials(runtime, in_few_tasks(runtime, batch, kept))
        counts = {"fragments": "count(*)", "due": f"count_if(pane_end <= {until}L)"}
        counting = Counting(runtime.spark, fragments, f"fragments_{runtime.epoch}", counts)
        taken = counting.frame.selectExpr("*", f"{runtime.now}L AS {UPDATED_AT}")
        over = self._over(runtime, taken.unionByName(state_frame(runtime, due)) if due else taken, [], until, rows)
        found = counting.numbers()
        closing = over.closing(due, [], until, _due_timers(runtime, due, until) + found["due"])
        return replace(closing, counts={**closing.counts, "groups_touched": found["fragments"]})

    def _over(self, runtime: Runtime, taken: DataFrame, rest: Sequence[DataFile], until: int, rows: int) -> Over:
        """Fragments as sessions: those that are over, and what stays of the others."""
        if runtime.plan.query.live is not None or rows > BROUGHT_ROWS:
            return self._over_in_spark(runtime, self._placed(runtime, taken, rest), until, rows)
        sessions = nullable(self._with_results(runtime, self._sessions(runtime, taken, rest)).toArrow())
        state = pa.Table.from_struct_array(sessions.column(STATE))
        ended = pc.less_equal(state.column("pane_end"), until)
        closed, results = state.filter(ended), sessions.drop_columns([STATE]).filter(ended)
        survivors = self._put_back(runtime, state.filter(pc.invert(ended)))
        over = Over(None, closed.num_rows, _sessions_in(closed, self._by(runtime)), survivors)
        if _can_show(runtime.plan.query, results):
            return replace(over, results=results)
        if not runtime.plan.query.waits_for_close:
            return over
        return replace(over, merged=self._as_frame(runtime, closed))

    def _over_in_spark(self, runtime: Runtime, placed: DataFrame, until: int, rows: int) -> Over:
        """The same for more than fits here, or where rows may be taken back."""
        held = "true" if runtime.plan.query.live is None else "_dead IS NULL"
        ended = {"ended": f"count_if(_begins AND {held} AND window_end <= {until}L)"}
        counting = Counting(runtime.spark, placed, f"ended_{runtime.epoch}", ended)
        survivors = self._survivors(runtime, counting.frame, until, rows)
        return Over(self._merged(runtime, placed, until), rows, counting.numbers()["ended"], survivors)

    def _with_results(self, runtime: Runtime, sessions: DataFrame) -> DataFrame:
        """Each session's state as it is kept, and its results, should it be over: two in one pass."""
        query = runtime.plan.query
        state = f"struct({', '.join(sessions.columns)}) AS {quoted(STATE)}"
        if not _shows_at_close(query):
            return sessions.selectExpr(state)
        named = sessions.selectExpr(state, "*", "pane_end AS window_end")
        return finish(query, named, quoted(STATE)).selectExpr(
            quoted(STATE), reason_sql(), *shown_sql(query), partition_sql(query)
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
        keys = reduce(lambda a, b: a.unionByName(b), [frame.select(*self._by(runtime)) for frame in wanted])
        return matching(runtime, state_frame(runtime, change.files), keys, self._by(runtime))

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

    def _placed(self, runtime: Runtime, due: DataFrame, rest: Sequence[DataFile]) -> DataFrame:
        """Every fragment that may be due, and those of the same keys that may touch it, with their session."""
        taken = due.selectExpr("*", "true AS _taken")
        if rest:
            hashes = taken.select(KEY_HASH).distinct()
            others = state_frame(runtime, rest).join(hashes.hint("broadcast"), KEY_HASH, "left_semi")
            taken = taken.unionByName(others.selectExpr("*", "false AS _taken"))
        return self._in_sessions(runtime, taken)

    def _in_sessions(self, runtime: Runtime, fragments: DataFrame) -> DataFrame:
        """Each fragment with the bounds of the session that it forms with those it touches.

        A moment whose rows were all taken back holds no session together, and stands by itself.
        """
        by_key = ", ".join(self._by(runtime))
        live = runtime.plan.query.live
        if live is not None:
            left = f"sum({partial_column(live, 'n')}) OVER (PARTITION BY {by_key}, pane_start) > 0L"
            fragments = fragments.selectExpr("*", f"CASE WHEN {left} THEN NULL ELSE pane_start END AS _dead")
            by_key = f"{by_key}, _dead"
        whole = f"(PARTITION BY {by_key}, _session)"
        return self._numbered(fragments, by_key).selectExpr(
            "*",
            f"min(pane_start) OVER {whole} AS window_start",
            f"max(pane_end) OVER {whole} AS window_end",
        )

    def _by(self, runtime: Runtime) -> list[str]:
        """The columns whose values a session's rows share."""
        return [KEY_HASH, *runtime.plan.session_keys]

    def _numbered(self, fragments: DataFrame, by_key: str) -> DataFrame:
        """Each fragment with the number of its session among those of its key."""
        earlier = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        upto = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        apart = fragments.selectExpr("*", f"coalesce(pane_start > max(pane_end) OVER {earlier}, true) AS _begins")
        return apart.selectExpr("*", f"count_if(_begins) OVER {upto} AS _session")

    def _sessions(self, runtime: Runtime, taken: DataFrame, rest: Sequence[DataFile]) -> DataFrame:
        """What the taken fragments of each session come to: its bounds, and where they themselves begin."""
        plan = runtime.plan
        keys = [KEY_HASH, *plan.layout.key_columns]
        merges = {"pane_start": "min(pane_start)", **merge_expressions(plan)}
        columns = ["pane_start", "window_end AS pane_end", *keys, *plan.layout.partial_columns]
        if rest or plan.session_keys != plan.layout.key_columns:
            placed = self._placed(runtime, taken, rest).filter("_taken")
            made = runtime.aggregated(placed, ["window_start", "window_end", *keys], merges)
            return made.selectExpr("window_start", *columns)
        numbered = self._numbered(taken, ", ".join(self._by(runtime)))
        made = runtime.aggregated(numbered, ["_session", *keys], {"window_end": "max(pane_end)", **merges})
        return made.selectExpr("pane_start AS window_start", *columns)

    def _as_frame(self, runtime: Runtime, closed: pa.Table) -> DataFrame | None:
        """Sessions that are over, once more as a frame: through a file that does not become part of the table."""
        if not closed.num_rows:
            return None
        files = write_table(runtime, f.PARTIALS, closed.drop_columns(["pane_start"]))
        return state_frame(runtime, files).withColumnRenamed("pane_end", "window_end")

    def _put_back(self, runtime: Runtime, still: pa.Table) -> list[DataFile]:
        width = runtime.plan.layout.bucket_width
        buckets = pa.array(-(-still.column("pane_end").to_numpy() // width), pa.int64())
        rows = still.drop_columns(["window_start"]).append_column(BUCKET, buckets)
        return write_table(runtime, f.PARTIALS, rows, BUCKET)

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


def _shows_at_close(query: Query) -> bool:
    """Whether a result is a row by itself, made from its session alone."""
    return query.waits_for_close and query.ranking is None and query.repeats is None


def _can_show(query: Query, results: pa.Table) -> bool:
    """Whether these are the results: groups that have none are set aside in another way."""
    if not _shows_at_close(query):
        return False
    reasons = results.column(REASON)
    return not pc.any(pc.not_equal(reasons, "")).as_py()


def _sessions_in(closed: pa.Table, by: Sequence[str]) -> int:
    """How many sessions these are; groups may share one."""
    with connection() as db:
        db.register("closed", closed)
        found = db.sql(f"SELECT count(DISTINCT ({', '.join(['window_start', *by])})) FROM closed").fetchall()
    return int(found[0][0])


def _due(pinned: Sequence[DataFile], until: int) -> tuple[list[DataFile], list[DataFile]]:
    """The files that hold a fragment that has come to its end, and the others."""
    due = [file for file in pinned if int(file.low["pane_end"]) <= until]
    return due, [file for file in pinned if file not in due]


def _may_be_over(query: Query, batch: Batch, until: int) -> bool:
    """Whether a session may be over that begins with a row of this batch."""
    return any(t.earliest is not None and t.earliest + session_of(query).gap <= until for t in batch.times)


def key_hash_sql(keys: Sequence[str]) -> str:
    return f"xxhash64({', '.join(keys)})" if keys else "0L"


def _open_fragments(kept: Sequence[DataFile], added: Sequence[DataFile]) -> dict[str, int]:
    return {"open_fragments": sum(file.rows for file in [*kept, *added])}


def _due_timers(runtime: Runtime, files: Sequence[DataFile], until: int) -> int:
    """How many fragments have come to their end; those that a later one bridged are stale."""
    root = runtime.store.table(f.PARTIALS).root
    ends = [pq.ParquetFile(root / file.path).read(columns=["pane_end"]).column("pane_end") for file in files]
    return sum(int(pc.sum(pc.less_equal(column, until)).as_py() or 0) for column in ends)
