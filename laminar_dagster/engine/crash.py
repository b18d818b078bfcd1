"""Ends the process in the middle of things, on purpose: how the tests show that any kill is harmless.

`LAMINAR_CRASH_AFTER=n` kills this process (SIGKILL, no clean-up) right after its n-th write.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


class CrashError(BaseException):
    """Stands for a kill inside a process that the test wants to keep; nothing but the test may catch it."""


def crash_point_from_environment() -> Callable[[str], None]:
    after = os.environ.get("LAMINAR_CRASH_AFTER")
    if after is None:
        return lambda _: None
    return _counting(int(after), _kill)


def raising_after(writes: int) -> Callable[[str], None]:
    """A hook that raises CrashError after so many writes."""
    return _counting(writes, _raise)


def _counting(limit: int, end: Callable[[str], None]) -> Callable[[str], None]:
    seen = 0

    def after_write(what: str) -> None:
        nonlocal seen
        seen += 1
        if seen == limit:
            end(what)

    return after_write


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(what: str) -> None:
    raise CrashError(what)
