"""Parquet files that somebody wrote into a table's directory, described for Delta's log from their footers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from state_store import moments

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A file of a table: its path below the table's root, and what its footer (or the log) says of it.

    Bounds of times are integers; `times` are the types of the columns that these are of.
    """

    path: str
    size: int
    rows: int
    partition: dict[str, str | None] = field(default_factory=dict)
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    times: dict[str, pa.DataType] = field(default_factory=dict)

    def stats(self) -> str:
        """Delta's statistics: bounds are rounded outwards to what the log can express, and left out beyond that."""
        low = {name: self._written(name, value, up=False) for name, value in self.low.items()}
        high = {name: self._written(name, value, up=True) for name, value in self.high.items()}
        told = [name for name in low if low[name] is not None and high.get(name) is not None]
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: low[name] for name in told},
                "maxValues": {name: high[name] for name in told},
                "nullCount": self.nulls,
            }
        )

    def _written(self, name: str, value: Any, *, up: bool) -> Any:
        type_ = self.times.get(name)
        return value if type_ is None else moments.text(value, type_, up=up)


def data_files(root: Path, folder: str) -> list[DataFile]:
    """The Parquet files below `root/folder`, with the partition values that their paths spell."""
    return [describe(root, path) for path in sorted((root / folder).rglob("*.parquet")) if path.is_file()]


def describe(root: Path, path: Path) -> DataFile:
    footer = pq.read_metadata(path)
    low, high, nulls = footer_bounds(footer)
    relative = path.relative_to(root)
    partition = dict(_partition_values(relative))
    times = {column.name: column.type for column in footer.schema.to_arrow_schema() if moments.is_time(column.type)}
    return DataFile(relative.as_posix(), path.stat().st_size, footer.num_rows, partition, low, high, nulls, times)


def write_file(root: Path, name: str, table: pa.Table) -> DataFile:
    """Write a small table as one file; for what is too small to be worth a Spark job."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return describe(root, path)


def _partition_values(relative: Path) -> Iterator[tuple[str, str | None]]:
    for part in relative.parts[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            text = unquote(value)
            yield unquote(name), None if text == HIVE_NULL else text


def footer_bounds(footer: pq.FileMetaData) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Bounds (integers) and null counts of integer, date and timestamp columns for which every row group has them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in footer.schema.to_arrow_schema():
        if not _has_exact_bounds(column.type):
            continue
        position = _leaf_position(footer, column.name)
        if position is None:
            continue
        groups = [footer.row_group(g).column(position).statistics for g in range(footer.num_row_groups)]
        if groups and all(s is not None and s.has_null_count for s in groups):
            nulls[column.name] = sum(s.null_count for s in groups)
        bounded = [s for s in groups if s is not None and s.has_min_max]
        full = all(s is not None and (s.has_min_max or s.null_count == s.num_values + s.null_count) for s in groups)
        if bounded and full:
            least, greatest = _bounds_of(column.type, bounded)
            if least is not None and greatest is not None:
                low[column.name], high[column.name] = least, greatest
    return low, high, nulls


def _bounds_of(type_: pa.DataType, found: Sequence[pq.Statistics]) -> tuple[int | None, int | None]:
    if not moments.is_time(type_):
        return min(s.min for s in found), max(s.max for s in found)
    low, high = min(s.min_raw for s in found), max(s.max_raw for s in found)
    return moments.from_physical(low, type_), moments.from_physical(high, type_)


def _has_exact_bounds(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def _leaf_position(footer: pq.FileMetaData, name: str) -> int | None:
    if footer.num_row_groups == 0:
        return None
    group = footer.row_group(0)
    paths = [group.column(i).path_in_schema for i in range(group.num_columns)]
    return paths.index(name) if name in paths else None
