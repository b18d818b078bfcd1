"""State of windows whose gaps are filled: panes that are open, and of each key the last one that is closed.

A closed pane stays until a later one of its key closes: what lies between the two is filled then. So a close takes the
files that it closes out of the state, and puts back those of their panes that are their key's last. It does the same to
what earlier closes put back, where that is no more than it writes anyway: a pane that another one has followed stays
for a while, and means nothing. No pane is there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar_dagster.engine.closing import Closing, closed_until
from laminar_dagster.engine.fixed_windows import FixedWindows
from laminar_dagster.engine.gap_fill import KEPT
from laminar_dagster.engine.merging import matching
from laminar_dagster.engine.partials import BUCKET, merge_expressions, state_frame
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.window_sql import fixed_window
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import DAY
from laminar_dagster.semantics.windows import Tumble, Window
from state_store import DataFile
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Up to so many kept rows it is cheaper to merge them all than to look for those of the keys that close.
FEW_KEPT = 20_000
# What it costs to read a row of the state and find that it is not needed, compared with one that is.
LOOKED_UP = 10
BEGINNING = -(1 << 62)


@dataclass(frozen=True)
class Closed:
    """The files that hold closed panes, and the two moments: what ended by `emitted` was closed before this epoch."""

    files: list[DataFile]
    emitted: int
    until: int

    @property
    def due(self) -> list[DataFile]:
        return [file for file in self.files if int(file.high["pane_end"]) > self.emitted]

    @property
    def kept(self) -> list[DataFile]:
        return [file for file in self.files if int(file.low["pane_end"]) <= self.emitted]

    @property
    def cut(self) -> list[DataFile]:
        """Those that also hold panes that stay open."""
        return [file for file in self.files if int(file.high["pane_end"]) > self.until]

    @property
    def taken(self) -> list[DataFile]:
        """Those that this close closes, and the ones with kept panes alone that are not larger than all these.

        So a kept pane is written again only together with as many others, and there are few files of them.
        """
        taken = [file for file in self.due if file not in self.cut]
        only_kept = [file for file in self.files if int(file.high["pane_end"]) <= self.emitted]
        for file in sorted(only_kept, key=lambda file: file.rows):
            if file.rows <= _rows_of(taken):
                taken.append(file)
        return taken

    @property
    def earliest(self) -> int:
        return min(int(file.low["pane_start"]) for file in self.files)


class FilledWindows(FixedWindows):
    """Tumbling and calendar windows with GAP FILL."""

    def take_out(
        self,
        runtime: Runtime,
        due: frozenset[Window],
        fresh: Sequence[DataFile],
        pinned: Sequence[DataFile],
        until: int | None,
    ) -> Closing:
        if not due or until is None:
            return Closing(None, 0, [], list(fresh), until)
        query = runtime.plan.query
        emitted = closed_until(query, runtime.clocks.watermark)
        files = [file for file in [*pinned, *fresh] if int(file.low["pane_end"]) <= until]
        closed = Closed(files, BEGINNING if emitted is None else emitted, until)
        runtime.fit_to(_rows_of(closed.due) + _rows_of(closed.kept) // (LOOKED_UP if _looks_up(runtime, closed) else 1))
        taken = closed.taken
        useless = [file for file in pinned if int(file.high["pane_end"]) < _oldest_gap(query, until)]
        return Closing(
            merged=_merged(runtime, closed),
            rows=_rows_of(closed.due) * _most_windows(query, max(due).end - closed.earliest),
            gone=[file for file in pinned if file in taken or file in useless],
            live=[*(file for file in fresh if file not in taken), *_put_back(runtime, closed, taken)],
            until=until,
            filled_from=closed.earliest,
        )

    def still_open(self, _: Runtime, __: int | None) -> str:
        """A closed pane may be the last one of its key."""
        return "true"


def _rows_of(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)


def _merged(runtime: Runtime, closed: Closed) -> DataFrame:
    """One row per (window, key) that closes, and, marked as `KEPT`, those of the same keys that closed before."""
    bounds = {"pane_start": "window_start", "pane_end": "window_end"}
    closing = f"pane_end > {closed.emitted}L AND pane_end <= {closed.until}L"
    panes = state_frame(runtime, closed.due).filter(closing).selectExpr("*", f"false AS {KEPT}")
    if closed.kept:
        kept = state_frame(runtime, closed.kept).filter(f"pane_end <= {closed.emitted}L")
        if _looks_up(runtime, closed):
            kept = matching(runtime, kept, panes, runtime.plan.layout.key_columns)
        panes = panes.unionByName(kept.selectExpr("*", f"true AS {KEPT}"))
    keys = [*bounds.values(), KEPT, *runtime.plan.layout.key_columns]
    return runtime.aggregated(panes.withColumnsRenamed(bounds), keys, merge_expressions(runtime.plan))


def _looks_up(runtime: Runtime, closed: Closed) -> bool:
    return bool(runtime.plan.layout.key_columns) and _rows_of(closed.kept) > FEW_KEPT


def _put_back(runtime: Runtime, closed: Closed, taken: Sequence[DataFile]) -> list[DataFile]:
    """Of the panes in these files, the last one of each key. They share one bucket, whenever they ended."""
    if not taken:
        return []
    plan, until = runtime.plan, closed.until
    panes = state_frame(runtime, taken).selectExpr("*", "true AS _taken")
    if closed.cut:
        others = state_frame(runtime, closed.cut).filter(f"pane_end <= {until}L")
        panes = panes.unionByName(others.selectExpr("*", "false AS _taken"))
    keys = plan.layout.key_columns
    by_key = f"PARTITION BY {', '.join(keys)}" if keys else ""
    latest = panes.selectExpr("*", f"max(pane_end) OVER ({by_key}) AS _last").filter("_taken AND pane_end = _last")
    wanted = latest.filter(f"pane_end >= {_oldest_gap(plan.query, until)}L")
    merged = runtime.aggregated(wanted, ["pane_end", "pane_start", *keys], merge_expressions(plan))
    folder = f"{BUCKET}={plan.layout.bucket_of(until)}"
    return write_frame(runtime, f.PARTIALS, merged, rows=_rows_of(taken), folder=folder)


def _oldest_gap(query: Query, until: int) -> int:
    """Where a gap may begin, at the earliest, that is short enough when the next window closes."""
    return BEGINNING if query.max_gap is None else fixed_window(query).pane(until).start - query.max_gap


def _most_windows(query: Query, span: int) -> int:
    """How many windows one pane can stand for, about, with those in front of it: only decides who writes the file."""
    size = query.window.size if isinstance(query.window, Tumble) else DAY
    return 1 + (span if query.max_gap is None else min(span, query.max_gap)) // size
