"""An epoch's changes as one row for each key: what an upsert can take."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.column_names import OWN
from laminar_dagster.engine.in_process_sql import connection, quoted
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.errors import LaminarError
from state_store.changelog import WEIGHT, data_columns

GONE, NEW = OWN + "gone", OWN + "new"
PLACE, SUMMED = OWN + "place", OWN + "summed"
# The changes, as a subquery looks back at them, beside columns that may be STRUCTs of any name.
_CHANGED = quoted(OWN + "changed")


def collapsed(changes: pa.Table, key: Sequence[str] | None) -> pa.Table:
    """The newest row of each key that changed, in the order of the changes; LMR0642 where a key is left with two.

    Without columns in the key the view has one row.

    `_gone`: the key has no row any more, and this is the one that it had. `_new`: it had none before. A key whose row
    is as it was is left out.
    """
    rows = changes.select(data_columns(changes.column_names))
    numbered = rows.append_column(PLACE, pa.array(range(rows.num_rows), pa.int64()))
    key = key or ()
    data, by = _listed(rows.column_names), _listed(key) or "()"
    place, summed = quoted(PLACE), quoted(SUMMED)
    with connection() as db:
        db.register("changes", numbered.append_column(WEIGHT, changes.column(WEIGHT)))
        found = db.sql(
            f"""WITH sums AS (
                    SELECT {data}, max({place}) AS {place}, sum({WEIGHT}) AS {summed} FROM changes
                    GROUP BY {data} HAVING sum({WEIGHT}) <> 0
                ) SELECT coalesce(max({place}) FILTER ({summed} > 0), max({place})) AS {place},
                    coalesce(sum({summed}) FILTER ({summed} > 0), 0)::BIGINT AS live, sum({summed})::BIGINT AS more
                FROM sums GROUP BY {by} HAVING count(*) > 0 ORDER BY 1"""
        ).to_arrow_table()
    _require_one(rows, found, key)
    chosen = rows.take(found.column(PLACE))
    gone = pc.equal(found.column("live"), 0)
    return chosen.append_column(GONE, gone).append_column(NEW, pc.greater(found.column("more"), 0))


def refuse_present(changed: pa.Table, target: pa.Table | object, key: Sequence[str] | None) -> None:
    """LMR0642 if the target, a table or a dataset, already has a row with a key that is new."""
    fresh = changed.filter(changed.column(NEW))
    with connection() as db:
        db.register("fresh", fresh)
        db.register("target", target)
        there = f"EXISTS (FROM target t WHERE {same_key(key, _CHANGED)})"
        shown = _listed(key or ()) or "TRUE"
        twice = db.sql(f"SELECT {shown} FROM fresh {_CHANGED} WHERE {there} LIMIT 1").to_arrow_table()
    if twice.num_rows:
        raise not_unique(python_rows(twice)[0] if key else {})


def same_key(key: Sequence[str] | None, changes: str = "c") -> str:
    """Whether a row of `t`, the target, and one of the changes have one key; a key of no column all have."""
    same = (f"(t.{quoted(name)} IS NOT DISTINCT FROM {changes}.{quoted(name)})" for name in key or ())
    return " AND ".join(same) or "TRUE"


def _require_one(rows: pa.Table, found: pa.Table, key: Sequence[str]) -> None:
    twice = found.filter(pc.greater(found.column("live"), 1))
    if twice.num_rows:
        raise not_unique(python_rows(rows.take(twice.column(PLACE).slice(0, 1)).select(key))[0])


def not_unique(key: dict[str, object]) -> LaminarError:
    shown = ", ".join(f"{name} = {value}" for name, value in key.items())
    return LaminarError(
        "LMR0642",
        f"two results have the key {shown}" if key else "a view of one row would share its target with another row",
        detail="An upsert keeps one row for each key, so one of them would be lost. Nothing of the epoch was written.",
        hint="Give the sink a key that tells results apart (by default it is the window and the group keys).",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
