"""Rows of the side output that a correction takes in, those that it must leave out, and the mark on the former.

DuckDB, no Spark. A window that is computed anew has all rows of the source but those that were set aside and stay so;
of a view that is read it has whatever that view's table has.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.column_names import HIGH, LOW
from laminar_dagster.engine.epoch_kinds import BACKFILL, CHECK, FOLD
from laminar_dagster.engine.in_process_sql import connection, json_value, parquet, text
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Query
from laminar_dagster.semantics.ranges import EVER, joined, lies_inside, reach
from laminar_dagster.semantics.windows import FixedWindow, Session, Window
from state_store import CommitRow, DataFile, PlanRow
from state_store import format as f
from state_store.parquet import describe

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LATE = "kind = 'late' AND folded_epoch IS NULL"
NEVER = "false"
COPIES = "_excluded"
CHANGING = re.compile(r"\b(now|random|today|uuid|current_\w+|get_current_\w+|localtime\w*)\b", re.IGNORECASE)
NO_PLACES = pa.table({"file": pa.array([], pa.string()), "row": pa.array([], pa.int64())})


@dataclass(frozen=True)
class Chosen:
    """Late rows that somebody chose: a condition, how many there are, and what holds exactly their windows."""

    condition: str = NEVER
    rows: int = 0
    ranges: tuple[Window, ...] = ()


@dataclass(frozen=True)
class Taken:
    """Late rows that a correction takes in. `counts`: the condition for those that count in what is computed anew.

    `marks`: where those lie (files of the side output, rows) that are in all of their windows then.
    `leaves_late`: whether other late rows must not count in what is computed.
    """

    counts: str = NEVER
    marks: pa.Table = field(default_factory=lambda: NO_PLACES)
    leaves_late: bool = False

    @property
    def rows(self) -> int:
        return int(self.marks.num_rows)


def chosen_by(runtime: Runtime, planned: PlanRow, where: str | None) -> Chosen:
    """Late rows that were not folded yet and fit the condition."""
    if where is not None and (found := CHANGING.search(where)):
        raise _unusable(f'"{found[0]}" may mean another time when a fold-back that was cut short is finished.')
    condition = LATE if where is None else _all_of(LATE, where)
    with side_output(runtime, planned) as db:
        if where is not None:
            _require_one_condition(db, where)
        times = _times(db, condition)
    return Chosen(condition, sum(times.values()), _panes(runtime.plan.query, times))


def _require_one_condition(db: DuckDBPyConnection, where: str) -> None:
    """By itself, without parentheses around it, it must be one: what closes ours would choose other rows, too."""
    try:
        statements = len(db.extract_statements(f"SELECT 1 FROM side t WHERE {where}"))
    except duckdb.Error as problem:
        raise _unusable(str(problem)) from problem
    if statements != 1:
        raise _unusable("It is more than one condition.")


def taken_in(runtime: Runtime, planned: PlanRow, ranges: Sequence[Window], chosen: Chosen) -> Taken:
    """What windows of the ranges take in: of a backfill all that is late in them, else what was chosen.

    Rows of a view that is read always count: a window over it has what its table has.
    """
    query, kind = runtime.plan.query, planned.epoch_kind
    leaves = kind in (FOLD, CHECK) or query.gap_fill is not None
    sources = "true" if kind == BACKFILL else _of_views(query)
    if query.window is None:
        return Taken()
    with side_output(runtime, planned) as db:
        if isinstance(query.window, Session):
            return Taken(_any_of(chosen.condition, sources), _places(db, chosen.condition), leaves)
        within = _all_of(LATE, sources, _between(reach(query.window, ranges)))
        inside = [t for t in _times(db, within) if lies_inside(query.window, t, ranges)]
        whole = _all_of(within, _between(_panes(query, inside)))
        marks = _places(db, _any_of(chosen.condition, whole))
    return Taken(_any_of(chosen.condition, within, _half_in(runtime, query.window)), marks, leaves)


def _half_in(runtime: Runtime, window: FixedWindow) -> str:
    """Rows that count in some of their windows since a backfill: they count in whatever is computed anew."""
    return _any_of(
        *(
            _all_of(LATE, f"_epoch < {commit.epoch}", _between(reach(window, corrected_ranges(commit))))
            for commit in runtime.store.log.commits()
            if commit.epoch_kind == BACKFILL
        )
    )


def corrected_ranges(commit: CommitRow) -> list[Window]:
    """Where windows were computed anew: all that overlap this."""
    told = commit.corrected
    return [Window(*bounds) for bounds in [*told.get("ranges", ()), *told.get("sessions", ())]]


def taken_by_sessions(runtime: Runtime, planned: PlanRow, taken: Taken, sessions: pa.Table) -> Taken:
    """Also marked: rows that count and lie in a session that is computed anew.

    `sessions` has their bounds, LOW and HIGH, and their keys under the names that the side output has.
    """
    keys = [name for name in sessions.column_names if name not in (LOW, HIGH)]
    numbered = {name: key_column(i) for i, name in enumerate(keys)}
    with side_output(runtime, planned) as db:
        db.register("sessions", sessions.select([LOW, HIGH, *keys]).rename_columns(["low", "high", *numbered.values()]))
        types = dict(db.sql("SELECT column_name, column_type FROM (DESCRIBE sessions)").fetchall())
        tests = ["epoch_us(t.event_time) BETWEEN s.low AND s.high - 1"]
        tests += [f"{_key_sql(name, types[key])} IS NOT DISTINCT FROM s.{key}" for name, key in numbered.items()]
        inside = f"EXISTS (SELECT 1 FROM sessions s WHERE {' AND '.join(tests)})"
        found = _places(db, _all_of(LATE, taken.counts, inside))
    both = pa.concat_tables([taken.marks, found]).group_by(["file", "row"]).aggregate([])
    return replace(taken, marks=both)


def _key_sql(name: str, type_: str) -> str:
    return f"TRY_CAST({json_value('t.group_key', name)} AS {type_})"


def _of_views(query: Query) -> str:
    views = [entry.source.name for entry in query.inputs if entry.source.connector == VIEW_CONNECTOR]
    return f"source IN ({', '.join(map(text, views))})" if views else NEVER


def _panes(query: Query, times: Iterable[int]) -> tuple[Window, ...]:
    """What holds exactly the windows of these moments."""
    window = query.window
    if window is None or isinstance(window, Session):
        return joined(Window(t, t + 1) for t in times)
    return joined({window.pane(t) for t in times})


# --- rows that stay aside --------------------------------------------------------------------------------------


def left_out(runtime: Runtime, planned: PlanRow, taken: Taken, needed: Sequence[Window], target: Path) -> Path | None:
    """Rows that were set aside and stay so, as a file: where from, text, how often. None: there are none."""
    with side_output(runtime, planned) as db:
        rows = db.sql(
            f"""SELECT source AS _source, source_file AS {FILE}, original_event AS _original, count(*) AS {COPIES}
                FROM side t WHERE {_apart(runtime, taken, needed)} AND original_event IS NOT NULL GROUP BY ALL"""
        ).to_arrow_table()
    if not rows.num_rows:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return target


def require_known(runtime: Runtime, planned: PlanRow, taken: Taken, needed: Sequence[Window]) -> None:
    """Which rows stay out is told by their content: it must have been kept, of every one of them."""
    of_rows = "(kind <> 'error' OR reason = 'future_timestamp')"
    kinds = ("evicted", "duplicate", *(["late"] if taken.leaves_late else []))
    with side_output(runtime, planned) as db:
        unknown = _count(db, _all_of(_apart(runtime, taken, needed), of_rows, "original_event IS NULL"))
        unknown += _not_kept(runtime, db, *kinds)
    if unknown:
        raise _without_text(runtime, unknown)


def require_late_kept(runtime: Runtime, planned: PlanRow) -> None:
    """Where there is no late row to choose, is that because none was kept?"""
    with side_output(runtime, planned) as db:
        unknown = _not_kept(runtime, db, "late")
    if unknown:
        raise _without_text(runtime, unknown)


def _not_kept(runtime: Runtime, db: DuckDBPyConnection, *kinds: str) -> int:
    """How many rows were set aside, of some kinds, and only counted."""
    counted = [commit.counts for commit in runtime.store.log.commits()]
    set_aside = {kind: sum(counts.get(kind, 0) for counts in counted) for kind in kinds}
    return sum(max(rows - _count(db, f"kind = '{kind}'"), 0) for kind, rows in set_aside.items())


def _apart(runtime: Runtime, taken: Taken, needed: Sequence[Window]) -> str:
    return _all_of(
        "folded_epoch IS NULL",
        f"NOT coalesce({taken.counts}, false)",
        f"NOT coalesce({_of_views(runtime.plan.query)}, false)",
        f"(event_time IS NULL OR {_between(needed)})",
    )


# --- the mark --------------------------------------------------------------------------------------------------


def marked(runtime: Runtime, planned: PlanRow, taken: Taken) -> tuple[list[DataFile], list[DataFile]]:
    """The files that hold rows now folded, written anew with the epoch that folded them; and those they replace."""
    if not taken.rows:
        return [], []
    table = runtime.store.table(f.SIDE_OUTPUT)
    files = table.files_at(planned.tables[f.SIDE_OUTPUT])
    paths = dict(zip(table.absolute(files), files, strict=True))
    folder = table.root / f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    touched = sorted(set(taken.marks.column("file").to_pylist()))
    written = []
    for number, path in enumerate(touched):
        rows = taken.marks.filter(pc.equal(taken.marks.column("file"), path)).column("row")
        target = folder / f"part-{number}.parquet"
        pq.write_table(_with_mark(Path(path), rows, runtime.epoch), target)
        written.append(describe(table.root, target))
    runtime.store.after_write(f"{f.SIDE_OUTPUT} files")
    return written, [paths[path] for path in touched]


def _with_mark(path: Path, rows: pa.ChunkedArray, epoch: int) -> pa.Table:
    table = pq.ParquetFile(path).read()
    is_folded = pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=rows.combine_chunks())
    position = table.column_names.index("folded_epoch")
    marked = pc.if_else(is_folded, pa.scalar(epoch, pa.int64()), table.column("folded_epoch"))
    return table.set_column(position, f.SIDE_OUTPUT_SCHEMA.field("folded_epoch"), marked).cast(f.SIDE_OUTPUT_SCHEMA)


# --- SQL -------------------------------------------------------------------------------------------------------


@contextmanager
def side_output(runtime: Runtime, planned: PlanRow) -> Iterator[DuckDBPyConnection]:
    """The side output as the correction found it, as `side`, with each row's place."""
    table = runtime.store.table(f.SIDE_OUTPUT)
    paths = table.absolute(table.files_at(planned.tables.get(f.SIDE_OUTPUT)))
    with connection() as db:
        if paths:
            places = parquet(paths, "filename = true", "file_row_number = true")
            db.execute(f"CREATE TEMP VIEW side AS SELECT * FROM {places}")
        else:
            db.register("nothing", f.SIDE_OUTPUT_SCHEMA.empty_table())
            db.execute("CREATE TEMP VIEW side AS SELECT *, '' AS filename, 0::BIGINT AS file_row_number FROM nothing")
        try:
            yield db
        finally:
            db.execute("DROP VIEW side")


def _times(db: DuckDBPyConnection, condition: str) -> dict[int, int]:
    """The event times of rows, and how many have them."""
    return dict(_asked(db, f"SELECT epoch_us(event_time), count(*) FROM side t WHERE {condition} GROUP BY ALL"))


def _places(db: DuckDBPyConnection, condition: str) -> pa.Table:
    found = db.sql(f"SELECT filename AS file, file_row_number AS row FROM side t WHERE {condition}").to_arrow_table()
    return found.cast(NO_PLACES.schema)


def _count(db: DuckDBPyConnection, condition: str) -> int:
    return int(_asked(db, f"SELECT count(*) FROM side t WHERE {condition}")[0][0])


def _between(ranges: Iterable[Window]) -> str:
    ranges = list(ranges)
    if EVER in ranges:
        return "true"
    return _any_of(*(f"epoch_us(event_time) BETWEEN {r.start} AND {r.end - 1}" for r in ranges))


def _all_of(*conditions: str) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)


def _any_of(*conditions: str) -> str:
    said = [condition for condition in conditions if condition != NEVER]
    return "(" + " OR ".join(f"({condition})" for condition in said) + ")" if said else NEVER


def _asked(db: DuckDBPyConnection, sql: str) -> list[Any]:
    try:
        return db.sql(sql).fetchall()
    except duckdb.Error as problem:
        raise _unusable(str(problem)) from problem


def _unusable(detail: str) -> LaminarError:
    return LaminarError(
        "LMR0721",
        "the condition on the side output cannot be used",
        detail=detail,
        hint="It is SQL over the columns of the side output: docs/reference/side-output.md.",
        committed="Nothing was changed.",
    )


def _without_text(runtime: Runtime, rows: int) -> LaminarError:
    return LaminarError(
        "LMR0722",
        f'of {rows} row(s) that view "{runtime.plan.query.view}" has set aside the content is not kept',
        detail="Windows are computed anew from the source, without the rows that stay aside: which are these?",
        hint="Keep them from now on: side_output.<kind> = 'table' with include_original. "
        "Late rows of a stretch of time are taken in without that by `laminar backfill`.",
        committed="Nothing was changed.",
    )
