"""A Delta table that somebody else appends to: its new files, version by version, straight from its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile, with_footers
from laminar_dagster.engine.sources.parquet import FILE, parquet_frame
from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import DataType, parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PHYSICAL_NAME = "delta.columnMapping.physicalName"


class DeltaConnector:
    """Position: the last version taken. A version that only adds rows is a commit; one that rewrites is refused."""

    keeps_ledger = False

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.path = root / source.options["path"]

    def _table(self) -> DeltaTable:
        try:
            return DeltaTable(str(self.path))
        except TableNotFoundError:
            raise LaminarError(
                "LMR0602",
                f'source "{self.source.name}" has no Delta table at {self.path}',
                hint="Create the table, or correct `path` in CREATE SOURCE (it is relative to the project).",
            ) from None

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns or table_fields(self._table())

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        table = self._table()
        current = table.version()
        self._check_schema(table)
        if position is None and not self._replayable(current):
            return [self._snapshot(table)]
        found: list[SourceCommit] = []
        for version in range(0 if position is None else position + 1, current + 1):
            commit = self._commit(version)
            if not commit.files:
                found.append(commit)
                continue
            if not limit.take(commit) and any(c.files for c in found):
                break
            found.append(commit)
        return found

    def backlog(self, position: Any) -> int:
        return int(self._table().version() - (-1 if position is None else position))

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return int(commits[-1].id) if commits else position

    def _log_file(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020d}.json"

    def _replayable(self, current: int) -> bool:
        """Whether the whole history is still there, so that lateness can be judged version by version."""
        if not all(self._log_file(version).exists() for version in range(current + 1)):
            return False
        files = [add for version in range(current + 1) for add in self._actions(version)[0]]
        rewritten = any(self._actions(version)[1] for version in range(current + 1))
        return not rewritten and all((self.path / unquote(add["path"])).exists() for add in files)

    def _snapshot(self, table: DeltaTable) -> SourceCommit:
        """A table whose past is gone or was rewritten begins with what it holds now, as one commit."""
        files = tuple(SourceFile(str(self.path / unquote(uri)), 0, None) for uri in _paths(table))
        return SourceCommit(self.source.name, str(table.version()), 0, files, snapshot=True)

    def _actions(self, version: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
        adds, removes, at = [], [], 0
        for line in self._log_file(version).read_text().splitlines():
            action = json.loads(line)
            if "add" in action and action["add"].get("dataChange", True):
                adds.append(action["add"])
            if "remove" in action and action["remove"].get("dataChange", True):
                removes.append(action["remove"])
            at = action.get("commitInfo", {}).get("timestamp", at)
        return adds, removes, at

    def _commit(self, version: int) -> SourceCommit:
        if not self._log_file(version).exists():
            raise self._lost(version)
        adds, removes, at = self._actions(version)
        if removes:
            if self.source.options.get("on_rewrite") != "ignore":
                raise self._rewritten(version)
            adds = []
        files = [
            SourceFile(str(self.path / unquote(add["path"])), add["size"], None, partition=_partition(add))
            for add in adds
        ]
        known = with_footers(files, self.source.watermark_column)
        return SourceCommit(self.source.name, str(version), at, known)

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        if commits[0].snapshot:
            reader = spark.read.format("delta").option("versionAsOf", commits[0].id)
            columns = [quoted(field.name) for field in self.fields()]
            return reader.load(str(self.path)).selectExpr(*columns, f"_metadata.file_path AS {FILE}")
        with_files = [commit for commit in commits if commit.files]
        return parquet_frame(spark, self.fields(), with_files, _physical_names(self._table()))

    # --- what can be wrong ---------------------------------------------------------------------------------

    def _check_schema(self, table: DeltaTable) -> None:
        found = {field.name: field.type for field in table_fields(table)}
        for field in self.source.columns:
            if field.name not in found:
                raise self._changed(f'column "{field.name}" is not in the table', field.name, list(found))
            if found[field.name] != field.type:
                raise self._changed(
                    f'column "{field.name}" is {found[field.name]} in the table and {field.type} in CREATE SOURCE',
                    field.name,
                    list(found),
                )

    def _changed(self, detail: str, name: str, columns: list[str]) -> LaminarError:
        hint = did_you_mean(name, [c for c in columns if c != name], "")
        return LaminarError(
            "LMR0603",
            f'the schema of source "{self.source.name}" does not fit its declaration',
            detail=f"{self.path}: {detail}",
            hint=f"Correct CREATE SOURCE, or put the column back. {hint or ''}".strip(),
            committed="Nothing was read; all earlier epochs stand.",
        )

    def _rewritten(self, version: int) -> LaminarError:
        return LaminarError(
            "LMR0604",
            f'version {version} of source "{self.source.name}" removes or rewrites rows that were already read',
            detail=f"{self.path} is read as append only; version {version} is a DELETE, UPDATE, MERGE or overwrite.",
            hint="Read the table as a change feed (changes = 'cdf'), or say on_rewrite = 'ignore' in CREATE SOURCE to "
            "pass over such versions.",
            committed=f"All versions before {version} can be taken; nothing of version {version} was.",
        )

    def _lost(self, version: int) -> LaminarError:
        return LaminarError(
            "LMR0605",
            f'version {version} of source "{self.source.name}" is no longer in the table\'s log',
            detail=f"{self.path}: the log was cleaned beyond the last version that this view read ({version - 1}).",
            hint="Rows between the two cannot be known any more. Rebuild the view in a new data directory, and keep "
            "the log longer (delta.logRetentionDuration) than the longest pause between runs.",
            committed=f"Everything up to version {version - 1} is committed.",
        )


def table_fields(table: DeltaTable) -> tuple[Field, ...]:
    return schema_fields(table.schema())


def schema_fields(schema: Schema) -> tuple[Field, ...]:
    document = json.loads(schema.to_json())
    return tuple(Field(entry["name"], _type_of(entry["type"])) for entry in document["fields"])


def _type_of(delta: Any) -> DataType:
    names = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
    if not isinstance(delta, str):
        return DataType(json.dumps(delta, sort_keys=True))
    return parse_type(names.get(delta, delta))


def _physical_names(table: DeltaTable) -> dict[str, str]:
    document = json.loads(table.schema().to_json())
    return {
        entry["name"]: entry["metadata"][PHYSICAL_NAME]
        for entry in document["fields"]
        if PHYSICAL_NAME in entry.get("metadata", {})
    }


def _paths(table: DeltaTable) -> list[str]:
    return [str(path) for path in pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()]


def _partition(add: dict[str, Any]) -> tuple[tuple[str, str | None], ...]:
    return tuple(add.get("partitionValues", {}).items())
