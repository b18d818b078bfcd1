"""What Parquet footers tell before a file is read: how many rows, the event time's bounds, whether the types fit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.sources.commits import SourceFile, unreadable
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import INTEGER_DIGITS, DataType
from state_store.parquet import footer_bounds

ENOUGH_FOR_THREADS = 4


@dataclass(frozen=True)
class Footers:
    """Reads footers for one source. `time` is the event time's name in the files; `fields` are checked if given."""

    source: Source
    time: str | None
    fields: Sequence[Field] = ()

    def of(self, files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
        """The same files with row counts and the event time's exact bounds."""
        if len(files) < ENOUGH_FOR_THREADS:
            return tuple(self._one(file) for file in files)
        with ThreadPoolExecutor(max_workers=4) as pool:
            return tuple(pool.map(self._one, files))

    def _one(self, file: SourceFile) -> SourceFile:
        try:
            footer = pq.read_metadata(file.path)
        except FileNotFoundError:
            return file
        except (pa.ArrowException, OSError) as problem:
            raise unreadable(self.source.name, file.path, str(problem)) from problem
        found = _types(footer)
        for field in self.fields:
            alike = [name for name in found if name.lower() == field.name.lower()]
            if len(alike) > 1:
                raise self._ambiguous(alike, file.path)
            if alike and not _fits(found[alike[0]], field.type):
                raise self._unfit(field, found[alike[0]], file.path)
        low, high, nulls = _bounds(footer, self.time)
        return replace(file, rows=footer.num_rows, low=low, high=high, nulls=nulls)

    def _ambiguous(self, names: Sequence[str], path: str) -> LaminarError:
        listed = " and ".join(f'"{name}"' for name in names)
        return LaminarError(
            "LMR0617",
            f'a file of source "{self.source.name}" has columns whose names differ in case alone',
            detail=f"{path}: {listed}; in SQL these are one name, so either could be meant",
            hint="Write the file with names that differ in more, or take it away: a name that begins with `_` or `.` "
            "is not read.",
            committed="Nothing was read; all earlier epochs stand.",
        )

    def _unfit(self, field: Field, found: pa.DataType, path: str) -> LaminarError:
        return LaminarError(
            "LMR0603",
            f'the schema of source "{self.source.name}" does not fit its declaration',
            detail=f'{path}: column "{field.name}" is {found} in the file and {field.type} in CREATE SOURCE',
            hint="Correct CREATE SOURCE, or write the file with the declared type (times in microseconds). To go on "
            "without the file, take it away: a name that begins with `_` or `.` is not read.",
            committed="Nothing was read; all earlier epochs stand.",
        )


def _types(footer: pq.FileMetaData) -> dict[str, pa.DataType]:
    """Arrow's types of the columns. Arrow reads the old INT96 as nanoseconds; Spark reads it as what it wrote."""
    types = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    for i in range(len(footer.schema)):
        if footer.schema.column(i).physical_type == "INT96":
            types[footer.schema.column(i).path] = pa.timestamp("us", tz="UTC")
    return types


def _bounds(footer: pq.FileMetaData, time: str | None) -> tuple[int | None, int | None, int | None]:
    """The event time's least and greatest value and its nulls; all None if the footer does not tell."""
    low, high, nulls = footer_bounds(footer)
    if time is None or time not in nulls:
        return None, None, None
    least, greatest = (low.get(time), high.get(time)) if _is_timestamp(footer, time) else (None, None)
    if nulls[time] != footer.num_rows and (least is None or greatest is None):
        return None, None, None
    return least, greatest, nulls[time]


def _is_timestamp(footer: pq.FileMetaData, column: str) -> bool:
    return bool(pa.types.is_timestamp(footer.schema.to_arrow_schema().field(column).type))


def _fits(found: pa.DataType, declared: DataType) -> bool:
    """Whether Spark reads the one as the other without losing anything; types it reads whole are left to it."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if declared.is_integer:
        return _integer_fits(found, INTEGER_DIGITS[declared.name])
    if declared.is_decimal:
        same = pa.types.is_decimal(found) and found.scale == declared.scale
        return bool(same and found.precision <= declared.precision)
    if declared.name == "TIMESTAMP":
        return bool(pa.types.is_timestamp(found) and (found.unit != "ns"))
    checks = {
        "BOOLEAN": pa.types.is_boolean,
        "FLOAT": pa.types.is_float32,
        "DOUBLE": lambda t: pa.types.is_float32(t) or pa.types.is_float64(t),
        "STRING": lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        "DATE": pa.types.is_date,
    }
    return bool(checks[declared.name](found)) if declared.name in checks else True


def _integer_fits(found: pa.DataType, digits: int) -> bool:
    widths = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"}
    return found in widths and INTEGER_DIGITS[widths[found]] <= digits
