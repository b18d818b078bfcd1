"""Which partitions of a view a stretch of epochs touched, and with how many rows. DuckDB over the files, no Spark.

The output is partitioned on disk; the changelog and the side output are not, and their rows are told apart by the
window that they are about, so that all three have the same partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laminar_dagster.engine.closing import PARTITION
from laminar_dagster.engine.column_names import PATH
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted, text
from laminar_dagster.engine.shown import END, START
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import WINDOW_START, Query
from laminar_dagster.semantics.time import MINUTE, REACH
from laminar_dagster.semantics.windows import Calendar, Cumulate, Hop, Session, Tumble, floor_to
from state_store import CommitRow, DataFile, StoreReader
from state_store import format as f
from state_store.changelog import AFTER_ALL, EPOCH, EVENT_TIME, OP, files_between

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The one partition of a view without windows.
WHOLE = ""
# Every time zone's days begin at a multiple of this.
QUARTER = 15 * MINUTE


@dataclass
class Landed:
    """What a partition got: how many rows of each kind, and of how many windows."""

    rows: Counter[str] = field(default_factory=Counter)
    windows: set[tuple[int, int]] = field(default_factory=set)


Landings = Mapping[str, Landed]


@dataclass(frozen=True)
class Touched:
    """By partition: rows that the output got, changes by operation, rows set aside by kind."""

    output: Landings
    changelog: Landings
    side_output: Landings

    @property
    def shown(self) -> set[str]:
        """Where the view's table changed: partitions that got rows, and those that only lost some."""
        return {*self.output, *self.changelog}


def touched(query: Query, reader: StoreReader, after: int, commit: CommitRow) -> Touched:
    """What the epochs after `after`, up to a commit, did to the partitions, as the commit left the tables."""
    stretch = Stretch(query, reader, after, commit)
    with connection() as db:
        return Touched(stretch.output(db), stretch.changelog(db), stretch.side_output(db))


def rows_by_partition(reader: StoreReader, commit: CommitRow) -> dict[str, int]:
    """How many rows each partition of the output has, out of the table's log."""
    counts: Counter[str] = Counter()
    for file in reader.files(f.OUTPUT, commit):
        counts[_partition(file)] += file.rows
    return dict(counts)


@dataclass(frozen=True)
class Stretch:
    query: Query
    reader: StoreReader
    after: int
    commit: CommitRow

    @property
    def _mine(self) -> str:
        return f"{EPOCH} > {self.after} AND {EPOCH} <= {self.commit.epoch}"

    def output(self, db: DuckDBPyConnection) -> Landings:
        files = self._files(f.OUTPUT)
        partitions = {str(self.reader.table(f.OUTPUT).root / file.path): _partition(file) for file in files}
        if not files:
            return {}
        bounds = f"{START}, {END}" if self.query.window is not None else "0, 0"
        table = parquet(list(partitions), f"filename = {text(PATH)}")
        rows = db.sql(
            f"SELECT {quoted(PATH)}, {bounds}, count(*) FROM {table} WHERE {self._mine} GROUP BY ALL"
        ).fetchall()
        return _gathered((partitions[path], "rows", (start, end), count) for path, start, end, count in rows)

    def changelog(self, db: DuckDBPyConnection) -> Landings:
        version = self.commit.tables.get(f.CHANGELOG)
        table = self.reader.table(f.CHANGELOG).at(version)
        files = [] if version is None else files_between(table, (self.after, AFTER_ALL), self.commit.epoch)
        if not files:
            return {}
        start, end = self._change_sql()
        source = parquet(table.absolute(files))
        rows = db.sql(f"SELECT {OP}, {start}, {end}, count(*) FROM {source} WHERE {self._mine} GROUP BY ALL").fetchall()
        begins = _start_of_end(self.query)
        return _gathered(
            (self._name(begins(end) if start is None else start), op, (start or 0, end), count)
            for op, start, end, count in rows
        )

    def side_output(self, db: DuckDBPyConnection) -> Landings:
        files = self._files(f.SIDE_OUTPUT)
        if not files:
            return {}
        timed = f"CASE WHEN epoch_us(event_time) BETWEEN {-REACH} AND {REACH - 1} THEN event_time END"
        moment = _quarter(f"coalesce(window_start, {timed}, processing_time)")
        source = parquet(self.reader.table(f.SIDE_OUTPUT).absolute(files))
        rows = db.sql(f"SELECT kind, {moment}, count(*) FROM {source} WHERE {self._mine} GROUP BY ALL").fetchall()
        return _gathered((self._name(start), kind, (start, start), count) for kind, start, count in rows)

    def _change_sql(self) -> tuple[str, str]:
        """Where a change says the start of its window, if it does, and the end."""
        if self.query.window is None:
            return "NULL", "0"
        if not isinstance(self.query.window, Session):
            return "NULL", f"epoch_us({EVENT_TIME})"
        columns = {n.expression.name: n.name for n in self.query.output if isinstance(n.expression, Column)}
        start = columns.get(WINDOW_START)
        return "NULL" if start is None else _quarter(quoted(start)), _quarter(EVENT_TIME)

    def _name(self, moment: int) -> str:
        return WHOLE if self.query.window is None else self.query.partition.name_of(moment)

    def _files(self, name: str) -> Sequence[DataFile]:
        files = self.reader.files(name, self.commit)
        return [file for file in files if file.high.get(EPOCH, self.after + 1) > self.after]


def _start_of_end(query: Query) -> Callable[[int], int]:
    """Where a window begins that ends there. Of a session only that it lies before is known."""
    match query.window:
        case Tumble(size=size) | Hop(size=size):
            return lambda end: end - size
        case Cumulate(size=size):
            return lambda end: floor_to(end - 1, size, 0)
        case Calendar() as calendar:
            return lambda end: calendar.assign(end - 1)[0].start
        case _:
            return lambda end: end - 1


def _quarter(sql: str) -> str:
    """The time, down to a quarter of an hour; also before 1970."""
    return f"epoch_us({sql}) - (epoch_us({sql}) % {QUARTER} + {QUARTER}) % {QUARTER}"


def _partition(file: DataFile) -> str:
    return file.partition.get(PARTITION) or WHOLE


def _gathered(rows: Iterable[tuple[str, str, tuple[int, int], int]]) -> dict[str, Landed]:
    found: dict[str, Landed] = {}
    for partition, kind, window, count in rows:
        landed = found.setdefault(partition, Landed())
        landed.rows[kind] += count
        landed.windows.add(window)
    return dict(sorted(found.items()))
