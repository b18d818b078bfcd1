"""Batches that a program hands in: as the columns that CREATE SOURCE declares, or not at all.

Arrow would cut a fraction off, take a time of day off, and read a text as a number. A batch is not to lose anything, so
a column takes values of its own kind alone, and of these only what its type holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from laminar_dagster.engine.sources.memory import arrow_type
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source

Row: TypeAlias = Mapping[str, Any]
Batch: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[Row]"


def _is_number(type_: pa.DataType) -> bool:
    return bool(kinds.is_floating(type_) or kinds.is_integer(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    of_one_length = kinds.is_fixed_size_binary(type_) or kinds.is_binary_view(type_)
    return bool(kinds.is_binary(type_) or kinds.is_large_binary(type_) or of_one_length)


# For each kind of column: the classes of Python that it takes, those of them that it does not, and the types of Arrow.
# A number that is a time counts microseconds since 1970 UTC.
Kind: TypeAlias = tuple[tuple[type, ...], tuple[type, ...], Callable[[pa.DataType], bool]]
INTEGER: Kind = ((Integral,), (bool,), kinds.is_integer)
NUMBER: Kind = ((Real,), (bool,), _is_number)
KINDS: Mapping[str, Kind] = {
    "BOOLEAN": ((bool,), (), kinds.is_boolean),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), INTEGER),
    "FLOAT": NUMBER,
    "DOUBLE": NUMBER,
    "DECIMAL": ((Decimal, Integral), (bool,), lambda type_: kinds.is_decimal(type_) or kinds.is_integer(type_)),
    "STRING": ((str,), (), _is_text),
    "BINARY": ((bytes, bytearray, memoryview), (), _is_bytes),
    "DATE": ((date,), (datetime,), kinds.is_date),
    "TIMESTAMP": ((datetime, Integral), (bool,), lambda type_: kinds.is_timestamp(type_) or kinds.is_int64(type_)),
}


def typed_batch(batch: Batch, source: Source) -> pa.Table:
    """The batch with the source's columns in their declared types, or LMR0801."""
    given = _table(batch)
    _require_columns(given, source)
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in source.columns])
    columns = [_column(given, column, schema.field(column.name).type) for column in source.columns]
    return pa.Table.from_arrays(columns, schema=schema)


def _table(batch: Batch) -> pa.Table | Sequence[Row]:
    """All of it at once: what can be iterated only once would be empty the second time."""
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, pa.RecordBatchReader):
        return batch.read_all()
    if isinstance(batch, pa.Table):
        return batch
    rows = list(batch) if isinstance(batch, Iterable) and not isinstance(batch, (Mapping, str, bytes)) else [batch]
    if isinstance(batch, Mapping) or not all(issubclass(class_, Mapping) for class_ in set(map(type, rows))):
        raise LaminarError(
            "LMR0801", f"a batch is rows, and this is a {type(batch).__name__}",
            detail="A row is a dict, or another mapping, from the names of columns to values.",
            hint="Give an Arrow table or a list of dicts; of another kind of table, what it is in Arrow.",
            committed="Nothing of this batch was taken.",
        )  # fmt: skip
    return rows


def _require_columns(given: pa.Table | Sequence[Row], source: Source) -> None:
    declared = {column.name for column in source.columns}
    rows = [given.column_names] if isinstance(given, pa.Table) else given
    unknown = sorted({str(name) for row in rows for name in row if name not in declared})
    missing = sorted({name for row in rows for name in declared.difference(row)})
    twice = [name for row in rows if not isinstance(row, Mapping) for name, n in Counter(row).items() if n > 1]
    for found, problem in ((unknown, "has no column {}"), (missing, "needs column {}"), (twice, "has column {} twice")):
        if found:
            said = problem.format(f'"{found[0]}"')
            who = "the batch" if found is twice else f'source "{source.name}"'
            raise _mismatch(f"{who} {said}", f"columns: {', '.join(column.name for column in source.columns)}")


def _column(given: pa.Table | Sequence[Row], column: Field, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    try:
        if isinstance(given, pa.Table):
            found = _cast(given.column(column.name), column, type_)
        else:
            found = _built([row[column.name] for row in given], column, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _mismatch(f'column "{column.name}" does not fit {column.type}', str(error)) from error
    return found


def _built(values: list[Any], column: Field, type_: pa.DataType) -> pa.Array:
    takes, never, _ = KINDS[column.type.name]
    for class_ in set(map(type, values)) - {type(None)}:
        if not issubclass(class_, takes) or issubclass(class_, never):
            raise TypeError(f"a value is a {class_.__name__}")
    if kinds.is_timestamp(type_):
        _require_zones(values, column)
    return _finite(pa.array(values, type_), lambda: pa.array(values, pa.float64()))


def _require_zones(values: Sequence[Any], column: Field) -> None:
    naive = next((v for v in values if isinstance(v, datetime) and v.utcoffset() is None), None)
    if naive is not None:
        raise _without_zone(column, naive.isoformat())


def _cast(values: pa.ChunkedArray, column: Field, type_: pa.DataType) -> pa.ChunkedArray:
    if kinds.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not kinds.is_null(values.type) and not KINDS[column.type.name][2](values.type):
        raise TypeError(f"the column is {values.type}")
    if kinds.is_timestamp(values.type) and values.type.tz is None:
        raise _without_zone(column, str(values.type))
    if kinds.is_decimal(type_) and kinds.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))  # as wide as any integer: what counts is what the values are
    return _finite(values.cast(type_), lambda: values.cast(pa.float64()))


def _finite(found: Any, exact: Callable[[], Any]) -> Any:
    """FLOAT rounds, as its values are short; what it has no number for is not to become infinite."""
    if kinds.is_float32(found.type) and pc.any(pc.and_(pc.is_inf(found), pc.is_finite(exact()))).as_py():
        raise ValueError("a value is too large")
    return found


def _without_zone(column: Field, what: str) -> LaminarError:
    return LaminarError(
        "LMR0801", f'column "{column.name}" is a TIMESTAMP, and a time of the batch has no zone',
        detail=f"{what}: it is another moment in each zone.",
        hint="Say which zone it is in, such as datetime(…, tzinfo=UTC), or pa.timestamp('us', 'UTC').",
        committed="Nothing of this batch was taken.",
    )  # fmt: skip


def _mismatch(problem: str, detail: str) -> LaminarError:
    return LaminarError(
        "LMR0801", problem, detail=detail,
        hint="Give the columns that CREATE SOURCE declares, in their types.",
        committed="Nothing of this batch was taken.",
    )  # fmt: skip
