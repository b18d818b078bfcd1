"""Where a subscriber stands in a changelog."""

from __future__ import annotations

import re
from dataclasses import dataclass

from laminar_dagster.errors import LaminarError
from state_store.changelog import AFTER_ALL, RowPlace

_TEXT = re.compile(r"(?:(?P<snapshot>snapshot:)(?=\d+:))?(?P<epoch>\d+)(?::(?P<seq>\d+))?")


@dataclass(frozen=True)
class Position:
    """How far a subscriber has come: through `epoch`, or through the row `seq` of it.

    `in_snapshot`: through the row `seq` of the snapshot that stands for all epochs up to `epoch`.
    As text: `12`, `12:345`, `snapshot:12:345`.
    """

    epoch: int = 0
    seq: int | None = None
    in_snapshot: bool = False

    @staticmethod
    def parse(text: str) -> Position:
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise LaminarError(
                "LMR0710",
                f'"{text}" is no position in a changelog',
                hint="Write an epoch (12), a row of an epoch (12:345), or what an earlier subscription gave.",
            )
        seq = None if found["seq"] is None else int(found["seq"])
        return Position(int(found["epoch"]), seq, found["snapshot"] is not None)

    @staticmethod
    def of(since: Position | int | str) -> Position:
        if isinstance(since, Position):
            return since
        return Position.parse(str(since))

    @property
    def place(self) -> RowPlace:
        """The last row that was seen."""
        return self.epoch, AFTER_ALL if self.seq is None else self.seq

    def __str__(self) -> str:
        row = "" if self.seq is None else f":{self.seq}"
        return f"{'snapshot:' if self.in_snapshot else ''}{self.epoch}{row}"


START = Position()
