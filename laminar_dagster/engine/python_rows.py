"""Rows of an Arrow table as Python has them; times before the year 1 or after 9999, which it has not, as text.

The text is ISO-8601, the year with a sign where four digits do not hold it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from laminar_dagster.semantics.time import day_to_iso, to_iso
from state_store.moments import integers


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    columns = {name: _values(rows.column(name)) for name in rows.schema.names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    """One by one: a few have no form in Python, and may lie deep in a list."""
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(scalar.type):
        return {name: _value(part) for name, part in scalar.items()}
    if pa.types.is_map(scalar.type):
        return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return [_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _text(scalar)


def _text(scalar: pa.Scalar) -> str:
    (number,) = integers(pa.chunked_array([pa.array([scalar])])).to_pylist()
    if pa.types.is_date(scalar.type):
        return day_to_iso(number)
    return to_iso(number) if scalar.type.tz is not None else to_iso(number).removesuffix("Z")
