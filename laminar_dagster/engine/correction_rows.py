"""What a correction changes in a view's table: windows computed anew, held against those that are shown. DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.column_names import CHANGE_END, CHANGE_START, COPIES, HIGH, LOW, OWN, PASSES, REASON
from laminar_dagster.engine.differences import PLACE, Difference, Scope, compared, multiset_difference
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.recomputing import shows_hidden
from laminar_dagster.engine.shown import END, START, ShownColumns, shown_columns
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Session, Window

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FILE, _ROW, _PATH, _COPY = (quoted(OWN + name) for name in ("file", "row", "path", "copy"))
_REASON, _PASSES = quoted(REASON), quoted(PASSES)
NOTHING = pa.table({"_op": pa.array([], pa.string())})


@dataclass(frozen=True)
class Both:
    """Paths of Parquet files: the table as it is shown, and computed anew; of sessions also what is open in each."""

    shown: Sequence[str]
    anew: Sequence[str]
    open_before: Sequence[str] = ()
    open_anew: Sequence[str] = ()


@dataclass(frozen=True)
class Sessions:
    """Sessions that are computed anew: where the open ones lie in the state, before and now (files and rows), and the
    bounds and keys of all there are now."""

    leave: pa.Table
    enter: pa.Table
    spans: pa.Table

    @property
    def takes_state(self) -> bool:
        return bool(self.leave.num_rows or self.enter.num_rows)


@dataclass(frozen=True)
class Corrected:
    found: Difference
    sessions: Sessions | None = None


def corrections(query: Query, both: Both, ranges: Sequence[Window]) -> Corrected:
    """The rows of windows that overlap the ranges; sessions whole, with all that they come to touch."""
    any_file = next(iter([*both.shown, *both.anew]), None)
    if any_file is None and not (both.open_before or both.open_anew):
        return Corrected(Difference(NOTHING, pa.table({}), []))
    columns = shown_columns(query)
    with connection() as db:
        _load_ranges(db, ranges)
        _load(db, "shown_rows", columns, both.shown, any_file)
        _load(db, "anew_rows", columns, both.anew, any_file, shows_hidden=shows_hidden(query))
        sessions = _choose_sessions(db, query, columns, both) if isinstance(query.window, Session) else None
        if sessions is None:
            _choose_windows(db, columns)
        if any_file is None:
            return Corrected(Difference(NOTHING, pa.table({}), []), sessions)
        like = pq.read_schema(any_file).remove_metadata()
        return Corrected(_difference(db, query, columns, both, like), sessions)


def _load_ranges(db: DuckDBPyConnection, ranges: Sequence[Window]) -> None:
    rows = pa.table({"low": pa.array([r.start for r in ranges], pa.int64()), "high": [r.end for r in ranges]})
    db.register("given_ranges", rows)
    db.execute("CREATE TEMP TABLE ranges AS SELECT * FROM given_ranges")


def _load(
    db: DuckDBPyConnection,
    name: str,
    columns: ShownColumns,
    files: Sequence[str],
    any_file: str | None,
    *,
    shows_hidden: bool = False,
) -> None:
    """All rows, each with its place; and whether HAVING lets it be seen."""
    if any_file is None:
        none = f"NULL::BIGINT AS {START}, NULL::BIGINT AS {END}, '' AS {_FILE}, 0::BIGINT AS {_ROW}"
        db.execute(f"CREATE TEMP TABLE {name} AS SELECT {none}, true AS {_PASSES} LIMIT 0")
        return
    wanted = ", ".join(quoted(column) for column in columns.all)
    rows = f"FROM {parquet(files or [any_file], *PLACE)}{'' if files else ' LIMIT 0'}"
    passes = f"{_PASSES} IS TRUE" if shows_hidden and files else "true"
    db.execute(
        f"""CREATE TEMP TABLE {name} AS
            SELECT {wanted}, {_PATH} AS {_FILE}, file_row_number AS {_ROW}, {passes} AS {_PASSES} {rows}"""
    )


def _choose_windows(db: DuckDBPyConnection, columns: ShownColumns) -> None:
    for name in ("shown_rows", "anew_rows"):
        overlaps = f"EXISTS (SELECT 1 FROM ranges r WHERE t.{START} < r.high AND t.{END} > r.low)"
        where = overlaps if columns.has_window else "true"
        db.execute(f"CREATE TEMP TABLE chosen_{name} AS SELECT * FROM {name} t WHERE {where}")


# --- sessions ------------------------------------------------------------------------------------------------


def _choose_sessions(db: DuckDBPyConnection, query: Query, columns: ShownColumns, both: Both) -> Sessions:
    """Sessions in the ranges, and those that share rows with a chosen one: a late row may have joined several."""
    keys = len(query.keys) if query.tells_results_apart else 0
    _load_spans(db, columns, both, keys)
    _choose(db, "EXISTS (SELECT 1 FROM ranges r WHERE s.low < r.high AND s.high > r.low)")
    same = [f"c.k{i} IS NOT DISTINCT FROM s.k{i}" for i in range(keys)]
    shares = " AND ".join([*same, "c.low <= s.high AND s.low <= c.high AND c.is_new <> s.is_new"])
    while _choose(db, f"EXISTS (SELECT 1 FROM spans c WHERE c.chosen AND {shares})"):
        pass
    for name in ("shown_rows", "anew_rows"):
        db.execute(
            f"""CREATE TEMP TABLE chosen_{name} AS SELECT t.* FROM {name} t
                JOIN spans s ON s.side = '{name}' AND s.chosen AND s.file = t.{_FILE} AND s.place = t.{_ROW}
                WHERE t.{_PASSES}"""
        )
    bounds = [f"low AS {quoted(LOW)}", f"high AS {quoted(HIGH)}"]
    named = [f"k{i} AS {quoted(query.keys[i].name)}" for i in range(keys)]
    spans = db.sql(f"SELECT {', '.join([*bounds, *named])} FROM spans WHERE chosen AND is_new").to_arrow_table()
    return Sessions(_places(db, "open_before"), _places(db, "open_anew"), spans)


def _load_spans(db: DuckDBPyConnection, columns: ShownColumns, both: Both, keys: int) -> None:
    parts = []
    if both.shown or both.anew:
        named = "".join(f", {quoted(columns.keys[i])} AS k{i}" for i in range(keys))
        parts += [
            f"SELECT '{side}' AS side, {_FILE} AS file, {_ROW} AS place, {START} AS low, {END} AS high{named} "
            f"FROM {side}"
            for side in ("shown_rows", "anew_rows")
        ]
    named = "".join(f", {key_column(i)} AS k{i}" for i in range(keys))
    parts += [
        f"SELECT '{side}' AS side, {_PATH} AS file, file_row_number AS place, pane_start AS low, pane_end AS high"
        f"{named} FROM {parquet(files, *PLACE)}"
        for side, files in (("open_before", both.open_before), ("open_anew", both.open_anew))
        if files
    ]
    is_new = "side IN ('anew_rows', 'open_anew') AS is_new"
    db.execute(f"CREATE TEMP TABLE spans AS SELECT *, {is_new}, false AS chosen FROM ({' UNION ALL '.join(parts)})")


def _choose(db: DuckDBPyConnection, condition: str) -> bool:
    before = _chosen(db)
    db.execute(f"UPDATE spans s SET chosen = true WHERE NOT chosen AND {condition}")
    return _chosen(db) > before


def _chosen(db: DuckDBPyConnection) -> int:
    return int((db.sql("SELECT count(*) FROM spans WHERE chosen").fetchone() or (0,))[0])


def _places(db: DuckDBPyConnection, side: str) -> pa.Table:
    return db.sql(f"SELECT file, place AS row FROM spans WHERE chosen AND side = '{side}'").to_arrow_table()


# --- rows ----------------------------------------------------------------------------------------------------


def _difference(db: DuckDBPyConnection, query: Query, columns: ShownColumns, both: Both, like: pa.Schema) -> Difference:
    if not query.tells_results_apart:
        return _of_rows(db, columns, both, like)
    db.execute("CREATE TEMP TABLE old AS SELECT * FROM chosen_shown_rows")
    computed = f"SELECT * EXCLUDE ({_FILE}, {_ROW}, {_PASSES}), NULL AS {_REASON} FROM chosen_anew_rows"
    db.execute(f"CREATE TEMP TABLE results AS {computed}")
    near = frozenset(named.name for named in query.output if named.type.is_float)
    return compared(db, columns, Scope(near=near), like)


def _of_rows(db: DuckDBPyConnection, columns: ShownColumns, both: Both, like: pa.Schema) -> Difference:
    """Rows that are results of their own: how often each is there, and how often it should be."""
    names = ", ".join(map(quoted, columns.all))
    anew, shown = (
        f"SELECT {names}, {copy} AS {_COPY} FROM chosen_{n}_rows" for n, copy in (("anew", 1), ("shown", -1))
    )
    signed = f"{anew} UNION ALL {shown}"
    copies = f"sum({_COPY})::BIGINT AS {quoted(COPIES)}"
    summed = db.sql(f"SELECT {names}, {copies} FROM ({signed}) GROUP BY ALL HAVING sum({_COPY}) <> 0").to_arrow_table()
    types = {entry.name: entry.type for entry in like}
    typed = summed.cast(pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in summed.schema]))
    found = multiset_difference(columns.all, typed, both.shown)
    changes = found.changes
    if columns.has_window:
        changes = changes.append_column(CHANGE_START, changes[START]).append_column(CHANGE_END, changes[END])
    return Difference(changes, found.rows, found.touched)


def everything(query: Query) -> bool:
    """Whether a correction concerns the whole table: nothing tells which results rows of a range had a part in."""
    return query.window is None or query.gap_fill is not None
