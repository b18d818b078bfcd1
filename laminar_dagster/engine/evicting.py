"""Who is evicted where a view's limits are reached: the rules of semantics/quotas.py, over all of an epoch at once.

The places that are held and those that the epoch's rows ask for are numbered in the order in which they were asked for,
once for each limit; a new one whose number is too high is refused. Held places come first, so they stay. An epoch that
could reach a limit under which closing windows make room has one commit (engine/quotas.py cuts it so).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.batch import TIME, Batch
from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.merging import seen
from laminar_dagster.engine.partials import EVICTED_FROM, shares_panes, state_frame
from laminar_dagster.engine.quotas import open_files
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.session_lateness import in_fragments, in_sessions
from laminar_dagster.engine.sliding import in_each
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.window_sql import fixed_window, pane_end_sql, pane_start_sql
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.quotas import LIMITS, Limit, limits_of
from laminar_dagster.semantics.spark_sql import value_sql
from laminar_dagster.semantics.types import BIGINT, STRING
from laminar_dagster.semantics.windows import Session, Window, first_window, last_window
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASONS = ", ".join(f"'{limit.reason}'" for limit in LIMITS)
BOUNDS = ["window_start", "window_end"]
PANE = ["pane_start", "pane_end"]
# When a place was asked for: by the number of the commit, before all of them where it is held already.
ASKED = "_asked"
HELD = -1
REFUSED = "_refused"
CLOSED = "_closed"


def evicting(runtime: Runtime, batch: Batch, judged: DataFrame, pinned: Sequence[DataFile]) -> DataFrame:
    """The judged rows, those that no window has a place for with the limit as their reason.

    Where windows share panes, `evicted_from` has the ends of the windows that a row does not enter.
    """
    query = runtime.plan.query
    if isinstance(query.window, Session):
        return _of_sessions(runtime, query.window, judged, pinned)
    rows = _placed(runtime, batch, judged)
    if shares_panes(query):
        return _of_shared_panes(runtime, batch, rows, judged.columns, pinned)
    asked = _asked(runtime, rows).withColumnsRenamed(dict(zip(PANE, BOUNDS, strict=True)))
    refused = _refused(runtime, asked, _held(runtime, pinned, None))
    verdicts = refused.withColumnsRenamed(dict(zip(BOUNDS, PANE, strict=True)))
    return _marked(runtime, rows, verdicts, [*PANE, *_keys(query)], judged.columns, REFUSED)


def _keys(query: Query) -> list[str]:
    return [f"_k{i}" for i in range(len(query.keys))]


def _placed(runtime: Runtime, batch: Batch, judged: DataFrame) -> DataFrame:
    """Each row with its pane, its keys, its commit's number, and the end up to which windows are closed for it."""
    query = runtime.plan.query
    start, end = "0L", "0L"
    if query.window is not None:
        start = pane_start_sql(fixed_window(query), TIME)
        end = pane_end_sql(fixed_window(query), "pane_start")
    closed = f"_watermark - {query.lateness}L" if "_watermark" in judged.columns else "CAST(NULL AS BIGINT)"
    keys = [f"{value_sql(key.expression)} AS {name}" for key, name in zip(query.keys, _keys(query), strict=True)]
    rows = _with_commit(runtime, batch, judged).selectExpr(
        "*", f"{start} AS pane_start", f"{closed} AS {CLOSED}", *keys
    )
    return rows.selectExpr("*", f"{end} AS pane_end")


def _with_commit(runtime: Runtime, batch: Batch, judged: DataFrame) -> DataFrame:
    numbers = [(file.url, number) for number, commit in enumerate(batch.commits) for file in commit.files]
    if len({number for _, number in numbers}) == 1:
        return judged.selectExpr("*", f"0L AS {ASKED}")
    return judged.join(inline_table(runtime.spark, {FILE: STRING, ASKED: BIGINT}, numbers), FILE)


def _asked(runtime: Runtime, rows: DataFrame, *more: str) -> DataFrame:
    """The panes and keys of the rows that enter if there is room, and when they first asked."""
    columns = [*PANE, *more, *_keys(runtime.plan.query)]
    return runtime.aggregated(rows.filter("_reason IS NULL"), columns, {ASKED: f"min({ASKED})"})


def _held(runtime: Runtime, pinned: Sequence[DataFile], windows: Sequence[Window] | None) -> DataFrame | None:
    """The places of windows that were open before the epoch; `windows` are those that share panes, at least."""
    query = runtime.plan.query
    files = open_files(runtime, pinned)
    if not files:
        return None
    state = state_frame(runtime, files)
    if windows is None:
        placed = state.withColumnsRenamed(dict(zip(PANE, BOUNDS, strict=True)))
    else:
        placed = seen(in_each(fixed_window(query), state, windows))
    closed = closed_until(query, runtime.clocks.watermark)
    if query.window is not None and closed is not None:
        placed = placed.filter(f"window_end > {closed}L")
    keys = [f"{key_column(i)} AS {name}" for i, name in enumerate(_keys(query))]
    return placed.selectExpr(*BOUNDS, *keys, f"{HELD}L AS {ASKED}")


def _refused(runtime: Runtime, asked: DataFrame, held: DataFrame | None) -> DataFrame:
    """The places that are asked for and not given: `window_start`, `window_end`, the keys, and why."""
    place = [*BOUNDS, *_keys(runtime.plan.query)]
    columns = [*place, ASKED]
    all_places = asked.select(*columns) if held is None else asked.select(*columns).unionByName(held)
    places = runtime.aggregated(all_places, place, {ASKED: f"min({ASKED})"})
    return _judged(runtime.plan.query, places, place).filter(f"{REFUSED} IS NOT NULL").select(*place, REFUSED)


def _judged(query: Query, places: DataFrame, place: Sequence[str]) -> DataFrame:
    """Places with the reason why they are refused, or NULL: limit by limit, over those that are left."""
    judged = places.selectExpr("*", f"CAST(NULL AS STRING) AS {REFUSED}")
    others = [name for name in judged.columns if name != REFUSED]
    for limit in limits_of(query):
        together = ", ".join([f"{REFUSED} IS NULL", *_counted_together(query, limit)])
        number = f"row_number() OVER (PARTITION BY {together} ORDER BY {', '.join([ASKED, *place])})"
        over = f"{REFUSED} IS NULL AND {ASKED} > {HELD} AND {number} > {limit.most(query)}"
        judged = judged.selectExpr(*others, f"CASE WHEN {over} THEN '{limit.reason}' ELSE {REFUSED} END AS {REFUSED}")
    return judged


def _counted_together(query: Query, limit: Limit) -> list[str]:
    return [*(BOUNDS if limit.of_window else []), *(_keys(query) if limit.of_group else [])]


def _marked(
    runtime: Runtime,
    rows: DataFrame,
    verdicts: DataFrame,
    by: Sequence[str],
    columns: Sequence[str],
    reason: str,
    *more: str,
) -> DataFrame:
    """The rows with what the verdicts say of them; only those are looked at that nothing else sets aside."""
    renamed = verdicts.withColumnsRenamed({name: f"_of_{name}" for name in by})
    same = " AND ".join(["_reason IS NULL", *(f"{name} <=> _of_{name}" for name in by)])
    joined = rows.join(renamed, functions_of(runtime.spark).expr(same), "left")
    kept = [f"`{name}`" for name in columns if name != "_reason"]
    return joined.selectExpr(*kept, f"coalesce(_reason, {reason}) AS _reason", *more)


# --- windows that share panes ----------------------------------------------------------------------------------


def _of_shared_panes(
    runtime: Runtime, batch: Batch, rows: DataFrame, columns: Sequence[str], pinned: Sequence[DataFile]
) -> DataFrame:
    """A row enters the windows that have a place for it, and is evicted where none of those that are open has."""
    query = runtime.plan.query
    windows = _between(query, batch, open_files(runtime, pinned))
    panes = _asked(runtime, rows, CLOSED)
    asked = in_each(fixed_window(query), panes, windows).filter(f"{CLOSED} IS NULL OR window_end > {CLOSED}")
    refused = _refused(runtime, asked, _held(runtime, pinned, windows))
    place = [*BOUNDS, *_keys(query)]
    renamed = refused.withColumnsRenamed({name: f"_of_{name}" for name in place})
    same = functions_of(runtime.spark).expr(" AND ".join(f"{name} <=> _of_{name}" for name in place))
    by = [*PANE, CLOSED, *_keys(query)]
    results = {
        "_ends": f"array_sort(collect_list(CASE WHEN {REFUSED} IS NOT NULL THEN window_end END))",
        "_windows": "count(*)",
        REFUSED: f"max_by({REFUSED}, window_end)",
    }
    verdicts = runtime.aggregated(asked.join(renamed, same, "left"), by, results).filter("size(_ends) > 0")
    reason = f"CASE WHEN size(_ends) = _windows THEN {REFUSED} END"
    return _marked(runtime, rows, verdicts, by, columns, reason, f"_ends AS {EVICTED_FROM}")


def _between(query: Query, batch: Batch, files: Sequence[DataFile]) -> list[Window]:
    """The first and the last windows that the rows or the state can be part of."""
    times = [time for t in batch.times for time in (t.earliest, t.latest) if time is not None]
    times += [time for file in files for time in (int(file.low["pane_start"]), int(file.high["pane_end"]) - 1)]
    window = fixed_window(query)
    edges = [first_window(window, min(times)), last_window(window, max(times))]
    return [*window.assign(min(times)), *window.assign(max(times)), *edges]


# --- sessions --------------------------------------------------------------------------------------------------


def _of_sessions(runtime: Runtime, kind: Session, judged: DataFrame, pinned: Sequence[DataFile]) -> DataFrame:
    """A session that the commit's rows form among themselves asks for a place; one that they join has it."""
    query = runtime.plan.query
    keys = _keys(query)
    sound = judged.drop("_unsound").selectExpr("*", "_reason AS _unsound")
    rows = in_fragments(sound, [value_sql(key.expression) for key in query.keys], keys, kind.gap)
    bounds = ["_fragment_start AS pane_start", "_fragment_end AS pane_end"]
    fragments = rows.filter("_reason IS NULL").selectExpr(*bounds, *keys, f"0L AS {ASKED}").distinct()
    if pinned:
        named = [f"{key_column(i)} AS {name}" for i, name in enumerate(keys)]
        fragments = fragments.unionByName(state_frame(runtime, pinned).selectExpr(*PANE, *named, f"{HELD}L AS {ASKED}"))
    found = {"window_start": "min(pane_start)", "window_end": "max(pane_end)", ASKED: f"min({ASKED})"}
    sessions = runtime.aggregated(in_sessions(fragments, keys), ["_session", *keys], found)
    refused = _judged(query, sessions, [*BOUNDS, *keys]).filter(f"{REFUSED} IS NOT NULL")
    renamed = refused.select(*BOUNDS, *keys, REFUSED).withColumnsRenamed({name: f"_of_{name}" for name in keys})
    same = ["_reason IS NULL", f"{TIME} >= window_start", f"{TIME} < window_end"]
    on = functions_of(runtime.spark).expr(" AND ".join([*same, *(f"{name} <=> _of_{name}" for name in keys)]))
    kept = [f"`{name}`" for name in judged.columns if name not in ("_reason", "_unsound")]
    return rows.join(renamed, on, "left").selectExpr(*kept, f"coalesce(_reason, {REFUSED}) AS _reason")
