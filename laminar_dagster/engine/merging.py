"""Merges panes into the windows that are emitted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.partials import HIDDEN, merge_expressions, shares_panes, state_frame
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session import functions_of
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.types import BIGINT
from laminar_dagster.semantics.windows import Cumulate, Hop, Window
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merged_windows(runtime: Runtime, files: Sequence[DataFile], windows: Collection[Window]) -> DataFrame:
    """One row per (window, key) of these windows: `window_start`, `window_end`, the keys, merged partials."""
    state = state_frame(runtime, files)
    placed = _placed_in_all(runtime, state, windows) if shares_panes(runtime.plan.query) else _placed(state, windows)
    keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
    return runtime.aggregated(placed, keys, merge_expressions(runtime.plan))


def _placed(state: DataFrame, windows: Collection[Window]) -> DataFrame:
    """A pane that is a window: the bounds of the windows tell which, as nothing between them is still open."""
    first, last = min(window.end for window in windows), max(window.end for window in windows)
    due = state.filter(f"pane_end >= {first}L AND pane_end <= {last}L")
    return due.withColumnsRenamed({"pane_start": "window_start", "pane_end": "window_end"})


def _placed_in_all(runtime: Runtime, state: DataFrame, windows: Collection[Window]) -> DataFrame:
    """Each pane once for each of the windows that contain it and see it."""
    bounds = [(window.start, window.end) for window in sorted(windows)]
    table = inline_table(runtime.spark, {"window_start": BIGINT, "window_end": BIGINT}, bounds)
    expr = functions_of(runtime.spark).expr
    inside = (
        f"pane_start >= window_start AND pane_end <= window_end AND window_end > coalesce({HIDDEN}, window_end - 1)"
    )
    return state.join(table, expr(inside))


def windows_per_pane(query: Query) -> int:
    """How many windows a pane belongs to at the most."""
    match query.window:
        case Hop(slide, size):
            return -(-size // slide)
        case Cumulate(step, size):
            return size // step
        case _:
            return 1
