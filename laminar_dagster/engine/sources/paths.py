"""How Spark names and opens local files: the one place that knows both spellings of a path."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What java.net.URI leaves as it is in a path; everything else of ASCII, `%` included, is escaped.
_PLAIN = "/@,;:$&+=_-!.~'()*"
_WILDCARDS = frozenset("[]{}*?\\")


def file_url(path: str) -> str:
    """A local path as Spark's `_metadata.file_path` spells it: Java's escapes, which are not Python's.

    Rows are matched with their commit by this text, so a difference would lose them.
    """
    return "file:" + "".join(_escaped(character) for character in path)


def _escaped(character: str) -> str:
    if ord(character) > 127 and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc"):
        return character
    return quote(character, safe=_PLAIN)


def read_exactly(paths: Sequence[str], read: Callable[[dict[str, str], list[str]], DataFrame]) -> DataFrame:
    """What `read` makes of exactly these files, whatever their names; it gets options for Spark's reader.

    Spark takes `[`, `{`, `*` and `?` for wildcards. Told not to, it reads every other file of the same call twice
    (seen in 4.2.0), so that files with such names are read in a call of their own.
    """
    wild = [path for path in paths if set(path) & _WILDCARDS]
    plain = [path for path in paths if not set(path) & _WILDCARDS]
    if not wild:
        return read(_file_system(plain), plain)
    frame = read({"__globPaths__": "false", **_file_system(wild)}, wild)
    return frame.unionByName(read(_file_system(plain), plain)) if plain else frame


def _file_system(paths: Sequence[str]) -> dict[str, str]:
    """Hadoop's local file system cannot name the checksum file of a name with a colon; the raw one looks for none."""
    if not any(":" in Path(path).name for path in paths):
        return {}
    return {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def path_in_log(root: Path, written: str) -> Path:
    """A data file that Delta's log names: relative to the table or a `file:` URL, percent-encoded."""
    if written.startswith("file:"):
        return Path("/" + unquote(written.removeprefix("file:")).lstrip("/"))
    return root / unquote(written)
