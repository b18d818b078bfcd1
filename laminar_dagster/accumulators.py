"""Window accumulators as a small Python API: update them with batches, close windows at a watermark of your choice.

The same engine and the same state as a view that Dagster runs; only the rows and the watermark come from the caller.

    with WindowAccumulators(SQL, "state") as windows:
        windows.update([{"k": "a", "v": 1, "ts": datetime(2026, 1, 1, 12, tzinfo=UTC)}])
        windows.open_window_count()                                      # 1
        windows.close(datetime(2026, 1, 1, 12, 1, tzinfo=UTC))           # an Arrow table, one row per group
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.open_windows import OpenWindow, open_sessions, open_windows
from laminar_dagster.engine.run import RunOptions, ViewRun, open_view
from laminar_dagster.engine.runtime import Told
from laminar_dagster.engine.session import SparkSettings, open_session
from laminar_dagster.engine.sources.batches import Batch, typed_batch
from laminar_dagster.engine.sources.memory import MemoryConnector, arrow_type
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import from_datetime, to_datetime
from laminar_dagster.semantics.windows import Session
from laminar_dagster.sql.local_paths import require_local
from state_store import CommitRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WindowAccumulators:
    """The open windows of one query. What it holds is on disk: a second process goes on where the first one left."""

    def __init__(self, sql: str, directory: str | Path, spark: SparkSession | None = None) -> None:
        """`sql` is one source with `connector = 'memory'` and one view over it that emits when windows close."""
        self._plan = _planned(sql)
        self._source = self._plan.query.inputs[0].source
        require_local("the directory", directory)
        self._directory = Path(directory)
        self._spark = spark
        self._stack = ExitStack()
        self._run: ViewRun | None = None

    def __enter__(self) -> WindowAccumulators:
        spark = self._spark or open_session(SparkSettings.from_environment())
        self._directory.mkdir(parents=True, exist_ok=True)
        places = {"project": self._directory, "data": self._directory}
        self._run = self._stack.enter_context(open_view(self._plan, spark, **places, options=RunOptions()))
        self._catch_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run = None
        self._stack.close()

    def update(self, batch: Batch) -> int:
        """Fold a batch into the accumulators; gives how many rows entered a window.

        A batch is an Arrow table, or any iterable of dicts. Late and failing rows go to the side output. LMR0801 where
        a column is missing, unknown or of another type, or a time has no zone: then nothing of the batch is taken.
        """
        table = typed_batch(batch, self._source)
        if not table.num_rows:
            return 0
        connector = self._connector
        position = self._running.runtime.positions.get(self._source.name)
        connector.append_table(table, order=0, position=position)
        return sum(commit.counts.get("aggregated", 0) for commit in self._catch_up())

    def close(self, watermark: datetime | int) -> pa.Table:
        """Close every window that ends at the watermark or before (allowed lateness added); gives their rows.

        The watermark is a time with a zone, or microseconds since 1970 UTC (else LMR0804). It never
        moves back.
        """
        commit = self._running.step(Told(_moment(watermark)))
        return self._emitted(commit)

    def open_window_count(self) -> int:
        """How many windows hold rows and are not closed; of sessions, how many there are over all keys."""
        runtime = self._running.runtime
        if not isinstance(self._plan.query.window, Session):
            return len(runtime.timers)
        table = runtime.store.table(f.PARTIALS)
        return open_sessions(self._plan, table.absolute(table.files()))

    def open_windows(self) -> list[OpenWindow]:
        """The open windows, soonest to close first: bounds, rows, and when the last of these came."""
        run = self._running
        return [] if run.last is None else open_windows(self._plan, run.runtime.store.reader(), run.last)

    @property
    def _running(self) -> ViewRun:
        if self._run is None:
            raise LaminarError("LMR0802", "the accumulators are not open", hint="Use them inside of `with`.")
        return self._run

    @property
    def _connector(self) -> MemoryConnector:
        connector = self._running.runtime.connectors[self._source.name]
        assert isinstance(connector, MemoryConnector)
        return connector

    def _catch_up(self) -> list[CommitRow]:
        """Take what was handed in, also what an earlier process did not finish; the watermark stays."""
        run, done = self._running, []
        while (commit := run.step(Told(None))) is not None:
            done.append(commit)
        self._connector.forget(run.runtime.positions.get(self._source.name))
        return done

    def _emitted(self, commit: CommitRow | None) -> pa.Table:
        schema = pa.schema([(named.name, arrow_type(named.type)) for named in self._plan.query.output])
        if commit is None:
            return schema.empty_table()
        table = self._running.runtime.store.table(f.OUTPUT)
        mine = [file for file in table.files_at(commit.tables[f.OUTPUT]) if file.path.startswith(_prefix(commit))]
        parts = [pq.ParquetFile(table.root / file.path).read(columns=schema.names) for file in mine]
        return pa.concat_tables([schema.empty_table(), *parts], promote_options="permissive")


def _prefix(commit: CommitRow) -> str:
    return f"e{commit.epoch:010d}"


def _planned(sql: str) -> Plan:
    plans = plan_script(sql)
    if len(plans) != 1 or len(plans[0].query.inputs) != 1:
        raise LaminarError(
            "LMR0803", "accumulators are for one view over one source", hint="Leave the other statements out."
        )
    plan = plans[0]
    if plan.query.window is None:
        raise LaminarError(
            "LMR0803",
            f'view "{plan.query.view}" has no window to close',
            where=plan.query.places.get("view"),
            hint="Group by a window, and EMIT ON WINDOW CLOSE.",
        )
    if not plan.query.waits_for_close:
        raise LaminarError(
            "LMR0803",
            f'view "{plan.query.view}" shows results before its windows close, and accumulators show them then',
            detail=f"EMIT {plan.query.emit.sql}",
            where=plan.query.places.get("emit") or plan.query.places.get("view"),
            hint="Write EMIT ON WINDOW CLOSE, or EMIT FINAL.",
        )
    source = plan.query.inputs[0].source
    if source.connector != "memory":
        raise LaminarError(
            "LMR0803",
            f"source \"{source.name}\" has connector '{source.connector}', and these rows come from update()",
            where=plan.query.places.get(f"source:{source.name}"),
            hint="Write connector = 'memory'.",
        )
    return plan


def _moment(watermark: object) -> int:
    """Microseconds since 1970 UTC; LMR0804 for what is no moment in time."""
    try:
        if isinstance(watermark, int) and not isinstance(watermark, bool):
            to_datetime(watermark)
            return watermark
        if isinstance(watermark, datetime):
            return from_datetime(watermark)
        problem = f"it is a {type(watermark).__name__}"
    except (ValueError, OverflowError) as error:
        problem = str(error)
    raise LaminarError(
        "LMR0804",
        f"{watermark!r} is not a watermark",
        detail=problem,
        hint="Give a datetime with a zone, such as datetime(…, tzinfo=UTC), or microseconds since 1970 UTC.",
        committed="No window was closed.",
    )
