"""The order in which rows came: the epoch and the file in it, then the place in the file.

Only what settles ties of event time by it asks for it (FIRST, LAST, arrays): other views' rows go without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.commits import SourceCommit
from laminar_dagster.engine.sources.parquet import FILE, unknown_file
from laminar_dagster.semantics.types import BIGINT, STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARRIVAL = "_arrival"
# Whose row it is. Several sources may read one file.
SOURCE = "_source"
# Where a row is in its file. A file that is read in blocks is read by several tasks, each block in its order.
_BLOCK, _ROW, _FILE_NUMBER = "_block", "_row_in_block", "_file_number"
FIELDS = ("file", "block", "row")
PLACE_IN_FILE = (f"input_file_block_start() AS {_BLOCK}", f"monotonically_increasing_id() AS {_ROW}")
# More files than an epoch ever takes.
FILES_OF_AN_EPOCH = 1 << 24


def with_arrival(runtime: Runtime, commits: Sequence[SourceCommit], frame: DataFrame) -> DataFrame:
    """The rows with their place among all that came, as `_arrival`: what came later is greater."""
    first = runtime.epoch * FILES_OF_AN_EPOCH
    files = [(commit.source, file.url) for commit in commits for file in commit.files]
    rows = [(*place, first + number) for number, place in enumerate(files)]
    if len(files) == 1:
        numbered = frame.selectExpr("*", f"{first}L AS {_FILE_NUMBER}")
    else:
        table = inline_table(runtime.spark, {SOURCE: STRING, FILE: STRING, _FILE_NUMBER: BIGINT}, rows)
        numbered = frame.join(table, [SOURCE, FILE], "left")
    number = f"coalesce({_FILE_NUMBER}, CAST({unknown_file()} AS BIGINT))"
    fields = ", ".join(
        f"'{name}', nullif({sql}, -9L)" for name, sql in zip(FIELDS, (number, _BLOCK, _ROW), strict=True)
    )
    return numbered.selectExpr("*", f"{_if(_ROW, f'named_struct({fields})')} AS {ARRIVAL}").drop(
        _BLOCK, _ROW, _FILE_NUMBER
    )


def time_and_arrival(time: str) -> str:
    """What rows are ordered by: their event time, then the order in which they came."""
    return _if(time, f"struct({time}, {ARRIVAL})")


def _if(known: str, value: str) -> str:
    """The value, in a type that may be NULL: Arrow takes no struct in which a part of a NULL may not be NULL."""
    return f"CASE WHEN {known} IS NOT NULL THEN {value} END"
