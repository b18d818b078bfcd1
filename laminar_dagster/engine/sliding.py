"""Many overlapping windows out of their panes, in work that does not grow with size / slide.

Time is cut into blocks as long as a window. A window that begins inside a block is the end of that block (a suffix)
and the beginning of the next (a prefix). Running merges over each block, forwards and backwards, give every prefix and
every suffix in one pass; each is then handed to the windows that need just it: two rows at most for a window and key,
instead of one for every pane in the window. Any associative merge will do; nothing is ever subtracted.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar_dagster.engine.partials import merge_expressions
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.semantics.windows import Cumulate, FixedWindow, Hop, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The aggregate functions that a merge may be made of; `aggregate` and the like are functions of arrays.
AGGREGATE_CALL = re.compile(
    r"\b(sum|min|max|count|avg|bool_or|bool_and|bit_and|bit_or|bit_xor|collect_list|collect_set|any_value"
    r"|hll_union_agg|kll_merge_agg_\w+)\("
)


def spread(runtime: Runtime, state: DataFrame, windows: Collection[Window]) -> DataFrame:
    """Rows of `window_start`, `window_end`, keys and partials whose merge is the windows' results."""
    plan = runtime.plan
    panes = runtime.aggregated(state, ["pane_start", *plan.layout.key_columns], merge_expressions(plan))
    columns = [*plan.layout.key_columns, *plan.layout.partial_columns]
    match plan.query.window:
        case Hop() as window:
            return _hops(runtime, window, panes, windows).selectExpr("window_start", "window_end", *columns)
        case Cumulate(step, size):
            grid = Grid(step, 0, min(w.end for w in windows), max(w.end for w in windows))
            placed = grid.spread(_prefixes(runtime, _with_block(panes, size, 0)), "_from", "_reaches")
            return placed.selectExpr("_block AS window_start", "_moment AS window_end", *columns)
        case _:
            raise AssertionError("only windows that share panes are spread")


def in_each(window: FixedWindow, panes: DataFrame, windows: Collection[Window]) -> DataFrame:
    """Each pane once for each window that contains it, of those between the first and the last of these windows."""
    match window:
        case Hop(slide, size, offset):
            grid = Grid(slide, offset, min(w.start for w in windows), max(w.start for w in windows))
            placed = grid.spread(panes, f"pane_end - {size + 1}L", "pane_start")
            return placed.selectExpr("*", "_moment AS window_start", f"_moment + {size}L AS window_end")
        case Cumulate(step, size):
            grid = Grid(step, 0, min(w.end for w in windows), max(w.end for w in windows))
            placed = grid.spread(_with_block(panes, size, 0), "pane_end - 1L", "_block_end")
            return placed.selectExpr("*", "_block AS window_start", "_moment AS window_end")
        case _:
            raise AssertionError("only windows that share panes are spread")


def _hops(runtime: Runtime, window: Hop, panes: DataFrame, windows: Collection[Window]) -> DataFrame:
    """A window that begins where a block begins is all of that block: a suffix, and no prefix of the next."""
    size = window.size
    blocks = _with_block(panes, size, window.offset)
    grid = Grid(window.slide, window.offset, min(w.start for w in windows), max(w.start for w in windows))
    last_inside = f"least(_reaches, _block_end - 1L) - {size}L"
    later = grid.spread(_prefixes(runtime, blocks), f"_from - {size}L", last_inside)
    earlier = grid.spread(_suffixes(runtime, blocks), "_from", "pane_start")
    shared = [name for name in later.columns if name in earlier.columns]
    both = later.select(*shared).unionByName(earlier.select(*shared))
    return both.selectExpr("*", "_moment AS window_start", f"_moment + {size}L AS window_end")


def _with_block(panes: DataFrame, size: int, offset: int) -> DataFrame:
    block = f"(pane_start - pmod(pane_start - {offset}L, {size}L))"
    return panes.selectExpr("*", f"{block} AS _block", f"{block} + {size}L AS _block_end")


def _prefixes(runtime: Runtime, blocks: DataFrame) -> DataFrame:
    """All of a block up to each pane, for windows that end in `(_from, _reaches]`."""
    order = _by_pane(runtime)
    bounds = ["pane_start AS _from", f"coalesce(lead(pane_start) OVER ({order}), _block_end) AS _reaches"]
    return _merged_along(runtime, blocks, order, bounds)


def _suffixes(runtime: Runtime, blocks: DataFrame) -> DataFrame:
    """All of a block from each pane on, for windows that begin in `(_from, pane_start]`."""
    order = _by_pane(runtime)
    bounds = ["pane_start", f"coalesce(lag(pane_start) OVER ({order}), _block - 1L) AS _from"]
    return _merged_along(runtime, blocks, f"{order} DESC", bounds)


def _by_pane(runtime: Runtime) -> str:
    by = ", ".join([*runtime.plan.layout.key_columns, "_block"])
    return f"PARTITION BY {by} ORDER BY pane_start"


def _merged_along(runtime: Runtime, blocks: DataFrame, order: str, bounds: list[str]) -> DataFrame:
    """Each pane with the merge of all panes of its block before it in this order, and its own."""
    merges = _running(runtime, f"({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)")
    return blocks.selectExpr(*bounds, "_block", "_block_end", *runtime.plan.layout.key_columns, *merges)


def _running(runtime: Runtime, over: str) -> list[str]:
    return [f"{over_each(sql, over)} AS {name}" for name, sql in merge_expressions(runtime.plan).items()]


def over_each(sql: str, over: str) -> str:
    """The expression with each of its aggregate calls as a window function."""
    found = AGGREGATE_CALL.search(sql)
    if found is None:
        return sql
    end = _closing(sql, found.end() - 1) + 1
    return f"{sql[:end]} OVER {over}{over_each(sql[end:], over)}"


def _closing(sql: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[position], 0)
        if depth == 0:
            return position
    raise AssertionError(f"unbalanced: {sql}")


@dataclass(frozen=True)
class Grid:
    """Moments `step` apart, from `first` to `last`."""

    step: int
    offset: int
    first: int
    last: int

    def spread(self, frame: DataFrame, after: str, upto: str) -> DataFrame:
        """Each row once for each moment of the grid in `(after, upto]`, as `_moment`."""
        low = f"greatest({after} + {self.step}L - {self._past(after)}, {self.first}L)"
        high = f"least({upto} - {self._past(upto)}, {self.last}L)"
        moments = f"CASE WHEN {low} <= {high} THEN sequence({low}, {high}, {self.step}L) END"
        return frame.selectExpr("*", f"explode({moments}) AS _moment")

    def _past(self, moment: str) -> str:
        return f"pmod({moment} - {self.offset}L, {self.step}L)"
