"""State of fixed windows: panes, and one timer per open window that tells when it is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from laminar_dagster.engine.batch import TIME
from laminar_dagster.engine.closing import ClosesApart, Closing, closed_until
from laminar_dagster.engine.in_process_sql import connection, parquet
from laminar_dagster.engine.merging import merged_windows, pairs, results, touched_groups
from laminar_dagster.engine.partials import EVICTED_FROM, HIDDEN, marks_of, partial_expressions, prepared_columns
from laminar_dagster.engine.revising import Change, Revised, chosen
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_sql import fixed_window, last_end_sql, pane_end_sql, pane_start_sql
from laminar_dagster.semantics.windows import Window
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FixedWindows(ClosesApart):
    """Tumbling, hopping, cumulating and calendar windows."""

    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        """One row per (pane, key) that the rows touch."""
        plan = runtime.plan
        marks = marks_of(plan.query)
        none = [f"CAST(NULL AS ARRAY<BIGINT>) AS {EVICTED_FROM}" for name in marks if name not in kept.columns]
        pane = f"{pane_start_sql(fixed_window(plan.query), TIME)} AS pane_start"
        known = [name for name in marks if name in kept.columns]
        prepared = kept.selectExpr(pane, *prepared_columns(plan), *known, *none)
        made = runtime.aggregated(prepared, ["pane_start", *plan.layout.key_columns, *marks], partial_expressions(plan))
        # In front: Delta keeps bounds of a table's first 32 columns only, and closing needs these.
        return made.selectExpr(f"{pane_end_sql(fixed_window(plan.query), 'pane_start')} AS pane_end", "*")

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        until = closed_until(runtime.plan.query, watermark)
        touched = self._open(runtime, self._windows_in(runtime, fresh))
        timers = runtime.timers | touched
        due = frozenset(window for window in timers if until is not None and window.end <= until)
        closing = self.take_out(runtime, due, fresh, pinned, until)
        return replace(closing, opened=touched - runtime.timers, closed=due, touched=touched)

    def revise(self, runtime: Runtime, change: Change) -> Revised:
        choice = chosen(runtime.plan.query, runtime.timers, change, runtime.carried.waiting)
        if not choice.windows:
            return Revised(None, waiting=choice.waiting)
        files = [file for file in change.files if _holds(file, choice.windows)]
        parts = [merged_windows(runtime, files, choice.whole)] if choice.whole else []
        if choice.touched:
            parts.append(touched_groups(runtime, files, change.fresh, choice.touched))
        return Revised(
            merged=reduce(lambda a, b: a.unionByName(b), parts),
            rows=results(runtime.plan.query, files, choice.windows),
            ends=(min(w.end for w in choice.windows), max(w.end for w in choice.windows)),
            waiting=choice.waiting,
        )

    def take_out(
        self,
        runtime: Runtime,
        due: frozenset[Window],
        fresh: Sequence[DataFile],
        pinned: Sequence[DataFile],
        until: int | None,
    ) -> Closing:
        """The windows that are due, out of the state: what is emitted of them, and which files stay."""
        files = [file for file in [*pinned, *fresh] if _holds(file, due)]
        if due:
            runtime.fit_to(pairs(runtime.plan.query, files, due))
        return Closing(
            merged=merged_windows(runtime, files, due) if due else None,
            rows=results(runtime.plan.query, files, due),
            gone=[file for file in pinned if self._is_closed(runtime, file, until)],
            live=[file for file in fresh if not self._is_closed(runtime, file, until)],
            until=until,
        )

    def still_open(self, runtime: Runtime, closed: int | None) -> str:
        """Which panes a compaction keeps."""
        return (
            "true" if closed is None else f"{last_end_sql(fixed_window(runtime.plan.query), 'pane_start')} > {closed}L"
        )

    def _open(self, runtime: Runtime, windows: set[Window]) -> frozenset[Window]:
        """Those that were not closed before this epoch: a pane may be part of windows that are long gone."""
        closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
        return frozenset(window for window in windows if closed is None or window.end > closed)

    def _windows_in(self, runtime: Runtime, files: Sequence[DataFile]) -> set[Window]:
        """The windows that have rows in these files: where several share a pane, some of them may not see its rows."""
        window = fixed_window(runtime.plan.query)
        root = runtime.store.table(f.PARTIALS).root
        marks = marks_of(runtime.plan.query)
        panes = {pane for file in files for pane in _panes_in(root / file.path, file, marks)}
        return {covering for pane in panes for covering in window.windows_of(pane.bounds) if pane.is_seen_by(covering)}

    def _is_closed(self, runtime: Runtime, file: DataFile, until: int | None) -> bool:
        """Whether every window that the file has panes of is closed."""
        newest = Window(int(file.high["pane_start"]), int(file.high["pane_end"]))
        last = max(window.end for window in fixed_window(runtime.plan.query).windows_of(newest))
        return until is not None and last <= until


def _holds(file: DataFile, due: frozenset[Window]) -> bool:
    """Whether the file can have panes of a window that is due."""
    if not due:
        return False
    first, last = min(window.start for window in due), max(window.end for window in due)
    return int(file.low["pane_start"]) < last and int(file.high["pane_end"]) > first


@dataclass(frozen=True)
class Pane:
    """A stretch that windows share: `hidden_until` is the end of the last window that was closed when its rows came,
    `evicted_from` are the ends of windows that had no place for them."""

    bounds: Window
    hidden_until: int | None = None
    evicted_from: tuple[int, ...] = ()

    def is_seen_by(self, window: Window) -> bool:
        is_hidden = self.hidden_until is not None and window.end <= self.hidden_until
        return not is_hidden and window.end not in self.evicted_from


def _panes_in(path: Path, file: DataFile, marks: Sequence[str]) -> set[Pane]:
    if not marks and file.low["pane_start"] == file.high["pane_start"]:
        return {Pane(Window(int(file.low["pane_start"]), int(file.high["pane_end"])))}
    columns = ["pane_start", "pane_end", *marks]
    if EVICTED_FROM in marks:  # a list, which Arrow does not group by
        with connection() as db:
            found = db.sql(f"SELECT DISTINCT {', '.join(columns)} FROM {parquet([str(path)])}").to_arrow_table()
    else:
        found = pq.ParquetFile(path).read(columns=columns).group_by(columns).aggregate([])
    return {
        Pane(Window(row["pane_start"], row["pane_end"]), row.get(HIDDEN), tuple(row.get(EVICTED_FROM) or ()))
        for row in found.to_pylist()
    }
