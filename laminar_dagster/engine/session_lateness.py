"""Which rows of a commit are late for their session.

The commit's own rows form fragments first, all at once, because their order has no meaning. A fragment that would be
closed already is late unless it touches a session that is open. A retraction joins nothing: it is late unless an open
session holds its time. An epoch in which that can happen has one commit, so the state is as it was before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.partials import state_frame
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.plan.plan import WEIGHT_COLUMN, key_column, partial_column
from laminar_dagster.semantics.spark_sql import value_sql
from laminar_dagster.semantics.windows import Session
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATE_SESSION = "_late"
TAKEN_BACK = "_taken_back"


def with_session_lateness(runtime: Runtime, frame: DataFrame, pinned: Sequence[DataFile]) -> DataFrame:
    """The rows with `_late`; those that `_unsound` sets aside for another reason hold no session together."""
    query = runtime.plan.query
    assert isinstance(query.window, Session)
    own = query.keys[: len(runtime.plan.session_keys)]
    keys = [f"_k{i}" for i in range(len(own))]
    takes_back = f"{WEIGHT_COLUMN} < 0" if query.takes_retractions else "false"
    marked = frame.selectExpr("*", f"{takes_back} AS {TAKEN_BACK}")
    placed = in_fragments(marked, [value_sql(key.expression) for key in own], keys, query.window.gap, TAKEN_BACK)
    by = [TAKEN_BACK, *keys, "_fragment_start"]
    found = placed.filter("_unsound IS NULL").select(*by, "_fragment_end", "_watermark").distinct()
    late = _late(runtime, found, keys, pinned).selectExpr(*(f"{name} AS {name}_late" for name in by))
    same = [f"{name} <=> {name}_late" for name in by]
    on = functions_of(runtime.spark).expr(" AND ".join(["_unsound IS NULL", *same]))
    joined = placed.join(late.hint("broadcast"), on, "left")
    return joined.selectExpr(*frame.columns, f"_fragment_start_late IS NOT NULL AS {LATE_SESSION}")


def _late(runtime: Runtime, found: DataFrame, keys: list[str], pinned: Sequence[DataFile]) -> DataFrame:
    """The fragments that are late: of rows, if they touch no open session; of retractions, if none holds them."""
    query = runtime.plan.query
    suspect = f"_fragment_end + {query.lateness} <= _watermark"
    held = _open_fragments(runtime, keys, pinned)
    touches = ["_fragment_start <= pane_end", "pane_start <= _fragment_end"]
    late = _without(runtime, found.filter(f"NOT {TAKEN_BACK} AND {suspect}"), held, keys, touches)
    if not query.takes_retractions:
        return late
    on_time = found.filter(f"NOT {TAKEN_BACK}").exceptAll(late)
    holding = on_time.selectExpr("_fragment_start AS pane_start", "_fragment_end AS pane_end", *_named(keys))
    held = holding if held is None else holding.unionByName(held)
    inside = ["pane_start <= _fragment_start", "_fragment_start < pane_end"]
    return late.unionByName(_without(runtime, found.filter(f"{TAKEN_BACK} AND {suspect}"), held, keys, inside))


def in_fragments(
    frame: DataFrame, expressions: list[str], keys: list[str], gap: int, alone: str = "false"
) -> DataFrame:
    """Each row with the bounds of the fragment that it forms with the other rows of its key.

    `alone`: which rows are fragments by themselves, since they hold nothing together.
    """
    keyed = frame.selectExpr("*", *(f"{sql} AS {key}" for sql, key in zip(expressions, keys, strict=True)))
    by_key = ", ".join(["_unsound IS NULL", f"CASE WHEN {alone} THEN {TIME} END", *keys])
    order = f"(PARTITION BY {by_key} ORDER BY {TIME})"
    apart = keyed.selectExpr("*", f"coalesce({TIME} > lag({TIME}) OVER {order} + {gap}L, true) AS _begins")
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


def _open_fragments(runtime: Runtime, keys: list[str], pinned: Sequence[DataFile]) -> DataFrame | None:
    """What the open sessions are made of; a moment whose rows were all taken back is part of none."""
    if not pinned:
        return None
    panes = ["pane_start", "pane_end", *(key_column(i) for i in range(len(keys)))]
    state, live = state_frame(runtime, pinned), runtime.plan.query.live
    if live is None:
        return state.select(*panes)
    rows = runtime.aggregated(state, panes, {"_rows": f"sum({partial_column(live, 'n')})"})
    return rows.filter("_rows > 0").select(*panes)


def _without(
    runtime: Runtime, fragments: DataFrame, held: DataFrame | None, keys: list[str], meets: list[str]
) -> DataFrame:
    """The fragments that meet none of these, of the same key."""
    if held is None:
        return fragments
    same = [f"{key} <=> {key_column(i)}" for i, key in enumerate(keys)]
    return fragments.join(held, functions_of(runtime.spark).expr(" AND ".join([*meets, *same])), "left_anti")


def _named(keys: list[str]) -> list[str]:
    return [f"{key} AS {key_column(i)}" for i, key in enumerate(keys)]
