"""Parquet files that somebody wrote into a table's directory, described for Delta's log from their footers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A file of a table: its path below the table's root, and what its footer (or the log) says of it."""

    path: str
    size: int
    rows: int
    partition: dict[str, str | None] = field(default_factory=dict)
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def stats(self) -> str:
        """Delta's statistics: the bounds are rounded outwards to what the log can express."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {k: _rounded(v, up=False) for k, v in self.low.items()},
                "maxValues": {k: _rounded(v, up=True) for k, v in self.high.items()},
                "nullCount": self.nulls,
            }
        )


def data_files(root: Path, folder: str) -> list[DataFile]:
    """The Parquet files below `root/folder`, with the partition values that their paths spell."""
    return [describe(root, path) for path in sorted((root / folder).rglob("*.parquet")) if path.is_file()]


def describe(root: Path, path: Path) -> DataFile:
    footer = pq.read_metadata(path)
    low, high, nulls = footer_bounds(footer)
    relative = path.relative_to(root)
    partition = dict(_partition_values(relative))
    return DataFile(relative.as_posix(), path.stat().st_size, footer.num_rows, partition, low, high, nulls)


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
    """Bounds and null counts of the integer, date and timestamp columns for which every row group has them."""
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
            low[column.name] = min(s.min for s in bounded)
            high[column.name] = max(s.max for s in bounded)
    return low, high, nulls


def _has_exact_bounds(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def _leaf_position(footer: pq.FileMetaData, name: str) -> int | None:
    if footer.num_row_groups == 0:
        return None
    group = footer.row_group(0)
    paths = [group.column(i).path_in_schema for i in range(group.num_columns)]
    return paths.index(name) if name in paths else None


def _rounded(value: Any, *, up: bool) -> Any:
    if isinstance(value, datetime):
        spare = value.microsecond % 1000
        if up and spare:
            value += timedelta(microseconds=1000 - spare)
        else:
            value -= timedelta(microseconds=spare)
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
