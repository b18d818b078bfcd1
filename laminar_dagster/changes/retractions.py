"""What was emitted for each window, so that a result that late rows change can be taken back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from laminar_dagster.semantics.zset import canonical, identity

T = TypeVar("T")


@dataclass
class _Emitted(Generic[T]):
    result: T
    version: int
    emit_time: int | None


class LateDataRetraction(Generic[T]):
    """Remembers the last result of each window; tells what to retract when another one comes.

    `emitted` counts results (first ones and corrections), `retractions` the corrections among them.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self.emitted = 0
        self.retractions = 0
        self._windows: dict[Hashable, _Emitted[T]] = {}

    def check_retraction(self, window: Hashable, new: T, emit_time: int | None = None) -> tuple[T, T] | None:
        """(old, new) if the window had another result before; from here on it has the new one.

        `emit_time`: when the new result is emitted, in microseconds since 1970 UTC; a result that did not change is not
        emitted again and keeps its own.
        """
        if not self.enabled:
            return None
        known = self._windows.get(window)
        if known is None:
            self._windows[window] = _Emitted(new, 1, emit_time)
            self.emitted += 1
            return None
        if _same(known.result, new):
            return None
        old, known.result, known.emit_time = known.result, new, emit_time
        known.version += 1
        self.emitted += 1
        self.retractions += 1
        return old, new

    def cleanup_window(self, window: Hashable) -> None:
        """Forget a window that can no longer change."""
        self._windows.pop(window, None)

    def version(self, window: Hashable) -> int:
        """How many results of the window were emitted; 0 for one that is not remembered."""
        known = self._windows.get(window)
        return 0 if known is None else known.version

    def emit_time(self, window: Hashable) -> int | None:
        """When the window's last result was emitted; None for one that is not remembered, or if nobody said."""
        known = self._windows.get(window)
        return None if known is None else known.emit_time

    def __len__(self) -> int:
        """How many windows are remembered."""
        return len(self._windows)


def _same(one: object, other: object) -> bool:
    """As rows of a Z-set are the same: the order of columns means nothing, NaN is NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return identity(one) == identity(other)
    return (canonical(one),) == (canonical(other),)
