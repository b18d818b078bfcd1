"""Which rows of a commit are late for their session.

The commit's own rows form fragments first, all at once, because their order has no meaning. A fragment that would be
closed already is late unless it touches a session that is open. An epoch in which that can happen has one commit, so
the state is what it was before that commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.partials import state_frame
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.spark_sql import value_sql
from laminar_dagster.semantics.windows import Session
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATE_SESSION = "_late"


def with_session_lateness(runtime: Runtime, frame: DataFrame, pinned: Sequence[DataFile]) -> DataFrame:
    """The rows with `_late`; those that `_unsound` sets aside for another reason hold no session together."""
    query = runtime.plan.query
    assert isinstance(query.window, Session)
    own = query.keys[: len(runtime.plan.session_keys)]
    keys = [f"_k{i}" for i in range(len(own))]
    placed = in_fragments(frame, [value_sql(key.expression) for key in own], keys, query.window.gap)
    suspect = placed.filter(f"_unsound IS NULL AND _fragment_end + {query.lateness} <= _watermark")
    fragments = suspect.select(*keys, "_fragment_start", "_fragment_end").distinct()
    late = _touching_nothing(runtime, fragments, keys, pinned).selectExpr(
        *(f"{key} AS {key}_late" for key in keys), "_fragment_start AS _late_start", f"true AS {LATE_SESSION}"
    )
    same = [f"{key} <=> {key}_late" for key in keys]
    on = functions_of(runtime.spark).expr(" AND ".join(["_unsound IS NULL", "_fragment_start = _late_start", *same]))
    joined = placed.join(late.hint("broadcast"), on, "left")
    return joined.selectExpr(*frame.columns, f"coalesce({LATE_SESSION}, false) AS {LATE_SESSION}")


def in_fragments(frame: DataFrame, expressions: list[str], keys: list[str], gap: int) -> DataFrame:
    """Each row with the bounds of the fragment that it forms with the other rows of its key."""
    keyed = frame.selectExpr("*", *(f"{sql} AS {key}" for sql, key in zip(expressions, keys, strict=True)))
    by_key = ", ".join(["_unsound IS NULL", *keys])
    order = f"(PARTITION BY {by_key} ORDER BY {TIME})"
    apart = keyed.selectExpr("*", f"coalesce({TIME} - lag({TIME}) OVER {order} > {gap}L, true) AS _begins")
    upto = f"(PARTITION BY {by_key} ORDER BY {TIME} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    numbered = apart.selectExpr("*", f"count_if(_begins) OVER {upto} AS _fragment")
    whole = f"(PARTITION BY {by_key}, _fragment)"
    return numbered.selectExpr(
        "*", f"min({TIME}) OVER {whole} AS _fragment_start", f"max({TIME}) OVER {whole} + {gap}L AS _fragment_end"
    )


def in_sessions(fragments: DataFrame, keys: list[str]) -> DataFrame:
    """Each fragment with the number of its session, `_session`, among those of its key: what touches is one."""
    by_key = f"PARTITION BY {', '.join(keys)} " if keys else ""
    earlier = f"({by_key}ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    upto = f"({by_key}ORDER BY pane_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    apart = fragments.selectExpr("*", f"coalesce(pane_start > max(pane_end) OVER {earlier}, true) AS _begins")
    return apart.selectExpr("*", f"count_if(_begins) OVER {upto} AS _session")


def _touching_nothing(runtime: Runtime, fragments: DataFrame, keys: list[str], pinned: Sequence[DataFile]) -> DataFrame:
    if not pinned:
        return fragments
    state = state_frame(runtime, pinned).select("pane_start", "pane_end", *(key_column(i) for i in range(len(keys))))
    same = [f"{key} <=> {key_column(i)}" for i, key in enumerate(keys)]
    touches = " AND ".join(["_fragment_start <= pane_end", "pane_start <= _fragment_end", *same])
    return fragments.join(state, functions_of(runtime.spark).expr(touches), "left_anti")
