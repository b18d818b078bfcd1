"""SQL over Arrow tables and Parquet files in this process, by DuckDB: for what is too small for a Spark job."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHARE_OF_MEMORY = 4  # the rest is for Spark, which may run beside it


@contextmanager
def connection() -> Iterator[DuckDBPyConnection]:
    """A connection of its own to this process's database, in UTC; what does not fit memory goes to temporary files."""
    cursor = _database(os.getpid()).cursor()
    try:
        yield cursor
    finally:
        cursor.close()


@cache
def _database(process: int) -> DuckDBPyConnection:
    """Opening one takes some ten milliseconds; a connection to it, one. A fork must not use its parent's."""
    database = duckdb.connect()
    spill = Path(tempfile.gettempdir(), f"laminar-duckdb-{process}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // SHARE_OF_MEMORY
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    database.execute(f"SET GLOBAL memory_limit = '{memory >> 20}MiB'")
    database.execute(f"SET GLOBAL temp_directory = {text(str(spill))}")
    return database


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def json_value(column: str, name: str) -> str:
    """The text under a name in a JSON object. A pointer takes every name; a path cannot say one with a backslash."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    return f"json_extract_string({column}, {text(pointer)})"


def parquet(paths: Sequence[str], *options: str) -> str:
    """The files as a table; a path means itself, also where it reads like a pattern."""
    listed = ", ".join(text(re.sub(r"([\[*?])", r"[\1]", path)) for path in paths)
    return f"read_parquet([{listed}], {', '.join(['union_by_name = true', 'hive_partitioning = false', *options])})"
