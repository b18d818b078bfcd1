"""CSV files in which a row may go over lines, copied so that Spark gets rows: its own reader loses the text of a row.

Spark splits text at line ends, and its multi-line reader lets one open quote take all that follows. Such files are
therefore cut into rows here, one after the other, into Parquet beside the stores, where executors see them too.
Files without such rows, which most are, are only looked at.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.sources.commits import open_text
from laminar_dagster.engine.sources.csv_records import Rows
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.paths import file_url
from laminar_dagster.semantics.time import DAY, SECOND

FOLDER = ".csv"
VALUE = "value"
_SCHEMA = pa.schema([(VALUE, pa.binary()), (FILE, pa.string())])
_ROWS_AT_ONCE = 1_000


class Copies:
    """The copies that one run makes; they go with it. What a killed run left goes a day later."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._folder: Path | None = None
        self._made: dict[tuple[str, Rows], str] = {}

    def of(self, path: str, rows: Rows) -> str:
        """The Parquet file with the rows of a CSV file."""
        if (path, rows) not in self._made:
            target = self._place() / f"{len(self._made)}.parquet"
            _copy(path, rows, target)
            self._made[path, rows] = str(target)
        return self._made[path, rows]

    def _place(self) -> Path:
        if self._folder is None:
            within = None if self._data is None else self._data / FOLDER
            if within is not None:
                within.mkdir(parents=True, exist_ok=True)
                _forget_old(within)
            self._folder = Path(tempfile.mkdtemp(dir=within))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def opened(path: str) -> TextIO:
    """The text of a file, every byte of it: what is not UTF-8 too, and line ends as they are."""
    return io.TextIOWrapper(open_text(path), encoding="utf-8", errors="surrogateescape", newline="")


def _forget_old(within: Path) -> None:
    for folder in within.iterdir():
        if time.time() - folder.stat().st_mtime > DAY / SECOND:
            shutil.rmtree(folder, ignore_errors=True)


def _copy(path: str, rows: Rows, target: Path) -> None:
    url = file_url(path)
    with opened(path) as text, pq.ParquetWriter(target, _SCHEMA) as writer:
        found = rows.read(text)
        while values := list(_bytes(islice(found, _ROWS_AT_ONCE))):
            writer.write_batch(pa.record_batch([pa.array(values), pa.array([url] * len(values))], _SCHEMA))


def _bytes(rows: Iterator[str]) -> Iterator[bytes]:
    return (row.encode("utf-8", errors="surrogateescape") for row in rows)
