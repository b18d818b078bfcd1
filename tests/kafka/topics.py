"""A view over a topic: produce, run, look."""

from __future__ import annotations

from pathlib import Path

from tests.engine.sources.views import COLUMNS, SELECT, View, json_line, source
from tests.kafka.broker import Broker, Message

Row = tuple[str | None, int | None, float | None]


def topic_view(
    root: Path, broker: Broker, topic: str, columns: str = COLUMNS, select: str = SELECT, **more: str
) -> View:
    options = {"connector": "kafka", "brokers": broker.address, "topic": topic, "format": "json", **more}
    root.mkdir(exist_ok=True)
    return View(root, source(columns=columns, **options) + select)


def row(k: str | None, v: int | None, seconds: float | None, partition: int = 0) -> Message:
    return Message(json_line(k, v, seconds).encode(), partition=partition)


def rows(partition: int, *entries: Row) -> list[Message]:
    return [row(*entry, partition=partition) for entry in entries]
