"""How Spark names and opens local files: the one place that knows both spellings of a path."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

# What java.net.URI leaves as it is in a path; everything else of ASCII, `%` included, is escaped.
_PLAIN = "/@,;:$&+=_-!.~'()*"


def file_url(path: str) -> str:
    """A local path as Spark's `_metadata.file_path` spells it: Java's escapes, which are not Python's.

    Rows are matched with their commit by this text, so a difference would lose them.
    """
    return "file:" + "".join(_escaped(character) for character in path)


def _escaped(character: str) -> str:
    if ord(character) > 127 and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc"):
        return character
    return quote(character, safe=_PLAIN)


def read_options(paths: Sequence[str]) -> dict[str, str]:
    """Options under which Spark opens exactly these files, whatever their names.

    Without the first it takes `[`, `{`, `*` and `?` for wildcards. Hadoop's local file system looks for a checksum
    file next to each file, and cannot form that name if the name has a colon; the raw one looks for none.
    """
    options = {"__globPaths__": "false"}
    if any(":" in Path(path).name for path in paths):
        options["fs.file.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"
        options["fs.file.impl.disable.cache"] = "true"
    return options


def path_in_log(root: Path, written: str) -> Path:
    """A data file that Delta's log names: relative to the table or a `file:` URL, percent-encoded."""
    if written.startswith("file:"):
        return Path("/" + unquote(written.removeprefix("file:")).lstrip("/"))
    return root / unquote(written)
