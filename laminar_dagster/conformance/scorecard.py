"""What a run of cases comes to: for machines as JSON, for people as a table, for a shell as an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Status(Enum):
    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True)
class CaseResult:
    name: str
    status: Status
    detail: str
    seconds: float


@dataclass(frozen=True)
class Scorecard:
    results: tuple[CaseResult, ...]

    @property
    def passed(self) -> int:
        return self._count(Status.PASSED)

    @property
    def failed(self) -> int:
        """Cases whose claim does not hold, and those that could not be run to the end."""
        return self._count(Status.FAILED) + self._count(Status.ERROR)

    @property
    def refused(self) -> int:
        return self._count(Status.REFUSED)

    def _count(self, status: Status) -> int:
        return sum(result.status is status for result in self.results)

    @property
    def exit_code(self) -> int:
        """A refusal is not a failure: what is not wired says so."""
        return 1 if self.failed else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "failed": self.failed,
            "refused": self.refused,
            "cases": [
                {
                    "name": result.name,
                    "status": result.status.value,
                    "detail": result.detail,
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }

    def as_text(self) -> str:
        lines = [line for result in self.results for line in _lines(result)]
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.refused} refused (not wired yet)"


def as_line(result: CaseResult) -> str:
    return "\n".join(_lines(result))


def _lines(result: CaseResult) -> Sequence[str]:
    """One line for a case, and what went wrong under it."""
    first = f"{result.status.value:<8} {result.seconds:6.2f} s  {result.name}"
    indent = " " * 19
    return [first, *(f"{indent}{line}" for line in result.detail.splitlines())]
