"""The windows that are open, out of the state: their rows, and when the last of these came. In DuckDB, no Spark.

An epoch does not count them: of a view that waits for the end, it would have to read state that it does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.partials import EVICTED_FROM, HIDDEN, marks_of
from laminar_dagster.plan.plan import ROW_COUNT, UPDATED_AT, Plan
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, StoreReader
from state_store import format as f

# What the state says of the rows of a window, out of its partials; the names are those of `OpenWindow`.
HELD_SQL = f"count(*) AS partials, sum({ROW_COUNT})::BIGINT AS rows, max({UPDATED_AT}) AS updated_at"


@dataclass(frozen=True)
class OpenWindow:
    """A window that holds rows and is not closed. `keys`: of a session, those of its rows.

    `rows` have come in and were not taken back; `updated_at` is the processing time of the epoch that last brought or
    took some.
    """

    window: Window
    deadline: int
    partials: int
    rows: int
    updated_at: int
    keys: Mapping[str, Any] = field(default_factory=dict)


def open_windows(plan: Plan, reader: StoreReader, commit: CommitRow) -> list[OpenWindow]:
    """Every open window as of a commit, soonest to close first."""
    paths = reader.table(f.PARTIALS).absolute(reader.files(f.PARTIALS, commit))
    if isinstance(plan.query.window, Session):
        return _sessions(plan, paths)
    return _fixed(plan, reader, commit, paths)


def open_sessions(plan: Plan, paths: Sequence[str]) -> int:
    """How many sessions the fragments in these files form, over all keys."""
    if not paths:
        return 0
    with connection() as db:
        found = db.sql(f"SELECT count(*) FROM ({sessions_sql(plan, parquet(paths))})").fetchall()
    return int(found[0][0])


def sessions_sql(plan: Plan, partials: str, where: str = "true") -> str:
    """One row per session: its keys, `first`, `until`, and what is held of it. Fragments that touch are one session.

    A moment whose rows were all taken back holds nothing together.
    """
    keys = "".join(f", {quoted(key)}" for key in plan.session_keys)
    by_key = f"key_hash{keys}"
    earlier = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    upto = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return f"""
        WITH moments AS (
            SELECT {by_key}, pane_start, max(pane_end) AS pane_end, {HELD_SQL} FROM {partials} WHERE {where}
            GROUP BY {by_key}, pane_start HAVING rows > 0),
        reached AS (SELECT *, max(pane_end) OVER {earlier} AS reach FROM moments),
        numbered AS (SELECT *, count_if(coalesce(pane_start > reach, true)) OVER {upto} AS number FROM reached)
        SELECT {by_key}, min(pane_start) AS first, max(pane_end) AS until, sum(partials)::BIGINT AS partials,
               sum(rows)::BIGINT AS rows, max(updated_at) AS updated_at
        FROM numbered GROUP BY {by_key}, number"""


def _sessions(plan: Plan, paths: Sequence[str]) -> list[OpenWindow]:
    if not paths:
        return []
    with connection() as db:
        found = db.sql(f"SELECT * EXCLUDE key_hash FROM ({sessions_sql(plan, parquet(paths))}) ORDER BY until, first")
        rows = found.fetchall()
    names = [key.name for key in plan.query.keys][: len(plan.session_keys)]
    return [_session(plan, dict(zip(names, row, strict=False)), *row[len(names) :]) for row in rows]


def _session(
    plan: Plan, keys: Mapping[str, Any], first: int, until: int, partials: int, rows: int, updated_at: int
) -> OpenWindow:
    return OpenWindow(Window(first, until), until + plan.query.lateness, partials, rows, updated_at, keys)


def _fixed(plan: Plan, reader: StoreReader, commit: CommitRow, paths: Sequence[str]) -> list[OpenWindow]:
    closed = closed_until(plan.query, commit.watermark)
    bounds = ["window_start", "window_end", "deadline"]
    timers = reader.read(f.TIMERS, commit, bounds)
    if not paths or not timers.num_columns:
        return []
    with connection() as db:
        db.register("timers", _distinct(timers.select(bounds)))
        marks = marks_of(plan.query)
        panes = ", ".join(["pane_start", "pane_end", *marks])
        rows = db.sql(
            f"""WITH panes AS (SELECT {panes}, {HELD_SQL} FROM {parquet(paths)} GROUP BY {panes})
                SELECT window_start, window_end, deadline, sum(partials)::BIGINT, sum(rows)::BIGINT, max(updated_at)
                FROM timers JOIN panes
                  ON pane_start >= window_start AND pane_end <= window_end AND {seen_sql(marks, "window_end")}
                WHERE {"true" if closed is None else f"window_end > {closed}"}
                GROUP BY ALL ORDER BY window_end, window_start"""
        ).fetchall()
    return [OpenWindow(Window(start, end), *held) for start, end, *held in rows]


def _distinct(timers: pa.Table) -> pa.Table:
    return timers.group_by(timers.column_names).aggregate([])


def seen_sql(marks: Sequence[str], end: str) -> str:
    """Whether the rows of a pane count in a window that contains it and ends there."""
    tests = {
        HIDDEN: f"coalesce({end} > {HIDDEN}, true)",
        EVICTED_FROM: f"NOT coalesce(list_contains({EVICTED_FROM}, {end}), false)",
    }
    return " AND ".join(["true", *(tests[mark] for mark in marks)])
