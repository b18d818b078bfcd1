"""A Delta table that somebody else appends to: its new files, version by version, straight from its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from laminar_dagster.engine.sources import delta_errors as errors
from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile
from laminar_dagster.engine.sources.delta_log import DeltaLog, missing
from laminar_dagster.engine.sources.delta_schema import physical_names, same_type, table_fields
from laminar_dagster.engine.sources.footers import Footers
from laminar_dagster.engine.sources.parquet import FILE, parquet_frame
from laminar_dagster.engine.sources.paths import located, path_in_log
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaConnector:
    """Position: the last version taken, and the id of the table whose version it is.

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
            self._check_schema(table)
            return [self._snapshot(table)]
        return self._pending(table, position, limit)

    def _pending(self, table: DeltaTable, position: Any, limit: Limit) -> list[SourceCommit]:
        current = table.version()
        if position is not None and (position["table"] != self._table_id or position["version"] > current):
            raise errors.recreated(self.source, self.path, position["version"], current)
        self._check_schema(table)
        first = 0 if position is None else position["version"] + 1
        return self._commits(range(first, current + 1), physical_names(table), limit)

    def _commits(self, versions: range, physical: dict[str, str], limit: Limit) -> list[SourceCommit]:
        """What can be taken of the versions. One that cannot be read stops the run only when it is the next one."""
        found: list[SourceCommit] = []
        order = 0
        for number in versions:
            try:
                commit = self._commit(number, physical)
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
        return {"version": max(int(commit.id) for commit in commits), "table": self._table_id}

    def _snapshot(self, table: DeltaTable) -> SourceCommit:
        """A table whose past is gone or was rewritten begins with what it holds now, as one commit."""
        adds = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes", "num_records"])
        files = tuple(
            SourceFile(str(self._listed(add["path"])), add["size_bytes"], add["num_records"])
            for add in adds.to_pylist()
        )
        return SourceCommit(self.source.name, str(table.version()), 0, files, snapshot=True)

    def _listed(self, written: str) -> Path:
        """deltalake gives a path decoded; a name that itself has a percent sign must not be decoded twice."""
        plain = self.path / written
        return plain if plain.exists() else path_in_log(self.path, written)

    def _commit(self, number: int, physical: dict[str, str]) -> SourceCommit:
        version = self.log.version(number)
        if version is None:
            raise errors.log_cleaned(self.source, self.path, number)
        files = () if version.rewrites else version.files
        if version.rewrites and self.source.options.get("on_rewrite") != "ignore":
            raise errors.rewritten(self.source, self.path, number)
        gone = missing(files)
        if gone:
            raise errors.vacuumed(self.source, number, gone)
        return SourceCommit(self.source.name, str(number), version.at, self._described(files, physical))

    def _described(self, files: Sequence[SourceFile], physical: dict[str, str]) -> tuple[SourceFile, ...]:
        time = self.source.watermark_column
        logical = {name: column for column, name in physical.items()}
        renamed = [replace(f, partition=tuple((logical.get(n, n), v) for n, v in f.partition)) for f in files]
        return Footers(self.source, physical.get(time, time) if time is not None else None).of(renamed)

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        """A correction reads a snapshot together with what came after it."""
        frames = [self._snapshot_frame(spark, commit) for commit in commits if commit.snapshot]
        others = [commit for commit in commits if not commit.snapshot]
        if others or not frames:
            frames.append(self._versions_frame(spark, others))
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _snapshot_frame(self, spark: SparkSession, commit: SourceCommit) -> DataFrame:
        reader = spark.read.format("delta").option("versionAsOf", commit.id)
        columns = [quoted(field.name) for field in self.fields()]
        return reader.load(str(self.path)).selectExpr(*columns, f"_metadata.file_path AS {FILE}")

    def _versions_frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        with_files = [commit for commit in commits if commit.files]
        return parquet_frame(spark, self.fields(), with_files, physical_names(self._table()))

    def _check_schema(self, table: DeltaTable) -> None:
        found = {field.name: field.type for field in table_fields(table)}
        for field in self.source.columns:
            if field.name not in found:
                raise errors.column_missing(self.source, self.path, field.name, list(found))
            if not same_type(found[field.name], field.type):
                raise errors.column_retyped(self.source, self.path, field, found[field.name])
