"""Which rows came before: a source's keys, remembered until the watermark has passed the time of the last one seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics.judging import Reading
from laminar_dagster.semantics.query import Source

_OPAQUE = ("ARRAY", "MAP", "STRUCT")


def order_columns(source: Source) -> tuple[str, ...]:
    """What decides, after event time, which of equal keys in one commit came first: the row's values."""
    return tuple(field.name for field in source.columns if not field.type.name.upper().startswith(_OPAQUE))


class SeenKeys:
    """Source and key, to the watermark up to which the key is remembered."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, tuple[Any, ...]], int] = {}

    def repeated(self, readings: Sequence[Reading], watermark: int | None) -> set[int]:
        """The places of the duplicates among a commit's rows; all of its keys are remembered from here on.

        A row without a time, or with NULL in its key, is no duplicate and is not remembered. A duplicate is remembered:
        its key was seen, and the time of the last one counts.
        """
        identified = [(place, found) for place, r in enumerate(readings) if (found := _identified(r)) is not None]
        repeated: set[int] = set()
        for place, row in sorted(identified, key=lambda entry: entry[1].order):
            until = self._until.get(row.key)
            if until is not None and (watermark is None or until > watermark):
                repeated.add(place)
            self._until[row.key] = row.until if until is None else max(until, row.until)
        return repeated


@dataclass(frozen=True)
class _Identified:
    key: tuple[str, tuple[Any, ...]]
    until: int
    order: tuple[Any, ...]


def _identified(reading: Reading) -> _Identified | None:
    source, row, time = reading.entry.source, reading.row, reading.event_time
    if source.unique is None or reading.trouble is not None or time is None:
        return None
    key = tuple(row[name] for name in source.unique.columns)
    values = ((row[name] is not None, row[name]) for name in order_columns(source))
    return None if None in key else _Identified((source.name, key), time + source.unique.within, (time, *values))
