"""Z-sets as Arrow tables: consolidate, compare and apply, column by column.

They mean what `semantics/zset.py` means, which works on plain rows: a row is equal to another if all its values are,
where NULL is NULL, NaN is NaN and -0.0 is 0.0, also inside of lists and structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.in_process_sql import connection, quoted
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.errors import LaminarError
from state_store.changelog import OP, SEQ, WEIGHT, data_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PLACE = "_ place"


def consolidate(table: pa.Table) -> pa.Table:
    """Each distinct row once, with the sum of its `_weight`s (1 where there is no such column); zeros are gone.

    Rows are in the order in which they first appear. Of a changelog's own columns only `_weight` stays.
    """
    rows = table.select(data_columns(table.column_names))
    weights = table.column(WEIGHT) if WEIGHT in table.column_names else _ones(table.num_rows)
    found = _summed(rows, weights)
    return rows.take(found.column(PLACE)).append_column(WEIGHT, found.column(WEIGHT))


def diff(old: pa.Table, new: pa.Table, key: Sequence[str]) -> pa.Table:
    """What turns `old` into `new`, as changelog rows with `_seq`, `_op` and `_weight`.

    First deletions, then updates as pairs, then insertions. Two rows are the same result if they agree in `key`; with
    an empty key rows have no identity of their own, and a changed row is a deletion and an insertion.
    """
    names = data_columns(old.column_names)
    _require_columns(names, new, "the new table")
    _require_columns(key, old, "the old table")
    before, after = old.select(names), _as(new.select(names), old)
    both = pa.concat_tables([before, after])
    found = _keyed_difference(before, after, key) if key else _multiset_difference(before, after)
    changes = both.take(found.column(PLACE))
    weights = pc.if_else(pc.starts_with(found.column(OP), "+"), pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    head = {SEQ: _places(changes.num_rows), OP: found.column(OP), WEIGHT: weights}
    return pa.table({**head, **dict(zip(names, changes.columns, strict=True))})


def apply(table: pa.Table | None, changes: pa.Table) -> pa.Table:
    """The table after a changelog; LMR0812 where that deletes a row that is not there. None: from nothing.

    Columns of the table that the changelog does not have are left out.
    """
    names = data_columns(changes.column_names)
    _require_columns([WEIGHT], changes, "the changelog")
    changed = changes.select(names)
    start = changed.slice(0, 0) if table is None else table
    _require_columns(names, start, "the table")
    start = start.select(names)
    rows = pa.concat_tables([start, _as(changed, start)])
    weights = pa.chunked_array([_ones(start.num_rows), *changes.column(WEIGHT).chunks], pa.int64())
    return rows.take(_repeated(rows, _summed(rows, weights)))


def _summed(rows: pa.Table, weights: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The place of each distinct row's first appearance and its weight, in the order of places; no zeros."""
    numbered = rows.append_column(PLACE, _places(rows.num_rows)).append_column(WEIGHT, weights)
    by = f"GROUP BY {', '.join(map(quoted, rows.column_names))}" if rows.num_columns else ""
    with connection() as db:
        db.register("numbered", numbered)
        return db.sql(
            f"""SELECT min({quoted(PLACE)}) AS {quoted(PLACE)}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM numbered {by}
                HAVING sum({WEIGHT}) <> 0 ORDER BY 1"""
        ).to_arrow_table()


def _repeated(rows: pa.Table, sums: pa.Table) -> pa.Array:
    """The place of each row of the table, as often as it is in there."""
    negative = sums.filter(pc.less(sums.column(WEIGHT), 0)).column(PLACE)
    if len(negative):
        row = python_rows(rows.slice(negative[0].as_py(), 1))[0]
        raise LaminarError(
            "LMR0812",
            "the changelog deletes a row that is not in the table",
            detail=f"{row} and {len(negative) - 1} other(s)" if len(negative) > 1 else str(row),
            hint="Apply changes in order, to the table that they are changes of, and each of them once.",
        )
    if pc.all(pc.equal(sums.column(WEIGHT), 1)).as_py():
        return sums.column(PLACE)
    with connection() as db:
        db.register("sums", sums)
        return (
            db.sql(f"SELECT p FROM (SELECT {quoted(PLACE)} AS p, unnest(range({WEIGHT})) FROM sums) ORDER BY p")
            .to_arrow_table()
            .column(0)
        )


def _multiset_difference(old: pa.Table, new: pa.Table) -> pa.Table:
    """For rows without identity: one `-D` or `+I` for each unit of weight; places in both tables, one after another."""
    rows = pa.concat_tables([old, new])
    sums = _summed(rows, pa.concat_arrays([pc.negate(_ones(old.num_rows)), _ones(new.num_rows)]))
    with connection() as db:
        db.register("sums", sums)
        return db.sql(
            f"""SELECT CASE WHEN w > 0 THEN '+I' ELSE '-D' END AS {OP}, p AS {quoted(PLACE)} FROM (
                    SELECT {WEIGHT} AS w, {quoted(PLACE)} AS p, unnest(range(abs({WEIGHT}))) FROM sums
                ) ORDER BY w > 0, p"""
        ).to_arrow_table()


def _keyed_difference(old: pa.Table, new: pa.Table, key: Sequence[str]) -> pa.Table:
    """Operations and places in both tables, one after another, in the order of the changelog."""
    same = " AND ".join(f"o.{quoted(name)} IS NOT DISTINCT FROM n.{quoted(name)}" for name in key)
    others = [name for name in old.column_names if name not in key]
    differs = " OR ".join(f"o.{quoted(name)} IS DISTINCT FROM n.{quoted(name)}" for name in others) or "false"
    with connection() as db:
        for name, table, first in (("old", old, 0), ("new", new, old.num_rows)):
            db.register(name, table.append_column(PLACE, _places(table.num_rows, first)))
            _require_unique(db, name, key)
        return db.sql(
            f"""WITH pairs AS (
                    SELECT o.{quoted(PLACE)} AS gone, n.{quoted(PLACE)} AS come
                    FROM old o FULL OUTER JOIN new n ON {same}
                    WHERE o.{quoted(PLACE)} IS NULL OR n.{quoted(PLACE)} IS NULL OR {differs}
                ), ops AS (
                    SELECT 0 AS stage, gone AS result, '-D' AS {OP}, gone AS place FROM pairs WHERE come IS NULL
                    UNION ALL SELECT 1, come, '-U', gone FROM pairs WHERE gone IS NOT NULL AND come IS NOT NULL
                    UNION ALL SELECT 1, come, '+U', come FROM pairs WHERE gone IS NOT NULL AND come IS NOT NULL
                    UNION ALL SELECT 2, come, '+I', come FROM pairs WHERE gone IS NULL
                ) SELECT {OP}, place AS {quoted(PLACE)} FROM ops ORDER BY stage, result, place"""
        ).to_arrow_table()


def _require_unique(db: DuckDBPyConnection, name: str, key: Sequence[str]) -> None:
    listed = ", ".join(map(quoted, key))
    twice = db.sql(f"SELECT {listed} FROM {name} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1").to_arrow_table()
    if twice.num_rows:
        key_of_several = tuple(python_rows(twice)[0].values())
        raise LaminarError(
            "LMR0811",
            f"the {name} table has several rows with the key ({', '.join(key)}) = {key_of_several}",
            hint="Give the columns that tell results apart, or an empty key if nothing does.",
        )


def _require_columns(names: Sequence[str], table: pa.Table, what: str) -> None:
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise LaminarError(
            "LMR0811", f'{what} has no column "{missing[0]}"', detail=f"columns: {', '.join(table.column_names)}"
        )


def _as(table: pa.Table, like: pa.Table) -> pa.Table:
    """The same rows in the types of another table."""
    try:
        return table.cast(pa.schema([like.schema.field(name) for name in table.column_names]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as problem:
        raise LaminarError("LMR0811", "the tables have columns of different types", detail=str(problem)) from problem


def _places(count: int, first: int = 0) -> pa.Array:
    return pa.array(range(first, first + count), pa.int64())


def _ones(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int64()), count)
