"""Whether a view's tables agree with themselves: no result twice, and a changelog that sums to the table. By DuckDB."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from laminar_dagster.engine.closing import PARTITION, closed_until
from laminar_dagster.engine.column_names import OWN
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.engine.shown import END, START, shown_columns
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.windows import Window
from state_store import CommitRow, DataFile, StoreReader
from state_store import format as f
from state_store.changelog import EPOCH, WEIGHT

EXAMPLES = 5
_COUNT = quoted(OWN + "count")


@dataclass(frozen=True)
class Faults:
    """How many rows are at fault, out of how many that were looked at, and some of them as text."""

    count: int
    rows: int
    examples: list[dict[str, Any]]


def repeated_results(query: Query, reader: StoreReader, commit: CommitRow, since: int) -> Faults | None:
    """Results that are in the table more than once, in partitions that epochs after `since` wrote to.

    None where rows are results of their own, and may well be alike.
    """
    if not query.tells_results_apart:
        return None
    files = _partitions_written(reader.files(f.OUTPUT, commit), since)
    if not files:
        return Faults(0, 0, [])
    identity = ", ".join(map(quoted, shown_columns(query).identity))
    table = parquet(reader.table(f.OUTPUT).absolute(files))
    grouped = f"GROUP BY {identity}" if identity else ""
    chosen = f"{identity}, " if identity else ""
    sql = f"SELECT {chosen}count(*) AS {_COUNT} FROM {table} {grouped} HAVING count(*) > 1"
    return faults_of(sql, "times", files)


def _partitions_written(files: list[DataFile], since: int) -> list[DataFile]:
    written = {file.partition.get(PARTITION) for file in files if file.high.get(EPOCH, since + 1) > since}
    return [file for file in files if file.partition.get(PARTITION) in written]


def changelog_against_table(query: Query, reader: StoreReader, commit: CommitRow) -> Faults | None:
    """Rows whose weights in the changelog do not sum to how often the table has them; None without a changelog."""
    changes, rows = reader.files(f.CHANGELOG, commit), reader.files(f.OUTPUT, commit)
    if not changes:
        return None
    columns = ", ".join(quoted(named.name) for named in query.output)
    log = f"{parquet(reader.table(f.CHANGELOG).absolute(changes))} WHERE {EPOCH} <= {commit.epoch}"
    signed = [f"SELECT {columns}, {WEIGHT} FROM {log}"]
    if rows:
        signed.append(f"SELECT {columns}, -1 AS {WEIGHT} FROM {parquet(reader.table(f.OUTPUT).absolute(rows))}")
    both = " UNION ALL ".join(signed)
    sql = f"SELECT {columns}, sum({WEIGHT}) AS {_COUNT} FROM ({both}) GROUP BY ALL HAVING sum({WEIGHT}) <> 0"
    return faults_of(sql, "too_many", rows)


def faults_of(sql: str, told: str, files: list[DataFile]) -> Faults:
    """`told` is what the count is called for readers, with underscores before it where a column of theirs is."""
    with connection() as db:
        found = db.sql(sql).to_arrow_table()
    names = found.column_names[:-1]
    while told in names:
        told = f"_{told}"
    found = found.rename_columns([*names, told])
    return Faults(found.num_rows, sum(file.rows for file in files), python_rows(found.slice(0, EXAMPLES)))


def sampled_window(query: Query, reader: StoreReader, commit: CommitRow, seed: int) -> Window | None:
    """A closed window that the table shows."""
    files, closed = reader.files(f.OUTPUT, commit), closed_until(query, commit.watermark)
    if query.window is None or closed is None or not files:
        return None
    table = parquet(reader.table(f.OUTPUT).absolute(files))
    with connection() as db:
        found = db.sql(f"SELECT DISTINCT {START}, {END} FROM {table} WHERE {END} <= {closed} ORDER BY ALL").fetchall()
    return Window(*random.Random(seed).choice(found)) if found else None
