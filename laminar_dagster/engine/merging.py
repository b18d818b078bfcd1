"""Merges panes into the windows that are emitted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.partials import (
    EVICTED_FROM,
    HIDDEN,
    marks_of,
    merge_expressions,
    shares_panes,
    state_frame,
)
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.engine.sliding import in_each, spread
from laminar_dagster.engine.window_sql import fixed_window
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.quotas import limits_of
from laminar_dagster.semantics.types import BIGINT
from laminar_dagster.semantics.windows import Cumulate, Hop, Window
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Up to so many pairs it is cheaper to hand each pane to each of its windows than to sort the panes of every key.
FEW_PAIRS = 5_000_000
# The panes of a window mostly have the same keys: of so many pairs one becomes a result, at a guess.
PAIRS_PER_RESULT = 10


def merged_windows(runtime: Runtime, files: Sequence[DataFile], windows: Collection[Window]) -> DataFrame:
    """One row per (window, key) of these windows: `window_start`, `window_end`, the keys, merged partials."""
    placed = _placed(runtime, state_frame(runtime, files), windows, files)
    keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
    return runtime.aggregated(placed, keys, merge_expressions(runtime.plan))


def touched_groups(
    runtime: Runtime, files: Sequence[DataFile], fresh: Sequence[DataFile], windows: Collection[Window]
) -> DataFrame:
    """The same, of those groups of the windows that the fresh partials are part of."""
    new = state_frame(runtime, fresh)
    state = matching(runtime, state_frame(runtime, files), new, runtime.plan.layout.key_columns)
    keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
    merged = runtime.aggregated(_placed(runtime, state, windows, files), keys, merge_expressions(runtime.plan))
    into = _placed(runtime, new, windows, fresh)
    return matching(runtime, merged, into, keys)


def matching(runtime: Runtime, frame: DataFrame, others: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows that agree with some of the others in these columns, NULL with NULL."""
    if not columns:
        return frame
    wanted = others.selectExpr(*(f"{name} AS _other_{name}" for name in columns)).distinct()
    same = functions_of(runtime.spark).expr(" AND ".join(f"{name} <=> _other_{name}" for name in columns))
    return frame.join(wanted.hint("broadcast"), same, "left_semi")


def _placed(runtime: Runtime, state: DataFrame, windows: Collection[Window], files: Sequence[DataFile]) -> DataFrame:
    """The state's partials, each under the windows that it is part of."""
    if not shares_panes(runtime.plan.query):
        return _among(runtime, _as_windows(state, windows), windows)
    few = pairs(runtime.plan.query, files, windows) <= FEW_PAIRS
    if not (_may_hide(files) or limits_of(runtime.plan.query)):
        place = _in_each if few else _spread
        return place(runtime, state, windows)
    if few:
        return seen(_in_each(runtime, state, windows))
    for_all = " AND ".join(f"{mark} IS NULL" for mark in marks_of(runtime.plan.query))
    seen_by_all = _spread(runtime, state.filter(for_all), windows)
    hidden_from_some = seen(_in_each(runtime, state.filter(f"NOT ({for_all})"), windows))
    return seen_by_all.unionByName(hidden_from_some.select(*seen_by_all.columns))


def pairs(query: Query, files: Sequence[DataFile], windows: Collection[Window]) -> int:
    """How many rows there are, about, when each partial stands under each of its windows."""
    return min(len(windows), windows_per_pane(query)) * sum(file.rows for file in files)


def results(query: Query, files: Sequence[DataFile], windows: Collection[Window]) -> int:
    """How many rows these windows come to, about. Only decides who writes them."""
    return pairs(query, files, windows) // min(PAIRS_PER_RESULT, windows_per_pane(query))


def _may_hide(files: Sequence[DataFile]) -> bool:
    """Whether some partial is not for all windows that contain its pane."""
    return any(file.nulls.get(HIDDEN, 0) < file.rows for file in files)


def _among(runtime: Runtime, placed: DataFrame, windows: Collection[Window]) -> DataFrame:
    """Only these windows. Those that close together have no others between them; those that changed may."""
    if runtime.plan.query.waits_for_close:
        return placed
    return matching(runtime, placed, _window_table(runtime, windows), ["window_start", "window_end"])


def _window_table(runtime: Runtime, windows: Collection[Window]) -> DataFrame:
    bounds = [(window.start, window.end) for window in sorted(windows)]
    return inline_table(runtime.spark, {"window_start": BIGINT, "window_end": BIGINT}, bounds)


def _as_windows(state: DataFrame, windows: Collection[Window]) -> DataFrame:
    """A pane that is a window. Of those that close together the bounds tell which: nothing between is still open."""
    first, last = min(window.end for window in windows), max(window.end for window in windows)
    due = state.filter(f"pane_end >= {first}L AND pane_end <= {last}L")
    return due.withColumnsRenamed({"pane_start": "window_start", "pane_end": "window_end"})


def _in_each(runtime: Runtime, state: DataFrame, windows: Collection[Window]) -> DataFrame:
    """Each pane once for each of the windows that contain it."""
    return _among(runtime, in_each(fixed_window(runtime.plan.query), state, windows), windows)


def _spread(runtime: Runtime, state: DataFrame, windows: Collection[Window]) -> DataFrame:
    return _among(runtime, spread(runtime, state, windows), windows)


def seen(placed: DataFrame) -> DataFrame:
    """Without the partials whose rows were late for their window, or evicted from it."""
    shown = placed.filter(f"{HIDDEN} IS NULL OR window_end > {HIDDEN}")
    if EVICTED_FROM not in placed.columns:
        return shown
    return shown.filter(f"{EVICTED_FROM} IS NULL OR NOT array_contains({EVICTED_FROM}, window_end)")


def windows_per_pane(query: Query) -> int:
    """How many windows a pane belongs to at the most."""
    match query.window:
        case Hop(slide, size):
            return -(-size // slide)
        case Cumulate(step, size):
            return size // step
        case _:
            return 1
