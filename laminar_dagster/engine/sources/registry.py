"""Which connector reads which kind of source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from laminar_dagster.engine.sources.commits import Connector
from laminar_dagster.engine.sources.delta import DeltaConnector
from laminar_dagster.engine.sources.delta_changes import DeltaChangesConnector
from laminar_dagster.engine.sources.files import FilesConnector
from laminar_dagster.engine.sources.kafka import KafkaConnector
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.engine.sources.view import ViewConnector
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Source

CONNECTORS: dict[str, Callable[[Source, Path], Connector]] = {
    "delta": DeltaConnector,
    "kafka": KafkaConnector,
    "memory": MemoryConnector,
}


def connect(source: Source, root: Path, data: Path) -> Connector:
    """The connector of a source; relative paths are below `root`, other views' stores below `data`."""
    if source.connector == VIEW_CONNECTOR:
        return ViewConnector(source, root, data)
    if source.connector == "files":
        return FilesConnector(source, root, data)
    if source.connector == "delta" and source.takes_retractions:
        return DeltaChangesConnector(source, root)
    return CONNECTORS[source.connector](source, root)
