"""The reference as a runner of cases: what a case must give, by the rules alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laminar_dagster.conformance.harness import Observed
from laminar_dagster.conformance.laws import rows_are_unique
from laminar_dagster.errors import NotWiredError
from laminar_dagster.plan.build import declared_columns_only, laid_out
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.rules import MISTAKES
from laminar_dagster.plan.window_ids import with_window_ids
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.reference import Commit, EpochResult, Reference, SideEntry
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import parse_script

Row = Mapping[str, Any]


class ReferenceRunner:
    """Every view of a script on the reference, each epoch's output handed to the views that read it.

    A restart changes nothing: the reference is the log's meaning, and the log is still there.
    """

    name = "reference"

    def __init__(self) -> None:
        self._views: list[_View] = []
        self._waiting: list[Commit] = []

    def open(self, sql: str) -> None:
        self._views = [_View(_reference(query)) for query in queries(sql)]

    def commit(self, source: str, rows: Sequence[Row]) -> None:
        self._waiting.append(Commit(source, rows))

    def tick(self, now: int | None) -> None:
        moment = time.time_ns() // 1000 if now is None else now
        commits, self._waiting = self._waiting, []
        for view in self._views:
            commits += view.epoch(commits, moment)

    def restart(self) -> None:
        pass

    def observe(self, view: str) -> Observed:
        return next(known for known in self._views if known.name == view).observed()

    def close(self) -> None:
        pass


@dataclass
class _View:
    reference: Reference
    rows: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    side_output: list[Row] = field(default_factory=list)
    epochs: int = 0

    @property
    def name(self) -> str:
        return self.reference.query.view

    def epoch(self, commits: Sequence[Commit], now: int) -> list[Commit]:
        """One epoch, and what it hands on to the views that read this one."""
        read = {entry.source.name for entry in self.reference.query.inputs}
        result = self.reference.epoch([commit for commit in commits if commit.source in read], now)
        self.epochs += 1
        self.rows += result.rows
        self.changes += self._changelog(result)
        self.side_output += [_entry(entry) for entry in result.side_output]
        handed_on = [*result.rows, *({**c.row, "_weight": c.weight} for c in result.changes)]
        return [Commit(self.name, handed_on, result.watermark)]

    def _changelog(self, result: EpochResult) -> list[Row]:
        return [
            {**c.row, "_op": c.op.value, "_weight": c.weight, "_epoch": self.epochs, "_seq": seq}
            for seq, c in enumerate(result.changes)
        ]

    def observed(self) -> Observed:
        return Observed(
            table=self.reference.table,
            rows=list(self.rows),
            changes=list(self.changes),
            side_output=list(self.side_output),
            watermark=self.reference.watermark,
            unique=rows_are_unique(self.reference.query),
        )


def _entry(entry: SideEntry) -> Row:
    return {"kind": entry.kind, "reason": entry.reason, "row": entry.row}


def queries(sql: str) -> Sequence[Query]:
    """The script's views, upstream first, held against every rule but what the Spark engine cannot run yet."""
    found = resolve(parse_script(sql), declared_columns_only)
    for query in found:
        for rule in MISTAKES:
            for error in rule(query):
                raise error
    return [with_window_ids(query, fingerprint(laid_out(query))) for query in found]


def _reference(query: Query) -> Reference:
    try:
        return Reference(query)
    except NotImplementedError as gap:
        raise NotWiredError("LMR0908", str(gap)) from gap
