"""What changes in a view's table: new results held against those shown, as a changelog and as files to swap.

DuckDB compares, on the driver: the results of one epoch, and the rows of those files that can hold them. A Spark join
of this size would take several times as long to start as this takes to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar_dagster.engine.column_names import CHANGE_END, CHANGE_START, COPIES, NEW, OWN, REASON
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted, text
from laminar_dagster.engine.shown import END, START, ShownColumns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PATH = quoted(OWN + "path")
PLACE = (f"filename = {text(OWN + 'path')}", "file_row_number = true")
# How many of a row come, less those that go.
_COPIES = quoted(COPIES)
_REASON, _NEW, _START, _END = map(quoted, (REASON, NEW, CHANGE_START, CHANGE_END))
_FILE, _ROW, _OLD, _KEPT, _DIFFERS, _GONE, _COME, _THERE, _AT, _SEEN, _RANK, _HALF = (
    quoted(OWN + name)
    for name in ("file", "row", "old", "kept", "differs", "gone", "come", "there", "at", "seen", "rank", "half")
)
# The table that a subquery looks back at. In the subquery a STRUCT would stand before a table of its name.
_TABLE = quoted(OWN + "table")
FLOATS_DIFFER_BY = 1e-9
OPS = {"-D": 0, "-U": 1, "+U": 1, "+I": 2}


@dataclass(frozen=True)
class Scope:
    """Which rows of the table the results stand against: the same results, or (`by_key`) all of the same keys.

    `open_after`: of these, the ones whose windows end later. `moves`: the condition on a window's `{end}` under which
    this epoch may show a change. `near`: columns of floats, which are the same up to the order of their additions.
    """

    by_key: bool = False
    open_after: int | None = None
    moves: str = "true"
    near: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Difference:
    """`changes` are changelog rows in order (`_op` and data); `rows` replace all rows of the files `touched`.

    Of `rows`, those that are `_new` were not there before.
    """

    changes: pa.Table
    rows: pa.Table
    touched: list[str]


def difference(columns: ShownColumns, results: pa.Table, files: Sequence[str], scope: Scope) -> Difference:
    """`results` has the table's columns and `_reason`: why a group has no result, NULL where it has one."""
    with connection() as db:
        db.register("results", results)
        _load_old(db, columns, results, files, scope)
        return compared(db, columns, scope, results.schema)


def compared(db: DuckDBPyConnection, columns: ShownColumns, scope: Scope, like: pa.Schema) -> Difference:
    """The tables `old` (rows that are shown, with their `_file` and `_row`) and `results`, held against each other."""
    _pair(db, columns, scope)
    changes = db.sql(_changes_sql(columns)).to_arrow_table()
    touched = [str(name) for (name,) in db.sql(f"SELECT DISTINCT {_FILE} FROM pairs WHERE {_GONE}").fetchall()]
    rows = db.sql(_rows_sql(columns, touched)).to_arrow_table()
    return Difference(_as(changes, like), _as(rows, like), touched)


def multiset_difference(names: Sequence[str], summed: pa.Table, files: Sequence[str]) -> Difference:
    """Rows without identity: `summed` has each once, and in COPIES how many of it come, or go (less than zero).

    A row that is to go and is not there does not go.
    """
    data = ", ".join(map(quoted, names))
    with connection() as db:
        db.register("summed", summed)
        _load_gone(db, names, files)
        come = f"SELECT {data} FROM (SELECT *, unnest(range({_COPIES})) FROM summed WHERE {_COPIES} > 0)"
        changes = f"SELECT '-D' AS _op, {data} FROM gone UNION ALL SELECT '+I', * FROM ({come})"
        changed = db.sql(f"{changes} ORDER BY _op DESC, {data}").to_arrow_table()
        touched = [str(name) for (name,) in db.sql(f"SELECT DISTINCT {_FILE} FROM gone").fetchall()]
        rows = db.sql(_left_sql(data, come, touched)).to_arrow_table()
    return Difference(_as(changed, summed.schema), _as(rows, summed.schema), touched)


def _load_gone(db: DuckDBPyConnection, names: Sequence[str], files: Sequence[str]) -> None:
    """The rows of the table that go, each with its place, as `gone`."""
    shown = ", ".join(f"t.{quoted(name)}" for name in names)
    place = f"t.{_PATH} AS {_FILE}, t.file_row_number AS {_ROW}"
    going = db.sql(f"SELECT 1 FROM summed WHERE {_COPIES} < 0 LIMIT 1").fetchall()
    if not files or not going:
        db.execute(f"CREATE TEMP TABLE gone AS SELECT *, '' AS {_FILE}, 0::BIGINT AS {_ROW} FROM summed WHERE false")
        return
    db.execute(
        f"""CREATE TEMP TABLE gone AS
            SELECT {shown}, {place} FROM {parquet(files, *PLACE)} t JOIN summed s ON {_same("t", "s", names)}
            WHERE s.{_COPIES} < 0
            QUALIFY row_number() OVER (PARTITION BY {shown}) <= -s.{_COPIES}"""
    )


def _load_old(
    db: DuckDBPyConnection, columns: ShownColumns, results: pa.Table, files: Sequence[str], scope: Scope
) -> None:
    """The rows of the table that may change, each with its place, as `old`."""
    wanted = ", ".join(f"{_TABLE}.{quoted(name)}" for name in columns.all)
    if not files:
        none = results.slice(0, 0)
        db.register("nothing", none)
        place = f"'' AS {_FILE}, 0::BIGINT AS {_ROW}"
        db.execute(f"CREATE TEMP TABLE old AS SELECT {wanted}, {place} FROM nothing {_TABLE}")
        return
    by = columns.keys if scope.by_key else columns.identity
    open_ones = "true" if scope.open_after is None else f"{_TABLE}.{END} > {scope.open_after}"
    same = _same(_TABLE, "s", by)
    db.execute(
        f"""CREATE TEMP TABLE old AS
            SELECT {wanted}, {_PATH} AS {_FILE}, file_row_number AS {_ROW} FROM {parquet(files, *PLACE)} {_TABLE}
            WHERE {open_ones} AND EXISTS (SELECT 1 FROM results s WHERE {same})"""
    )


def _pair(db: DuckDBPyConnection, columns: ShownColumns, scope: Scope) -> None:
    """Old and new results side by side: which rows go, which come, which change."""
    old = ", ".join(f"o.{quoted(name)} AS {quoted('o ' + name)}" for name in columns.all)
    new = ", ".join(f"n.{quoted(name)} AS {quoted('n ' + name)}" for name in columns.all)
    differs = " OR ".join(_differs(name, scope.near) for name in columns.all) or "false"
    moves = scope.moves
    if moves != "true":
        moves = f"(({moves.format(end=f'o.{END}')}) IS TRUE OR ({moves.format(end=f'n.{END}')}) IS TRUE)"
    db.execute(
        f"""CREATE TEMP TABLE pairs AS
            SELECT *, {_OLD} AND (NOT {_KEPT} OR {_DIFFERS}) AS {_GONE},
                {_KEPT} AND (NOT {_OLD} OR {_DIFFERS}) AS {_COME}
            FROM (
                SELECT {old}, {new}, o.{_FILE}, o.{_ROW}, o.{_FILE} IS NOT NULL AS {_OLD},
                    n.{_THERE} IS NOT NULL AS {_KEPT},
                    ({differs}) AS {_DIFFERS}
                FROM old o FULL OUTER JOIN (SELECT *, true AS {_THERE} FROM results WHERE {_REASON} IS NULL) n
                ON {_same("o", "n", columns.identity)}
                WHERE {moves}
            )"""
    )


def _differs(name: str, near: frozenset[str]) -> str:
    old, new = f"o.{quoted(name)}", f"n.{quoted(name)}"
    differs = f"{old} IS DISTINCT FROM {new}"
    if name not in near:
        return differs
    same = f"abs({old} - {new}) <= {FLOATS_DIFFER_BY} * greatest(abs({old}), abs({new}))"
    return f"({differs} AND NOT coalesce({same}, false))"


def _changes_sql(columns: ShownColumns) -> str:
    """Deletions, then updates as pairs, then insertions; an update of what is not selected is none."""
    differs = [f"{quoted('o ' + name)} IS DISTINCT FROM {quoted('n ' + name)}" for name in columns.data]
    seen = " OR ".join(differs) or "false"
    old, new = (_data_sql(columns, side) for side in ("o", "n"))
    order = ", ".join(quoted(f"{side} {name}") for name in columns.identity for side in "no") or "true"
    numbered = f"SELECT *, row_number() OVER (ORDER BY {order}) AS {_AT}, ({seen}) AS {_SEEN} FROM pairs"
    return f"""
        WITH numbered AS ({numbered})
        SELECT * EXCLUDE ({_RANK}, {_AT}, {_HALF}) FROM (
            SELECT {OPS["-D"]} AS {_RANK}, {_AT}, 0 AS {_HALF}, '-D' AS _op, {old}
            FROM numbered WHERE {_GONE} AND NOT {_COME}
            UNION ALL
            SELECT {OPS["-U"]}, {_AT}, 0, '-U', {old} FROM numbered WHERE {_GONE} AND {_COME} AND {_SEEN}
            UNION ALL
            SELECT {OPS["+U"]}, {_AT}, 1, '+U', {new} FROM numbered WHERE {_GONE} AND {_COME} AND {_SEEN}
            UNION ALL
            SELECT {OPS["+I"]}, {_AT}, 0, '+I', {new} FROM numbered WHERE {_COME} AND NOT {_GONE}
        ) ORDER BY {_RANK}, {_AT}, {_HALF}"""


def _data_sql(columns: ShownColumns, side: str) -> str:
    data = [f"{quoted(f'{side} {name}')} AS {quoted(name)}" for name in columns.data]
    bounds = [(quoted(f"{side} {name}") if columns.has_window else "NULL::BIGINT") for name in (START, END)]
    return ", ".join([*data, f"{bounds[0]} AS {_START}", f"{bounds[1]} AS {_END}"])


def _rows_sql(columns: ShownColumns, touched: Sequence[str]) -> str:
    """What the touched files hold when the old rows are out, and the new rows."""
    new = ", ".join(f"{quoted('n ' + name)} AS {quoted(name)}" for name in columns.all)
    added = f"NULL::BIGINT AS _epoch, NULL::TIMESTAMPTZ AS _emitted_at, true AS {_NEW}"
    come = f"SELECT {new}, {added} FROM pairs WHERE {_COME}"
    if not touched:
        return come
    stay = ", ".join(f"t.{quoted(name)}" for name in columns.all)
    return f"""
        SELECT {stay}, t._epoch, t._emitted_at, false AS {_NEW} FROM {parquet(touched, *PLACE)} t
        WHERE NOT EXISTS (
            SELECT 1 FROM pairs p WHERE p.{_GONE} AND p.{_FILE} = t.{_PATH} AND p.{_ROW} = t.file_row_number
        )
        UNION ALL {come}"""


def _left_sql(data: str, come: str, touched: Sequence[str]) -> str:
    """What the touched files hold when `gone` is out, and the new rows."""
    new = f"SELECT *, NULL::BIGINT AS _epoch, NULL::TIMESTAMPTZ AS _emitted_at, true AS {_NEW} FROM ({come})"
    if not touched:
        return new
    return f"""
        SELECT {data}, _epoch, _emitted_at, false AS {_NEW} FROM {parquet(touched, *PLACE)} {_TABLE}
        WHERE NOT EXISTS (
            SELECT 1 FROM gone g WHERE g.{_FILE} = {_TABLE}.{_PATH} AND g.{_ROW} = {_TABLE}.file_row_number
        )
        UNION ALL {new}"""


def _same(left: str, right: str, names: Sequence[str]) -> str:
    return (
        " AND ".join(f"{left}.{quoted(name)} IS NOT DISTINCT FROM {right}.{quoted(name)}" for name in names) or "true"
    )


def _as(table: pa.Table, like: pa.Schema) -> pa.Table:
    """The columns that the results have, in the types that they have there."""
    types = {field.name: field.type for field in like}
    fields = [pa.field(field.name, types.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))
