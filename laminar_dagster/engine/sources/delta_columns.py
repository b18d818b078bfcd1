"""Whether a Delta table's columns are those that rows were read from: names stay, and what they name may change.

With column mapping a column can be dropped and added anew, or renamed, and no file is touched. Rows from before would
then be read as NULL, or as another column's, in the place of what a view has taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from laminar_dagster.engine.sources.commits import SourceFile
from laminar_dagster.engine.sources.delta_schema import is_mapped, names_in_files, own_names
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.spark_sql import quoted


class Columns:
    """The names in files of a table's columns, as the table is now."""

    def __init__(self, table: DeltaTable, fields: Sequence[Field]) -> None:
        names = {field.name for field in fields}
        self._now = names_in_files(table, names)
        self._own = own_names(table, names)
        self.is_mapped = is_mapped(table)

    def in_files(self, column: str) -> str:
        return self._now.get(quoted(column), column)

    @property
    def recorded(self) -> tuple[tuple[str, str], ...]:
        """What a commit remembers; nothing without column mapping."""
        return tuple(self._now.items()) if self.is_mapped else ()

    def changed_since(self, recorded: Mapping[str, str]) -> dict[str, str]:
        """The columns that are others now, and what files called them then. One that was added since is none."""
        before = recorded or self._own
        return {path: name for path, name in before.items() if self._now.get(path, name) != name}


def first_held(changed: Mapping[str, str], files: Sequence[SourceFile]) -> str | None:
    """A column of which the files have values under its former name."""
    if not changed:
        return None
    held = [_names_in(file) for file in files]
    return next((path for path, name in changed.items() if any(f".{name}." in names for names in held)), None)


def _names_in(file: SourceFile) -> str:
    """All names in a file, between dots; of one that is gone, others say so."""
    if not Path(file.path).exists():
        return ""
    schema = pq.read_metadata(file.path).schema
    inside = [schema.column(i).path for i in range(len(schema))]
    return f".{'.'.join([*inside, *(name for name, _ in file.partition)])}."
