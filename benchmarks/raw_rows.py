"""The contender that keeps raw rows and aggregates all of them when their window closes.

It is this engine in everything else: the same reading, the same files and commits, the same epoch log. Only the state
differs: an epoch appends its rows as they are, and a close aggregates rows where ours merges partials.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from laminar_dagster.engine import epoch, fixed_windows
from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.closing import Closing
from laminar_dagster.engine.fixed_windows import FixedWindows
from laminar_dagster.engine.partials import partial_expressions, prepared_columns, state_frame
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_sql import fixed_window, pane_end_sql, pane_start_sql
from laminar_dagster.engine.writing import BROUGHT_ROWS
from laminar_dagster.semantics.windows import Window
from state_store import DataFile, MaintenancePolicy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Compaction merges partials, and rows are none. Reading some more files costs this contender next to nothing.
NO_COMPACTION = MaintenancePolicy(files_per_bucket=1_000_000)


class RawRows(FixedWindows):
    """State that is the rows themselves: what the aggregates read of them, and the window they are in."""

    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        window = fixed_window(runtime.plan.query)
        rows = kept.selectExpr(f"{pane_start_sql(window, TIME)} AS pane_start", *prepared_columns(runtime.plan))
        return rows.selectExpr(f"{pane_end_sql(window, 'pane_start')} AS pane_end", "*")

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        """Its results are as few as ours, so they are brought to the driver as ours are."""
        closing = super().close(runtime, fresh, pinned, watermark)
        return replace(closing, rows=min(closing.rows, BROUGHT_ROWS))


def aggregated_rows(runtime: Runtime, files: Sequence[DataFile], windows: Collection[Window]) -> DataFrame:
    """What merging partials gives, from rows."""
    first, last = min(window.end for window in windows), max(window.end for window in windows)
    due = state_frame(runtime, files).filter(f"pane_end >= {first}L AND pane_end <= {last}L")
    placed = due.withColumnsRenamed({"pane_start": "window_start", "pane_end": "window_end"})
    keys = ["window_start", "window_end", *runtime.plan.layout.key_columns]
    return runtime.aggregated(placed, keys, partial_expressions(runtime.plan))


@contextmanager
def keeping_raw_rows() -> Iterator[None]:
    """While this is open, epochs of fixed windows keep rows."""
    with (
        patch.object(epoch, "state_of", lambda _: RawRows()),
        patch.object(fixed_windows, "merged_windows", aggregated_rows),
    ):
        yield
