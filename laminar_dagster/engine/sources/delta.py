"""A Delta table that somebody else appends to: its new files, version by version, straight from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from laminar_dagster.engine.column_names import held_sql
from laminar_dagster.engine.sources import delta_errors as errors
from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.delta_columns import Columns, first_held
from laminar_dagster.engine.sources.delta_log import DeltaLog, missing
from laminar_dagster.engine.sources.delta_schema import is_mapped, is_nested, same_type, stored_fields, table_fields
from laminar_dagster.engine.sources.footers import Footers
from laminar_dagster.engine.sources.parquet import parquet_frame, partition_value, with_file
from laminar_dagster.engine.sources.paths import located, path_in_log
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaConnector:
    """Position: the last version taken, and the id of the table whose version it is. `identity` tells the version from
    another of that number, and `columns` what files called the columns then.

    A version that only adds rows is a commit; one that rewrites is refused, unless the source passes over them.
    """

    keeps_ledger = False

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.path = located(root, source.options["path"])
        self.log = DeltaLog(self.path)
        self._table_id: str | None = None

    def _table(self) -> DeltaTable:
        try:
            table = DeltaTable(str(self.path))
        except TableNotFoundError:
            raise errors.not_found(self.source, self.path) from None
        self._table_id = str(table.metadata().id)
        return table

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns or table_fields(self._table())

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        table = self._table()
        if position is None and not self.log.replayable(table.version()):
            return [self._snapshot(table)]
        return self._pending(table, position, limit)

    def _pending(self, table: DeltaTable, position: Any, limit: Limit) -> list[SourceCommit]:
        self._require_same(table, position)
        columns = self._checked(table)
        changed = {} if position is None else columns.changed_since(position["columns"])
        first = 0 if position is None else position["version"] + 1
        return self._commits(range(first, table.version() + 1), columns, changed, limit)

    def _require_same(self, table: DeltaTable, position: Any) -> None:
        """The position must still be one of this table's. What cleaning the log has taken away cannot be compared."""
        if position is None:
            return
        version, current = position["version"], table.version()
        if position["table"] != self._table_id:
            raise errors.another_table(self.source, self.path, version, current)
        if version > current:
            raise errors.cut_back(self.source, self.path, version, current)
        self._require_identity(version, position["identity"])

    def _require_identity(self, version: int, identity: str | None) -> None:
        if identity is not None and self.log.identity(version) not in (None, identity):
            raise errors.another_commit(self.source, self.path, version)

    def _commits(
        self, versions: range, columns: Columns, changed: Mapping[str, str], limit: Limit
    ) -> list[SourceCommit]:
        """What can be taken of the versions. One that cannot be read stops the run only when it is the next one."""
        found: list[SourceCommit] = []
        order = 0
        for number in versions:
            try:
                commit = replace(self._commit(number, columns), columns=columns.recorded)
                self._require_columns(commit, changed)
            except LaminarError:
                if found:
                    limit.leave(self.source.name, order)
                    break
                raise
            # Writers' clocks differ; versions never change places.
            order = max(order, commit.order)
            if commit.files and not limit.take(commit) and any(c.files for c in found):
                break
            found.append(replace(commit, order=order))
        return found

    def backlog(self, position: Any) -> int:
        return int(self._table().version() - (-1 if position is None else position["version"]))

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        if not commits:
            return position
        if self._table_id is None:
            self._table()
        last = max(commits, key=lambda commit: int(commit.id))
        return {
            "version": int(last.id),
            "table": self._table_id,
            "identity": last.identity,
            "columns": dict(last.columns),
        }

    def _snapshot(self, table: DeltaTable) -> SourceCommit:
        """A table whose past is gone or was rewritten begins with what it holds now, as one commit."""
        columns = self._checked(table)
        adds = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes", "num_records"])
        files = tuple(
            SourceFile(str(self._listed(add["path"])), add["size_bytes"], add["num_records"])
            for add in adds.to_pylist()
        )
        version = table.version()
        return SourceCommit(
            self.source.name,
            str(version),
            0,
            files,
            snapshot=True,
            identity=self.log.identity(version),
            columns=columns.recorded,
        )

    def _listed(self, written: str) -> Path:
        """deltalake gives a path decoded; a name that itself has a percent sign must not be decoded twice."""
        plain = self.path / written
        return plain if plain.exists() else path_in_log(self.path, written)

    def _commit(self, number: int, columns: Columns) -> SourceCommit:
        version = self.log.version(number)
        if version is None:
            raise errors.log_cleaned(self.source, self.path, number)
        files = () if version.rewrites else version.files
        if version.rewrites and self.source.options.get("on_rewrite") != "ignore":
            raise errors.rewritten(self.source, self.path, number)
        gone = missing(files)
        if gone:
            raise errors.vacuumed(self.source, number, gone)
        described = self._described(files, columns)
        return SourceCommit(self.source.name, str(number), version.at, described, identity=version.identity)

    def _described(self, files: Sequence[SourceFile], columns: Columns) -> tuple[SourceFile, ...]:
        time = self.source.watermark_column
        return Footers(self.source, None if time is None else columns.in_files(time)).of(files)

    # --- rows ----------------------------------------------------------------------------------------------------

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        """A correction reads a snapshot together with what came after it."""
        table = self._table()
        self._require_all_columns(table, commits)
        frames = [self._snapshot_frame(spark, table, commit) for commit in commits if commit.snapshot]
        others = [commit for commit in commits if not commit.snapshot]
        if others or not frames:
            frames.append(self._versions_frame(spark, table, others))
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _snapshot_frame(self, spark: SparkSession, table: DeltaTable, commit: SourceCommit) -> DataFrame:
        reader = spark.read.format("delta").option("versionAsOf", commit.id)
        columns = self._as_of(table, int(commit.id))
        whole = reader.load(str(self.path))
        return with_file(whole, columns, whole.columns)

    def _as_of(self, table: DeltaTable, version: int) -> list[str]:
        """The columns out of what Delta's own reader gives of a version: under the names that they had then."""
        try:
            then = table if version == table.version() else DeltaTable(str(self.path), version=version)
        except DeltaError:
            raise errors.log_cleaned(self.source, self.path, version) from None
        names = {stored.name: (name, stored.type) for name, stored in stored_fields(then).items()}
        now = stored_fields(table)
        values = [self._value_as_of(version, names.get(now[f.name].name), now[f.name], f) for f in self.fields()]
        partitioned = {f.name for f in self.fields() if f.name in table.metadata().partition_columns}
        return [
            f"{partition_value(v, f) if f.name in partitioned else v} AS {held_sql(f.name)}"
            for v, f in zip(values, self.fields(), strict=True)
        ]

    def _value_as_of(self, version: int, then: tuple[str, DataType] | None, now: Field, field: Field) -> str:
        """One that was not there then is NULL, as it is in a file from before it."""
        if then is None:
            return f"CAST(NULL AS {field.type})"
        name, type_ = then
        if type_ == now.type:
            return quoted(name) if type_ == field.type else f"CAST({quoted(name)} AS {field.type})"
        if is_nested(type_):
            raise errors.column_changed(self.source, self.path, field.name, str(version))
        return quoted(name)

    def _versions_frame(self, spark: SparkSession, table: DeltaTable, commits: Sequence[SourceCommit]) -> DataFrame:
        with_files = [commit for commit in commits if commit.files]
        stored = stored_fields(table) if is_mapped(table) else None
        return parquet_frame(spark, self.fields(), with_files, stored)

    # --- what is no longer what was read -------------------------------------------------------------------------

    def require_as_taken(self, commits: Sequence[SourceCommit], position: Any) -> None:
        """What was taken must still be this table's, and mean the same, before any of it is read again."""
        table = self._table()
        self._require_same(table, position)
        self._require_all_columns(table, commits)
        for commit in commits:
            self._require_identity(int(commit.id), commit.identity)

    def _checked(self, table: DeltaTable) -> Columns:
        """The table's columns, after they were compared with what CREATE SOURCE says."""
        found = {field.name: field.type for field in table_fields(table)}
        for field in self.source.columns:
            if field.name not in found:
                raise errors.column_missing(self.source, self.path, field.name, list(found))
            if not same_type(found[field.name], field.type):
                raise errors.column_retyped(self.source, self.path, field, found[field.name])
        return Columns(table, self.fields())

    def _require_all_columns(self, table: DeltaTable, commits: Sequence[SourceCommit]) -> None:
        columns = self._checked(table)
        for commit in commits:
            self._require_columns(commit, columns.changed_since(dict(commit.columns)))

    def _require_columns(self, commit: SourceCommit, changed: Mapping[str, str]) -> None:
        if changed and (name := first_held(changed, self._data_files(commit))) is not None:
            raise errors.column_changed(self.source, self.path, name, commit.id)

    def _data_files(self, commit: SourceCommit) -> Sequence[SourceFile]:
        return commit.files
