"""How Spark names and opens local files: the one place that knows both spellings of a path."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

# What java.net.URI leaves as it is in a path; everything else of ASCII, `%` included, is escaped.
_PLAIN = "/@,;:$&+=_-!.~'()*"
_WILDCARD = re.compile(r"[\[\]{}*?\\]")


def located(root: Path, path: str) -> Path:
    """Where a source is: below `root` unless absolute. Spark tells paths without `..`, so this one has none either."""
    return Path(os.path.abspath(root / path))  # noqa: PTH100  (resolve() would also follow links, which Spark does not)


def file_url(path: str) -> str:
    """A local path as Spark's `_metadata.file_path` spells it: Java's escapes, which are not Python's.

    Rows are matched with their commit by this text, so a difference would lose them.
    """
    return "file:" + "".join(_escaped(character) for character in path)


def _escaped(character: str) -> str:
    if ord(character) > 127 and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc"):
        return character
    return quote(character, safe=_PLAIN)


def can_be_named(path: str) -> bool:
    """Spark looks an escaped name up in a way that fails for a name with a colon."""
    return ":" not in path or not _WILDCARD.search(path)


def exactly(paths: Sequence[str]) -> list[str]:
    """The paths for Spark's readers, which take `[`, `{`, `*` and `?` for wildcards unless they are escaped."""
    return [_WILDCARD.sub(r"\\\g<0>", path) for path in paths]


def file_system(paths: Sequence[str]) -> dict[str, str]:
    """Options for Spark's readers.

    Hadoop's local file system cannot name the checksum file of a name with a colon; the raw one looks for none.
    """
    if not any(":" in Path(path).name for path in paths):
        return {}
    return {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def path_in_log(root: Path, written: str) -> Path:
    """A data file that Delta's log names: relative to the table or a `file:` URL, percent-encoded."""
    if written.startswith("file:"):
        return Path("/" + unquote(written.removeprefix("file:")).lstrip("/"))
    return root / unquote(written)
