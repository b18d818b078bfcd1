"""Documentation as data: pages, their links, and the blocks that a reader can run.

`<!-- file: PATH -->` before a block says that a reader saves it there; `<!-- run -->` before a console block says that
its commands work and print what stands below them. In what they print, `…` stands for anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_BLOCK = re.compile(r"^<!-- (file: (?P<path>\S+)|run) -->\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class SavedFile:
    path: str
    text: str


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    output: str


def pages() -> list[Path]:
    return [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


def steps(page: Path) -> Iterator[SavedFile | Command]:
    """What a reader of the page does, in order."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["path"]:
            yield SavedFile(block["path"], block["text"])
        else:
            yield from _commands(block["text"])


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(tuple(shlex.split(line)), output)


def same(expected: str, actual: str) -> bool:
    """Whether the texts agree up to white space, with `…` for anything."""
    pattern = ".*?".join(re.escape(piece) for piece in _squeezed(expected).split("…"))
    return re.fullmatch(pattern, _squeezed(actual), re.DOTALL) is not None


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def links(page: Path) -> list[str]:
    """The page's links to other pages and files, code blocks aside."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in _LINK.findall(text) if not link.startswith(("http://", "https://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """The names by which GitHub links to the page's headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {_anchor(heading) for heading in _HEADING.findall(text)}


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
