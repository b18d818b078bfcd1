"""The sessions that are open, out of their fragments in the state: in DuckDB, for those who look. No Spark.

An epoch does not count them: of a view that waits for the end, it would have to read state that it does not need.
"""

from __future__ import annotations

from collections.abc import Sequence

from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.plan.plan import Plan, partial_column


def open_sessions(plan: Plan, paths: Sequence[str]) -> int:
    """How many sessions the fragments in these files form, over all keys."""
    if not paths:
        return 0
    by_key = ", ".join(["key_hash", *map(quoted, plan.session_keys)])
    earlier = f"(PARTITION BY {by_key} ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    with connection() as db:
        found = db.sql(
            f"""SELECT count(*) FROM (
                    SELECT pane_start, max(pane_end) OVER {earlier} AS reach FROM ({_held(plan, paths, by_key)})
                ) WHERE reach IS NULL OR pane_start > reach"""
        ).fetchall()
    return int(found[0][0])


def _held(plan: Plan, paths: Sequence[str], by_key: str) -> str:
    """The fragments; a moment whose rows were all taken back holds nothing together."""
    live = plan.query.live
    if live is None:
        return f"SELECT * FROM {parquet(paths)}"
    rows = quoted(partial_column(live, "n"))
    return f"SELECT {by_key}, pane_start, pane_end FROM {parquet(paths)} GROUP BY ALL HAVING sum({rows}) > 0"
