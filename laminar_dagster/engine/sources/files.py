"""A directory of JSON lines, CSV or Parquet files: each file is a commit, in the order in which it was first seen."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.sources.commits import Limit, SourceCommit, SourceFile, schema_sql, with_footers
from laminar_dagster.engine.sources.parquet import FILE, parquet_frame
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.spark_sql import quoted
from laminar_dagster.semantics.types import STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW = "_raw"
MALFORMED = "_malformed"
SUFFIXES = {"json": (".json", ".jsonl", ".ndjson"), "csv": (".csv",), "parquet": (".parquet",)}


class FilesConnector:
    """Position: every file taken, with its size. A file that changes after it was read is an error, not a loss."""

    keeps_ledger = True

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.path = root / source.options["path"]
        self.format = source.options["format"]

    def fields(self) -> tuple[Field, ...]:
        return self.source.columns

    def pending(self, position: Any, limit: Limit) -> list[SourceCommit]:
        found: list[SourceCommit] = []
        for path, size, order in self._new(position or {}):
            file = SourceFile(str(path), size)
            known = with_footers([file], self.source.watermark_column) if self.format == "parquet" else (file,)
            commit = SourceCommit(self.source.name, path.relative_to(self.path).as_posix(), order, known)
            if not limit.take(commit) and found:
                break
            found.append(commit)
        return found

    def _new(self, seen: dict[str, int]) -> list[tuple[Path, int, int]]:
        if not self.path.is_dir():
            raise LaminarError(
                "LMR0602",
                f'source "{self.source.name}" has no directory at {self.path}',
                hint="Create the directory, or correct `path` in CREATE SOURCE (it is relative to the project).",
            )
        listed: list[tuple[int, Path, int]] = []
        for path in self.path.rglob("*"):
            if path.suffix.lower() not in SUFFIXES[self.format] or path.name.startswith(("_", ".")):
                continue
            status = path.stat()
            name = path.relative_to(self.path).as_posix()
            if name not in seen:
                listed.append((status.st_mtime_ns // 1_000_000, path, status.st_size))
            elif seen[name] != status.st_size:
                raise self._changed(name, seen[name], status.st_size)
        return [(path, size, at) for at, path, size in sorted(listed)]

    def _changed(self, name: str, before: int, now: int) -> LaminarError:
        return LaminarError(
            "LMR0606",
            f'file "{name}" of source "{self.source.name}" changed after it was read',
            detail=f"It had {before} bytes when it was read and has {now} now; a file is read once, as a whole.",
            hint="Write new rows to new files (write under a name that begins with `_` or `.`, then rename). To go on, "
            "put the old content back and add the new rows as a file of their own.",
            committed="Everything read so far is committed; nothing of this run is.",
        )

    def backlog(self, position: Any) -> int:
        return len(self._new(position or {}))

    def position_after(self, commits: Sequence[SourceCommit], position: Any) -> Any:
        return {**(position or {}), **{commit.id: commit.files[0].size for commit in commits}}

    def frame(self, spark: SparkSession, commits: Sequence[SourceCommit]) -> DataFrame:
        if self.format == "parquet":
            return parquet_frame(spark, self.fields(), commits)
        paths = [file.path for commit in commits for file in commit.files]
        return self._json(spark, paths) if self.format == "json" else self._csv(spark, paths)

    def _json(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        """Line by line: a line that is no JSON object of the declared types is kept whole as malformed."""
        lines = spark.read.text(paths).selectExpr("value", f"_metadata.file_path AS {FILE}")
        ddl = f"{schema_sql(self.fields())}, {MALFORMED} STRING".replace("'", "\\'")
        options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{MALFORMED}')"
        parsed = lines.filter("trim(value) <> ''").selectExpr(
            f"from_json(value, '{ddl}', {options}) AS j", f"value AS {RAW}", FILE
        )
        names = [f"j.{quoted(field.name)}" for field in self.fields()]
        bad = f"CASE WHEN j IS NULL OR j.{MALFORMED} IS NOT NULL THEN {RAW} END AS {MALFORMED}"
        return parsed.selectExpr(*names, RAW, bad, FILE)

    def _csv(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        by_header: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for path in paths:
            by_header[self._header(path)].append(path)
        parts = [self._csv_part(spark, header, group) for header, group in by_header.items()]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionByName(part)
        return whole

    def _has_header(self) -> bool:
        return self.source.options.get("header", "true").lower() == "true"

    def _delimiter(self) -> str:
        return self.source.options.get("delimiter", ",")

    def _header(self, path: str) -> tuple[str, ...]:
        """The file's own column names; the declared ones where it has no header line."""
        if not self._has_header():
            return tuple(field.name for field in self.fields())
        with Path(path).open(newline="", encoding="utf-8-sig", errors="replace") as handle:
            first = next(csv.reader(handle, delimiter=self._delimiter()), [])
        return tuple(name.strip() for name in first)

    def _csv_part(self, spark: SparkSession, header: tuple[str, ...], paths: list[str]) -> DataFrame:
        declared = {field.name.lower(): field for field in self.fields()}
        columns = [declared.get(name.lower(), Field(f"_ignored_{i}", STRING)) for i, name in enumerate(header)]
        ddl = f"{schema_sql(columns)}, {MALFORMED} STRING" if columns else f"{MALFORMED} STRING"
        reader = spark.read.schema(ddl).options(
            header=self._has_header(),
            sep=self._delimiter(),
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=MALFORMED,
            enforceSchema=True,
        )
        present = {column.name for column in columns}
        names = [
            quoted(f.name) if f.name in present else f"CAST(NULL AS {f.type}) AS {quoted(f.name)}"
            for f in self.fields()
        ]
        extra = [f"{MALFORMED} AS {RAW}", MALFORMED, f"_metadata.file_path AS {FILE}"]
        return reader.csv(paths).selectExpr(*names, *extra)
