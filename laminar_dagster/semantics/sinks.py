"""What CREATE SINK declares: where a view's changes go, and in what form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar_dagster.errors import Span
from laminar_dagster.semantics.emit import SINKS, EmitPolicy
from laminar_dagster.semantics.time import SECOND

APPEND, UPSERT, CHANGELOG = "append", "upsert", "changelog"
DROP, WAIT, FAIL = "drop", "wait", "fail"


@dataclass(frozen=True)
class Saturation:
    """How much a route out of the side output may take of an epoch, and what becomes of the rest.

    `drop`: the rest is counted, and stays in the table. `wait`: there is no bound but the target's own. `fail`: the run
    ends with an error, and the next one tries again.
    """

    policy: str = DROP
    rows: int | None = None
    bytes: int | None = None
    micros: int = 5 * SECOND


@dataclass(frozen=True)
class DeclaredSink:
    """A target of a view's changes.

    `mode` is what the target gets: `append` new rows alone, `upsert` the newest row of each key, `changelog` every
    change. `takes` is the row of the sinks' table (semantics/emit.py) that says which strategies go with it. `key` are
    the columns that tell results apart: what an upsert goes by, and a message's key; none, where a view has one row,
    and None where nothing tells its rows apart. `options` are those of the
    connector: path, format, brokers, topic. `entries`: it gets the side output's entries of this kind, and no results;
    `saturation` is how it deals with more of them than it can take.
    """

    name: str
    view: str
    connector: str
    mode: str
    takes: str
    key: tuple[str, ...] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    entries: str | None = None
    saturation: Saturation = field(default=Saturation(), compare=False)
    where: Span | None = field(default=None, compare=False)

    def accepts(self, policy: EmitPolicy) -> bool:
        return policy in SINKS[self.takes].accepts

    @property
    def target(self) -> str:
        """Where it goes, as people call it."""
        return self.options.get("path") or f"topic {self.options['topic']}"
