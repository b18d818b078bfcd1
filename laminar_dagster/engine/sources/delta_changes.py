"""A Delta table with a change data feed: each version's inserts, and its deletions and old values as retractions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.sources import delta_errors as errors
from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.delta import DeltaConnector
from laminar_dagster.engine.sources.delta_columns import Columns
from laminar_dagster.engine.sources.delta_log import actions_of
from laminar_dagster.engine.sources.delta_schema import is_mapped
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.paths import file_url
from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics.types import BIGINT, STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENABLED = "delta.enableChangeDataFeed"
WEIGHT_SQL = f"CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1L ELSE -1L END AS {WEIGHT_COLUMN}"
VERSION = "_commit_version"
# Versions that bring no rows of their own: OPTIMIZE, new properties, a new comment.
CHANGES = ("add", "remove", "cdc")


class DeltaChangesConnector(DeltaConnector):
    """Position as of any Delta table. A version is one commit; its file is its entry in the table's log.

    What exactly a version changed (deletion vectors, change files, whole files), only Delta's own reader knows.
    """

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        table = self._table()
        self._require_feed(table)
        if position is None and not self._fed_from_the_beginning(table.version()):
            return [self._snapshot(table)]
        return self._pending(table, position, limit)

    def _require_feed(self, table: DeltaTable) -> None:
        if table.metadata().configuration.get(ENABLED) != "true":
            raise errors.no_change_feed(self.source, self.path)

    def _fed_from_the_beginning(self, current: int) -> bool:
        """Whether the table had its feed, and still has its log, from the first version on."""
        if not all(self.log.file(number).exists() for number in range(current + 1)):
            return False
        first = DeltaTable(str(self.path), version=0)
        return bool(first.metadata().configuration.get(ENABLED) == "true")

    def _commit(self, number: int, _: Columns) -> SourceCommit:
        version = self.log.version(number)
        if version is None:
            raise errors.log_cleaned(self.source, self.path, number)
        entry = self.log.file(number)
        rows = _rows_changed(entry.read_bytes())
        files = () if rows is None else (SourceFile(str(entry), entry.stat().st_size, rows),)
        return SourceCommit(self.source.name, str(number), version.at, files, identity=version.identity)

    def _snapshot_frame(self, spark: SparkSession, table: DeltaTable, commit: SourceCommit) -> DataFrame:
        return super()._snapshot_frame(spark, table, commit).selectExpr("*", f"1L AS {WEIGHT_COLUMN}")

    def _versions_frame(self, spark: SparkSession, table: DeltaTable, commits: Sequence[SourceCommit]) -> DataFrame:
        versions = [(int(commit.id), file_url(file.path)) for commit in commits for file in commit.files]
        spans = self._spans(sorted(number for number, _ in versions), splits=is_mapped(table))
        changes = [self._changes(spark, table, first, last) for first, last in spans]
        files = inline_table(spark, {VERSION: BIGINT, FILE: STRING}, versions)
        rows = reduce(lambda one, other: one.unionByName(other), changes).join(files, VERSION)
        return rows.selectExpr(*(held_sql(field.name) for field in self.fields()), WEIGHT_COLUMN, FILE)

    def _changes(self, spark: SparkSession, table: DeltaTable, first: int, last: int) -> DataFrame:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        rows = reader.option("startingVersion", first).option("endingVersion", last).load(str(self.path))
        # With column mapping the feed has the names of the last version that is read (engine/session.py).
        columns = self._as_of(table, last if is_mapped(table) else table.version())
        return rows.selectExpr(*columns, WEIGHT_SQL, VERSION)

    def _spans(self, versions: Sequence[int], *, splits: bool) -> list[tuple[int, int]]:
        """From the first version to the last; in parts if the feed cannot be read across a change of names."""
        first, last = versions[0], versions[-1]
        changed = [n for n in range(first + 1, last + 1) if splits and b'"metaData"' in (self.log.entry(n) or b"")]
        starts = [first, *changed]
        ends = [*(start - 1 for start in changed), last]
        return [(a, b) for a, b in zip(starts, ends, strict=True) if any(a <= number <= b for number in versions)]

    def _data_files(self, commit: SourceCommit) -> Sequence[SourceFile]:
        if commit.snapshot:
            return commit.files
        entries = [Path(file.path) for file in commit.files if Path(file.path).exists()]
        return [file for entry in entries for file in self._read_for(entry)]

    def unreadable(self, commits: Sequence[SourceCommit]) -> list[Path]:
        """Files that versions need besides their entries in the log, and that are gone."""
        files = [file for commit in commits if not commit.snapshot for file in self._data_files(commit)]
        return [Path(file.path) for file in files if not Path(file.path).exists()]

    def _read_for(self, entry: Path) -> list[SourceFile]:
        """The files that tell what a version changed: its change files, or else what it added and removed."""
        changing = _changing(entry.read_bytes())
        told = [change for kind, change in changing if kind == "cdc"]
        return [self.log.source_file(change) for change in told or [change for _, change in changing]]


def _changing(entry: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a version that change rows."""
    actions = actions_of(entry)
    found = [(kind, action[kind]) for action in actions for kind in CHANGES if kind in action]
    return [(kind, change) for kind, change in found if change.get("dataChange", True) or kind == "cdc"]


def _rows_changed(entry: bytes) -> int | None:
    """About how many rows a version changes; None where it changes none."""
    changing = _changing(entry)
    if not changing:
        return None
    return sum(int(json.loads(change["stats"]).get("numRecords", 0)) for _, change in changing if change.get("stats"))
