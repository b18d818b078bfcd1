"""Recomputes a view from its retained sources, beside it, and compares the windows that are closed in both.

The recomputation is the view itself, from an empty state. Results do not depend on how rows were cut into epochs, so it
takes large ones; where they depend on the clock, or on an order that only the log knows, it does the epochs of the log
once more, each at its own time.
Windows that were corrected are computed from all rows that count in them since: late ones too, if they were taken in.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.column_names import OWN, PASSES
from laminar_dagster.engine.differences import FLOATS_DIFFER_BY
from laminar_dagster.engine.epoch_kinds import BACKFILL, FOLD
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.late_rows import corrected_ranges
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.engine.recomputing import shows_hidden
from laminar_dagster.engine.run import MAX_ROWS, RunOptions, ViewRun, open_view
from laminar_dagster.engine.runtime import TOLD
from laminar_dagster.engine.same_query import require_store_of
from laminar_dagster.engine.shown import END, START
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import PROCESSING_TIME, Query
from laminar_dagster.semantics.ranges import EVER, joined
from laminar_dagster.semantics.windows import Window
from state_store import CommitRow, PlanRow, StoreReader
from state_store import format as f

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

Log = Sequence[tuple[PlanRow, CommitRow]]
LISTED = 20
SHOWN, EXPECTED = "shown", "expected"
_CORRECTED = quoted(OWN + "corrected")
# The table that a subquery looks back at, beside columns that may be STRUCTs of any name.
_MINE = quoted(OWN + "mine")


@dataclass(frozen=True)
class Range:
    """Windows that start in [since, to): by default all, also one that begins before the least event time."""

    since: int = -(1 << 63)
    to: int = (1 << 63) - 1


@dataclass(frozen=True)
class Difference:
    """Rows that only one of two tables has: how many, and the first of them."""

    count: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Verified:
    """`missing` are rows that the view should have, `unexpected` those that it should not.

    `corrected` is how many of the windows a correction had computed anew before; `gone` how many commits the sources no
    longer hold, where epochs of the log were done once more.
    """

    rows: int
    windows: int
    until: int
    missing: Difference
    unexpected: Difference
    corrected: int = 0
    gone: int = 0

    @property
    def is_right(self) -> bool:
        return self.missing.count == self.unexpected.count == 0


def verify(plan: Plan, spark: SparkSession, *, project: Path, data: Path, range_: Range) -> Verified | None:
    """Compare a view with what its sources say; None if nothing is closed in both."""
    require_window(plan.query)
    reader = StoreReader(data / plan.query.view)
    require_store_of(plan, reader)
    commit = reader.commit() if reader.exists else None
    if commit is None:
        return None
    log = [(planned, done) for planned, done in reader.log.history() if done.epoch <= commit.epoch]
    with (
        recomputed(plan, spark, log, project=project, data=data) as (again, gone),
        corrected(plan, spark, commit, project=project, data=data) as correction,
    ):
        last = again.commit() if again.exists else None
        watermarks = [commit.watermark, last.watermark if last else None]
        known = [watermark for watermark in watermarks if watermark is not None]
        if len(known) < len(watermarks):
            return None
        until = min(known) - plan.query.lateness
        found = compared(plan.query, reader, Expected(again, correction), until, range_)
        return None if found is None else replace(found, gone=gone)


@contextmanager
def recomputed(
    plan: Plan, spark: SparkSession, log: Log, *, project: Path, data: Path
) -> Iterator[tuple[StoreReader, int]]:
    """The view's store, made anew in a directory that goes away, and how many commits are gone from the sources.

    Nothing is delivered to sinks.
    """
    options = RunOptions(now=lambda: log[-1][1].processing_time)
    with tempfile.TemporaryDirectory(prefix=".verify-", dir=data) as place:
        scratch = Path(place)
        for upstream in {entry.source.options.get("view") for entry in plan.query.inputs} - {None}:
            (scratch / str(upstream)).symlink_to((data / str(upstream)).absolute())
        with open_view(plan, spark, project=project, data=scratch, options=options) as view:
            view.require_as_taken(log)
            if goes_by_the_clock(plan.query, log):
                gone = _replay(view, log)
            else:
                gone = _replay(view, _joined(log)) if _has_directories(plan.query) else _run_through(view)
        yield StoreReader(scratch / plan.query.view), gone


def goes_by_the_clock(query: Query, log: Log) -> bool:
    """Whether what came when matters: to idle sources, to the order between shards, to times that rows were given."""
    sources = [entry.source for entry in query.inputs]
    shards = len({source.name for source in sources}) > 1 or any(source.connector == "kafka" for source in sources)
    idle = any(source.idle_timeout is not None for source in sources)
    timed = query.null_event_time == FALLBACK or any(e.event_time == PROCESSING_TIME for e in query.inputs)
    guarded = any(bounds is not None and bounds[-1] for _, done in log for bounds in done.taken)
    return shards or idle or timed or guarded


def _has_directories(query: Query) -> bool:
    """Of a directory only the log knows in which order its files were taken, and which of them."""
    return any(entry.source.connector == "files" for entry in query.inputs)


def _joined(log: Log) -> Log:
    """Epochs made large: where only the order counts, the cut does not."""
    joined: list[tuple[PlanRow, CommitRow]] = []
    room = 0
    for planned, done in log:
        if planned.epoch_kind in (BACKFILL, FOLD):
            continue
        rows = done.counts["rows_in"]
        if joined and rows <= room and TOLD not in planned.sources:
            commits = [*joined[-1][0].sources["commits"], *planned.sources["commits"]]
            joined[-1] = (replace(planned, sources={**planned.sources, "commits": commits}), done)
            room -= rows
        else:
            joined.append((planned, done))
            room = 0 if TOLD in planned.sources else MAX_ROWS - rows
    return joined


def _run_through(view: ViewRun) -> int:
    while view.step() is not None:
        pass
    return 0


def _replay(view: ViewRun, log: Log) -> int:
    """Do the epochs once more; gives how many commits of the sources are gone."""
    return sum(view.again(planned) for planned, _ in log if planned.epoch_kind not in (BACKFILL, FOLD))


@dataclass(frozen=True)
class Correction:
    """Windows that overlap the ranges, computed anew from the rows that count in them: files, as a table."""

    ranges: tuple[Window, ...]
    rows: str | None

    @property
    def touched(self) -> str:
        tests = (f"({START} < {r.end} AND {END} > {r.start})" for r in self.ranges)
        return f"({' OR '.join(tests)})"


@dataclass(frozen=True)
class Expected:
    """What the view should show: the recomputation, and corrected windows in the place of what it has of them."""

    again: StoreReader
    correction: Correction | None = None

    def parts(self) -> Iterator[str]:
        """Tables, each with a condition, and whether it is of corrected windows as a column."""
        table = _output(self.again)
        if self.correction is None:
            yield from ([] if table is None else [f"false AS {_CORRECTED} FROM {table} WHERE true"])
            return
        if table is not None:
            yield f"false AS {_CORRECTED} FROM {table} WHERE NOT {self.correction.touched}"
        if self.correction.rows is not None:
            yield f"true AS {_CORRECTED} FROM {self.correction.rows} WHERE {self.correction.touched}"


@contextmanager
def corrected(
    plan: Plan, spark: SparkSession, commit: CommitRow, *, project: Path, data: Path
) -> Iterator[Correction | None]:
    """What was ever corrected of the view, computed anew; None if nothing was."""
    query = plan.query
    log = StoreReader(data / query.view).log
    ranges = joined(r for epoch in log.commits(upto=commit.epoch) for r in corrected_ranges(epoch))
    if not ranges:
        yield None
        return
    if query.gap_fill is not None:
        ranges = (EVER,)
    options = RunOptions(now=lambda: commit.processing_time, lock=False)
    with (
        open_view(plan, spark, project=project, data=data, options=options) as view,
        view.computed_anew(ranges) as result,
    ):
        files = [] if result is None else result.anew.files(f.OUTPUT)
        table = parquet(files) if files else None
        if table is not None and shows_hidden(query):
            table = f"(SELECT * FROM {table} WHERE {quoted(PASSES)})"
        yield Correction(ranges, table)


def require_window(query: Query) -> None:
    if query.window is None:
        raise LaminarError(
            "LMR0714",
            f'view "{query.view}" has no window, and windows are what is compared',
            hint="Compare it with a batch query of your own.",
        )


def compared(query: Query, reader: StoreReader, expected: Expected, until: int, range_: Range) -> Verified | None:
    shown = _output(reader)
    mine = [] if shown is None else [f"false AS {_CORRECTED} FROM {shown} WHERE true"]
    tables = {SHOWN: mine, EXPECTED: list(expected.parts())}
    like = next((part for parts in tables.values() for part in parts), None)
    if like is None:
        return None
    wanted = f"{END} <= {until} AND {START} >= {range_.since} AND {START} < {range_.to}"
    with connection() as db:
        for name, parts in tables.items():
            columns = f"SELECT {_columns(query)}, {START}, {END},"
            rows = [f"{columns} {part} AND {wanted}" for part in parts] or [f"{columns} {like} AND false"]
            db.execute(f"CREATE TEMP TABLE {name} AS {' UNION ALL '.join(rows)}")
        windows = f"count(DISTINCT {START}), count(DISTINCT {START}) FILTER ({_CORRECTED})"
        counts = db.sql(f"SELECT count(*), {windows} FROM {EXPECTED}").fetchone()
        missing, unexpected = _only_in(db, query, EXPECTED, SHOWN), _only_in(db, query, SHOWN, EXPECTED)
    rows_, windows_, corrected_ = counts or (0, 0, 0)
    return Verified(rows_, windows_, until, missing, unexpected, corrected_)


def _columns(query: Query) -> str:
    return ", ".join(quoted(named.name) for named in query.output)


def _output(reader: StoreReader) -> str | None:
    files = reader.files(f.OUTPUT)
    return parquet(reader.table(f.OUTPUT).absolute(files)) if files else None


def _only_in(db: DuckDBPyConnection, query: Query, one: str, other: str) -> Difference:
    """Rows of a table that the other has not, or not as often; sums of floats may differ in their last digits."""
    columns = _columns(query)
    mine, others = (
        f"(SELECT {columns} FROM {a} EXCEPT ALL SELECT {columns} FROM {b})" for a, b in ((one, other), (other, one))
    )
    near = " AND ".join(_near(quoted(named.name), named.type.is_float) for named in query.output)
    has_floats = any(named.type.is_float for named in query.output)
    where = f"WHERE NOT EXISTS (SELECT 1 FROM {others} b WHERE {near})" if has_floats else ""
    found = db.sql(f"SELECT * FROM {mine} {_MINE} {where} ORDER BY ALL").to_arrow_table()
    return Difference(found.num_rows, python_rows(found.slice(0, LISTED)))


def _near(column: str, is_float: bool) -> str:
    one, other = f"{_MINE}.{column}", f"b.{column}"
    same = f"{one} IS NOT DISTINCT FROM {other}"
    near = f"abs({one} - {other}) <= {FLOATS_DIFFER_BY} * greatest(abs({one}), abs({other}))"
    return f"({same} OR {near})" if is_float else same
