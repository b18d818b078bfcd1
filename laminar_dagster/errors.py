"""The one shape of every error a user sees: problem, code, place, detail, hint.

A failure while data is moving also says what is already committed and which command comes next.
Every code has a section in docs/reference/errors.md; a test compares the two.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A piece of SQL text: offsets into `text`, `end` exclusive."""

    text: str
    start: int
    end: int
    file: str | None = None

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def render(self) -> str:
        line_text = self.text.split("\n")[self.line - 1]
        width = min(self.end - self.start, len(line_text) - self.column + 1)
        gutter = " " * len(str(self.line))
        shown = line_text.replace("\t", " ")
        return "\n".join(
            [
                f"{gutter}--> {self.file or '<sql>'}:{self.line}:{self.column}",
                f"{gutter} |",
                f"{self.line} | {shown}",
                f"{gutter} | {' ' * (self.column - 1)}{'^' * max(width, 1)}",
            ]
        )


class LaminarError(Exception):
    """An error of this project, with a stable code and a text that tells what to do."""

    def __init__(
        self,
        code: str,
        problem: str,
        *,
        where: Span | None = None,
        detail: str | None = None,
        hint: str | None = None,
        committed: str | None = None,
        next_command: str | None = None,
    ) -> None:
        self.code = code
        self.problem = problem
        self.where = where
        self.detail = detail
        self.hint = hint
        self.committed = committed
        self.next_command = next_command
        super().__init__(self.render())

    def render(self) -> str:
        parts = [f"{self.problem} [{self.code}]"]
        if self.where is not None:
            parts.append(self.where.render())
        labelled = (
            ("detail", self.detail),
            ("hint", self.hint),
            ("committed", self.committed),
            ("next", self.next_command),
        )
        tail = [f"{label}: {text}" for label, text in labelled if text]
        if tail:
            parts.append("\n".join(tail))
        return "\n\n".join(parts)


UNFORESEEN = "LMR0415"


def unforeseen(problem: Exception) -> LaminarError:
    """An error that nobody foresaw, as one that says what to do. Its traceback belongs into the log beside it."""
    first = (str(problem).strip().splitlines() or [""])[0]
    return LaminarError(
        UNFORESEEN,
        "an error that was not foreseen stopped the view",
        detail=f"{type(problem).__name__}: {first}",
        hint="This is a defect of laminar: please report it with the traceback above. The other views go on; what this "
        "one has committed stands, and the next run tries again.",
    )


class NotWiredError(LaminarError):
    """The clause is part of the language, but this version of the engine cannot run it yet."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that was probably meant, or None."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint that names the nearest candidate, else `otherwise`, else all candidates."""
    known = sorted(set(candidates))
    match = nearest(name, known)
    if match is not None:
        return f'Did you mean "{match}"?'
    if otherwise is not None:
        return otherwise
    return f"Known: {', '.join(known)}." if known else None
