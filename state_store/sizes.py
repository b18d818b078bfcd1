"""Which files are of one size: only those are merged, so that a row is rewritten a few times and no more.

Where `fan` files of one level become one file, that file is of the next level at least.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def level(rows: int, fan: int) -> int:
    """How often `rows` can be divided by `fan`."""
    found = 0
    while rows >= fan:
        rows //= fan
        found += 1
    return found


def levels(rows: pa.ChunkedArray, fan: int) -> pa.ChunkedArray:
    """The level of each, for many at once."""
    known = pc.fill_null(rows, 0)
    found = pc.multiply(known, 0)
    for reached in range(1, level(pc.max(known).as_py() or 0, fan) + 1):
        found = pc.add(found, pc.greater_equal(known, fan**reached).cast(pa.int64()))
    return found
