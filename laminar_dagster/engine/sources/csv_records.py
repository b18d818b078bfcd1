"""Where the rows of a CSV text end: RFC 4180, in which a value in quotes may go over lines, and quotes may be missing.

A row is taken over several lines only if all of its quotes are in order. Otherwise its first line stands alone, and
what follows is read as if that line were not there: a quote that nobody closes spoils its own line and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TextIO

# A row over several lines that is longer than this has a quote that is not closed.
MOST_CHARACTERS = 1 << 20
_CHUNK = 1 << 20
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Rows:
    """How rows are written; `fields` is how many each should have, None where nobody knows yet (a header)."""

    delimiter: str
    quote: str
    fields: int | None = None

    @cached_property
    def _value(self) -> str:
        d, q = re.escape(self.delimiter), re.escape(self.quote)
        return rf"(?:{q}(?:[^{q}]++|{q}{q})*+{q}|[^{q}{d}\r\n]*+)"

    @cached_property
    def _row(self) -> re.Pattern[str]:
        return re.compile(rf"\ufeff?{self._value}(?:{re.escape(self.delimiter)}{self._value})*+(?=[\r\n]|\Z)")

    @cached_property
    def _quoted(self) -> re.Pattern[str]:
        q = re.escape(self.quote)
        return re.compile(rf"{q}(?:[^{q}]++|{q}{q})*+{q}")

    @cached_property
    def _even(self) -> re.Pattern[str]:
        q = re.escape(self.quote)
        return re.compile(rf"(?:[^{q}]++|{q}[^{q}\r\n]*+{q})*+")

    def may_span_lines(self, text: TextIO) -> bool:
        """Whether some line has an odd number of quotes: no row goes over lines without one."""
        rest = ""
        while chunk := text.read(_CHUNK):
            if not rest and self.quote not in chunk:
                continue
            whole = rest + chunk
            rest = whole[self._even_until(whole) :]
            if _LINE_END.search(rest):
                return True
        return bool(rest)

    def _even_until(self, text: str) -> int:
        found = self._even.match(text)
        return found.end() if found else 0

    def read(self, text: TextIO) -> Iterator[str]:
        """The rows as they are written, without their line end. Blank ones too."""
        buffer, at, ended = "", 0, False
        while True:
            end = self._end(buffer, at, ended)
            if end is not None and (ended or end < len(buffer)):
                if at < len(buffer):
                    yield buffer[at:end]
                line_end = _LINE_END.match(buffer, end)
                if line_end is None:
                    return
                at = line_end.end()
            else:
                chunk = text.read(MOST_CHARACTERS + _CHUNK)
                buffer, at, ended = buffer[at:] + chunk, 0, not chunk

    def _end(self, buffer: str, at: int, ended: bool) -> int | None:
        """Where the row that begins at `at` ends; None where more of the text has to be known for that."""
        if not ended and len(buffer) - at <= MOST_CHARACTERS + 1:
            return None
        line_end = _LINE_END.search(buffer, at)
        alone = line_end.start() if line_end else len(buffer)
        limit = at + MOST_CHARACTERS
        found = self._row.match(buffer, at, limit)
        whole = found is not None and (found.end() < limit or limit >= len(buffer))
        if found is None or not whole or found.end() <= alone or not self._belongs(buffer[at : found.end()]):
            return alone
        return found.end()

    def _belongs(self, row: str) -> bool:
        """Whether lines are one row: not if it has too few or too many fields, and one of its lines is a row."""
        if self.fields is None or self._count(row) == self.fields:
            return True
        return not any(self._is_row(line) for line in _LINE_END.split(row)[1:])

    def _is_row(self, line: str) -> bool:
        return self._row.fullmatch(line) is not None and self._count(line) == self.fields

    def _count(self, row: str) -> int:
        return self._quoted.sub("", row).count(self.delimiter) + 1
