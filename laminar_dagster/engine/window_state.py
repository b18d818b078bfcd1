"""What the engine asks of the state of a kind of window: how rows enter it, and what a watermark takes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from laminar_dagster.engine.batch import Batch
from laminar_dagster.engine.closing import Closing
from laminar_dagster.engine.filled_windows import FilledWindows
from laminar_dagster.engine.fixed_windows import FixedWindows
from laminar_dagster.engine.groups import Groups
from laminar_dagster.engine.revising import Change, Revised
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session_windows import SessionWindows
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Session
from state_store import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WindowState(Protocol):
    def partials(self, runtime: Runtime, kept: DataFrame) -> DataFrame:
        """The rows folded into accumulators: `pane_start`, `pane_end`, the keys, the partials."""
        ...

    def close(
        self, runtime: Runtime, fresh: Sequence[DataFile], pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing:
        """What the watermark closes, given the state as it was and the files that this epoch wrote."""
        ...

    def fold_and_close(
        self, runtime: Runtime, batch: Batch, kept: DataFrame, pinned: Sequence[DataFile], watermark: int | None
    ) -> Closing | None:
        """Both in one pass, where the state can; None: `partials` first, then `close`."""
        ...

    def revise(self, runtime: Runtime, change: Change) -> Revised:
        """What may have changed of the results, for a strategy that shows them before they are final."""
        ...

    def still_open(self, runtime: Runtime, closed: int | None) -> str:
        """The condition on panes that a compaction keeps."""
        ...


def state_of(query: Query) -> WindowState:
    if query.window is None:
        return Groups()
    if isinstance(query.window, Session):
        return SessionWindows()
    return FixedWindows() if query.gap_fill is None else FilledWindows()
