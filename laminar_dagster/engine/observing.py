"""What a source holds right now, as far as its own log or its directory tells. No Spark."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from laminar_dagster.engine.sources.files import FilesConnector
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.semantics.query import Source
from laminar_dagster.semantics.watermark import source_of
from state_store import DeltaDirectory, StoreReader

Observed = dict[str, int]


def observed(source: Source, root: Path) -> Observed:
    """Version, rows, files and bytes, where they can be had; nothing of a topic, or of what is not there yet."""
    if source.connector == "delta":
        return _of_table(located(root, source.options["path"]))
    if source.connector == "files":
        return _of_directory(FilesConnector(source, root))
    return {}


def _of_table(path: Path) -> Observed:
    try:
        table = DeltaTable(str(path))
    except TableNotFoundError:
        return {}
    files = DeltaDirectory(path).files()
    return {
        "version": table.version(),
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.size for file in files),
    }


def _of_directory(connector: FilesConnector) -> Observed:
    if not connector.path.is_dir():
        return {}
    sizes = [path.stat().st_size for path in connector.listed()]
    return {"files": len(sizes), "bytes": sum(sizes)}


def watermark_in(reader: StoreReader, source: str) -> int | None:
    """How far a view that reads the source has seen its event time come: the least over its shards."""
    commit = reader.commit() if reader.exists else None
    if commit is None:
        return None
    times = [clock[0] for shard, clock in commit.shards.items() if source_of(shard) == source]
    return min((time for time in times if time is not None), default=None)
