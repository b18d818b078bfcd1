"""Where in a TOML text a table or a key stands, so that an error can point at it; the values come from tomllib."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar_dagster.errors import Span

Path = tuple[str, ...]
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = re.compile(rf"^[ \t]*(\[[ \t]*({_KEY})[ \t]*\])", re.MULTILINE)
_ENTRY = re.compile(rf"""^[ \t]*({_KEY})[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|[^#\n]*[^#\s])""", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """The places of a text: of a key its name's and its value's, of a table its header's."""

    text: str
    file: str
    found: Mapping[Path, tuple[Span, Span]] = field(default_factory=dict)

    def of(self, path: Path) -> tuple[Span, Span]:
        """The place of a key or table; of one that is written in an unusual way, that of what it is inside of."""
        while path and path not in self.found:
            path = path[:-1]
        start = Span(self.text, 0, len(self.text.split("\n")[0]), self.file)
        return self.found.get(path, (start, start))


def places(text: str, file: str) -> Places:
    found: dict[Path, tuple[Span, Span]] = {}
    headers = [(match.start(), _parts(match[2]), match.span(1)) for match in _HEADER.finditer(text)]
    for _, path, extent in headers:
        header = Span(text, *extent, file)
        found.setdefault(path, (header, header))
    for match in _ENTRY.finditer(text):
        table = next((path for start, path, _ in reversed(headers) if start < match.start()), ())
        here = (Span(text, *match.span(1), file), Span(text, *match.span(2), file))
        found.setdefault((*table, *_parts(match[1])), here)
    return Places(text, file, found)


def _parts(key: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))
