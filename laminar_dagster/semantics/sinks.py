"""What CREATE SINK declares: where a view's changes go, and in what form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar_dagster.errors import Span
from laminar_dagster.semantics.emit import SINKS, EmitPolicy

APPEND, UPSERT, CHANGELOG = "append", "upsert", "changelog"


@dataclass(frozen=True)
class DeclaredSink:
    """A target of a view's changes.

    `mode` is what the target gets: `append` new rows alone, `upsert` the newest row of each key, `changelog` every
    change. `takes` is the row of the sinks' table (semantics/emit.py) that says which strategies go with it. `key` are
    the columns that tell results apart: what an upsert goes by, and a message's key. `options` are those of the
    connector: path, format, brokers, topic. `entries`: it gets the side output's entries of this kind, and no results.
    """

    name: str
    view: str
    connector: str
    mode: str
    takes: str
    key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    entries: str | None = None
    where: Span | None = field(default=None, compare=False)

    def accepts(self, policy: EmitPolicy) -> bool:
        return policy in SINKS[self.takes].accepts

    @property
    def target(self) -> str:
        """Where it goes, as people call it."""
        return self.options.get("path") or f"topic {self.options['topic']}"
