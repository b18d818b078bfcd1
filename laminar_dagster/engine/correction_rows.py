"""What a correction changes in a view's table: windows computed anew, held against those that are shown. DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.differences import COPIES, PLACE, Difference, Scope, compared, multiset_difference
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.shown import END, START, ShownColumns, shown_columns
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.ranges import EVER
from laminar_dagster.semantics.windows import Session, Window

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NOTHING = pa.table({"_op": pa.array([], pa.string())})


@dataclass(frozen=True)
class Both:
    """Paths of Parquet files: the table as it is shown, the same computed anew, and what stays open of the latter."""

    shown: Sequence[str]
    anew: Sequence[str]
    still_open: Sequence[str] = ()


@dataclass(frozen=True)
class Corrected:
    """`takes_state`: whether sessions that are open are among what changes, so that the state must be taken too."""

    found: Difference
    takes_state: bool = False
    spans: Sequence[Window] = field(default_factory=tuple)


def corrections(query: Query, both: Both, ranges: Sequence[Window]) -> Corrected:
    """The rows of windows that overlap the ranges; sessions whole, with all that they come to touch."""
    any_file = next(iter([*both.anew, *both.shown]), None)
    if any_file is None:
        return Corrected(Difference(NOTHING, pa.table({}), []))
    like = pq.read_schema(any_file).remove_metadata()
    columns = shown_columns(query)
    with connection() as db:
        _load_ranges(db, ranges)
        _load(db, "shown_rows", columns, both.shown, any_file)
        _load(db, "anew_rows", columns, both.anew, any_file)
        if isinstance(query.window, Session):
            takes_state = _choose_sessions(db, query, columns, both.still_open)
        else:
            takes_state = False
            _choose_windows(db, columns)
        found = _difference(db, query, columns, both, like)
    return Corrected(found, takes_state)


def _load_ranges(db: DuckDBPyConnection, ranges: Sequence[Window]) -> None:
    rows = pa.table({"low": [r.start for r in ranges], "high": [r.end for r in ranges]})
    db.register("given_ranges", rows)
    db.execute("CREATE TEMP TABLE ranges AS SELECT * FROM given_ranges")


def _load(db: DuckDBPyConnection, name: str, columns: ShownColumns, files: Sequence[str], any_file: str) -> None:
    """All rows, each with its place."""
    wanted = ", ".join(quoted(column) for column in columns.all)
    rows = f"FROM {parquet(files or [any_file], *PLACE)}{'' if files else ' LIMIT 0'}"
    db.execute(f"CREATE TEMP TABLE {name} AS SELECT {wanted}, filename AS _file, file_row_number AS _row {rows}")


def _choose_windows(db: DuckDBPyConnection, columns: ShownColumns) -> None:
    for name in ("shown_rows", "anew_rows"):
        overlaps = f"EXISTS (SELECT 1 FROM ranges r WHERE t.{START} < r.high AND t.{END} > r.low)"
        where = overlaps if columns.has_window else "true"
        db.execute(f"CREATE TEMP TABLE chosen_{name} AS SELECT * FROM {name} t WHERE {where}")


# --- sessions ------------------------------------------------------------------------------------------------


def _choose_sessions(db: DuckDBPyConnection, query: Query, columns: ShownColumns, still_open: Sequence[str]) -> bool:
    """Sessions in the ranges, and those that share rows with a chosen one: a late row may have joined several."""
    _load_spans(db, query, columns, still_open)
    _choose(db, "EXISTS (SELECT 1 FROM ranges r WHERE s.low < r.high AND s.high > r.low)")
    shares = "c.key = s.key AND c.low <= s.high AND s.low <= c.high AND (c.side = 'shown') <> (s.side = 'shown')"
    while _choose(db, f"EXISTS (SELECT 1 FROM spans c WHERE c.chosen AND {shares})") or _choose_open(db):
        pass
    for side in ("shown", "anew"):
        db.execute(
            f"""CREATE TEMP TABLE chosen_{side}_rows AS SELECT t.* FROM {side}_rows t
                JOIN spans s ON s.side = '{side}' AND s.chosen AND s.file = t._file AND s.place = t._row"""
        )
    return _count(db, "side = 'open' AND chosen") > 0


def _load_spans(db: DuckDBPyConnection, query: Query, columns: ShownColumns, still_open: Sequence[str]) -> None:
    by_key = query.tells_results_apart and bool(columns.keys)
    keys = f"hash({', '.join(map(quoted, columns.keys))})" if by_key else "0::UBIGINT"
    parts = [
        f"SELECT '{side}' AS side, _file AS file, _row AS place, {START} AS low, {END} AS high, {keys} AS key "
        f"FROM {side}_rows"
        for side in ("shown", "anew")
    ]
    if still_open:
        names = ", ".join(key_column(i) for i in range(len(query.keys)))
        key = f"hash({names})" if by_key else "0::UBIGINT"
        parts.append(f"SELECT 'open', '', 0, pane_start, pane_end, {key} FROM {parquet(still_open)}")
    db.execute(f"CREATE TEMP TABLE spans AS SELECT *, false AS chosen FROM ({' UNION ALL '.join(parts)})")


def _choose(db: DuckDBPyConnection, condition: str) -> bool:
    before = _count(db, "chosen")
    db.execute(f"UPDATE spans s SET chosen = true WHERE NOT chosen AND {condition}")
    return _count(db, "chosen") > before


def _choose_open(db: DuckDBPyConnection) -> bool:
    """Where one open session is computed anew, all are: the state is replaced as a whole."""
    return _count(db, "side = 'open' AND chosen") > 0 and _choose(db, "s.side = 'open'")


def _count(db: DuckDBPyConnection, condition: str) -> int:
    return int((db.sql(f"SELECT count(*) FROM spans WHERE {condition}").fetchone() or (0,))[0])


# --- rows ----------------------------------------------------------------------------------------------------


def _difference(db: DuckDBPyConnection, query: Query, columns: ShownColumns, both: Both, like: pa.Schema) -> Difference:
    if not query.tells_results_apart:
        return _of_rows(db, columns, both, like)
    db.execute("CREATE TEMP TABLE old AS SELECT * FROM chosen_shown_rows")
    db.execute("CREATE TEMP TABLE results AS SELECT * EXCLUDE (_file, _row), NULL AS _reason FROM chosen_anew_rows")
    near = frozenset(named.name for named in query.output if named.type.is_float)
    return compared(db, columns, Scope(near=near), like)


def _of_rows(db: DuckDBPyConnection, columns: ShownColumns, both: Both, like: pa.Schema) -> Difference:
    """Rows that are results of their own: how often each is there, and how often it should be."""
    names = ", ".join(map(quoted, columns.all))
    signed = (
        f"SELECT {names}, 1 AS copy FROM chosen_anew_rows UNION ALL SELECT {names}, -1 AS copy FROM chosen_shown_rows"
    )
    copies = f"sum(copy)::BIGINT AS {COPIES}"
    summed = db.sql(f"SELECT {names}, {copies} FROM ({signed}) GROUP BY ALL HAVING sum(copy) <> 0").to_arrow_table()
    types = {entry.name: entry.type for entry in like}
    typed = summed.cast(pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in summed.schema]))
    found = multiset_difference(columns.all, typed, both.shown)
    changes = found.changes
    if columns.has_window:
        changes = changes.append_column("_start", changes[START]).append_column("_end", changes[END])
    return Difference(changes, found.rows, found.touched)


def everything(query: Query) -> bool:
    """Whether a correction concerns the whole table: nothing tells which results rows of a range had a part in."""
    return query.window is None or query.gap_fill is not None


def scope_of(query: Query, ranges: Sequence[Window]) -> tuple[Window, ...]:
    return (EVER,) if everything(query) else tuple(ranges)
