"""Paths are local: of an address with a scheme, as `s3://bucket`, the file system would make a folder called `s3:`.

So an address is refused by its name, wherever a path is asked for, until tables can be there.
"""

from __future__ import annotations

import os
import re

from laminar_dagster.errors import LaminarError, Span

# Path() makes one slash of two; a letter and a colon alone would be a drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def require_local(what: str, path: str | os.PathLike[str], where: Span | None = None) -> None:
    """Refuse an address; `what` says whose it is, as in `option "path"`."""
    text = os.fspath(path)
    if not _SCHEME.match(text):
        return
    is_file = text.lower().startswith("file:")
    raise LaminarError(
        "LMR0015",
        f"{what} is an address, and has to be a path: {text}",
        where=where,
        detail="Sources, tables and sinks are in directories of this machine, or mounted on it.",
        hint="Leave the scheme out: /a/directory." if is_file else "Mount it, and give the directory's path.",
    )
