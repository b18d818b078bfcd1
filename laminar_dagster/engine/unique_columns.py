"""What rows of a source with a unique key carry beside their columns: the key, how long it is remembered, an order."""

from __future__ import annotations

from laminar_dagster.engine.column_names import held_as_named, held_sql
from laminar_dagster.semantics.duplicates import order_columns
from laminar_dagster.semantics.query import Input, Query

UNIQUE = "_unique"
UNTIL = "_until"
_ORDER = "_order_"


def is_order(column: str) -> bool:
    return column.startswith(_ORDER)


def unique_columns(query: Query, entry: Input, time: str, as_json: str) -> list[str]:
    """Spark expressions over the source's own columns; none where no source of the query has a unique key.

    A key with a NULL in it is none. Two sources need not have the same columns, so each has its own to order by.
    """
    if not query.finds_duplicates:
        return []
    unique = entry.source.unique
    if unique is None:
        return [f"CAST(NULL AS STRING) AS {UNIQUE}", f"CAST(NULL AS BIGINT) AS {UNTIL}"]
    names = [held_sql(name) for name in unique.columns]
    named = ", ".join(held_as_named(name) for name in unique.columns)
    complete = " AND ".join(f"{name} IS NOT NULL" for name in names)
    number = query.inputs.index(entry)
    return [
        f"CASE WHEN {complete} THEN {as_json.format(columns=named)} END AS {UNIQUE}",
        f"{time} + {unique.within}L AS {UNTIL}",
        *(f"{held_sql(name)} AS {_ORDER}{number}_{i}" for i, name in enumerate(order_columns(entry.source))),
    ]
