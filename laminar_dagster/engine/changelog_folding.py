"""Folds the old part of a changelog into a snapshot: the sum of its weights, as rows. DuckDB, in one commit.

What a subscriber of the changes loses is the history; what it keeps is the sum. A row that came and went is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.column_names import OWN
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.errors import LaminarError
from state_store import DataFile, DeltaDirectory, StoreWriter
from state_store import format as f
from state_store.changelog import (
    EMITTED_AT,
    EPOCH,
    EPOCHS,
    EVENT_TIME,
    OP,
    SEQ,
    SNAPSHOT_APPLICATION,
    WEIGHT,
    ChangelogRetention,
    data_columns,
    files_between,
    partition_folder,
    snapshot_epoch,
)
from state_store.parquet import describe

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHUNK_ROWS = 65_536
FILE_ROWS = 1_000_000
FROM_THE_BEGINNING = (0, 0)
# Beside data columns that may have any name.
SUMMED = OWN + "summed"


@dataclass(frozen=True)
class Folded:
    """The epoch that the snapshot stands for, how many rows it was folded from, and how many it has."""

    epoch: int
    before: int
    after: int


def fold_if_due(store: StoreWriter, retention: ChangelogRetention, now: datetime | None = None) -> Folded | None:
    """Fold what the policy does not keep, if it is at least as much as the snapshot that has to be written anew.

    So a row is rewritten a few times and no more, however long the view runs.
    """
    table = store.table(f.CHANGELOG)
    if store.last is None or not table.exists:
        return None
    upto = retention.foldable(store.log, store.last.epoch, now or datetime.now(UTC))
    folded = snapshot_epoch(table) or 0
    if upto <= folded:
        return None
    files = files_between(table, FROM_THE_BEGINNING, upto)
    snapshot = sum(file.rows for file in files if file.high.get(EPOCH) == file.low.get(EPOCH) == folded)
    history = sum(file.rows for file in files) - snapshot
    return fold_changelog(store, upto) if history >= max(snapshot, 1) else None


def fold_changelog(store: StoreWriter, upto: int) -> Folded | None:
    """Put a snapshot in the place of all changes up to a committed epoch; None if there is nothing to fold.

    Killed before the commit, it leaves files that are not part of the table. The last commit row names the version
    before: readers see the snapshot from the next epoch on.
    """
    table = store.table(f.CHANGELOG)
    assert store.last is not None, "nothing is committed"
    assert upto <= store.last.epoch, f"epoch {upto} is not committed"
    files = files_between(table, FROM_THE_BEGINNING, upto)
    with connection() as db:
        epoch = _last_changed_epoch(db, table, files, upto)
        if epoch is None or epoch == snapshot_epoch(table):
            return None
        name = store.merge_name(f.CHANGELOG)
        snapshot = _write(table, f"{name}/{partition_folder(epoch)}", _snapshot(db, table, files, epoch))
        store.after_write(f"{f.CHANGELOG} snapshot files")
        cut = [file for file in files if file.high[EPOCH] > epoch]
        rest = _write(table, f"{name}-rest/{partition_folder(epoch)}", _rows_after(db, table, cut, epoch))
    store.after_write(f"{f.CHANGELOG} remaining files")
    store.replace(f.CHANGELOG, add=[*snapshot, *rest], remove=files, also={SNAPSHOT_APPLICATION: epoch})
    kept = sum(file.rows for file in rest)
    return Folded(epoch, sum(file.rows for file in files) - kept, sum(file.rows for file in snapshot))


def _last_changed_epoch(
    db: DuckDBPyConnection, table: DeltaDirectory, files: Sequence[DataFile], upto: int
) -> int | None:
    """The last epoch with changes up to `upto`: a subscriber who has seen that one has missed nothing."""
    if not files:
        return None
    found = db.sql(f"SELECT max({EPOCH}) FROM {_source(table, files)} WHERE {EPOCH} <= {upto}").fetchone()
    return None if found is None or found[0] is None else int(found[0])


def _snapshot(
    db: DuckDBPyConnection, table: DeltaDirectory, files: Sequence[DataFile], epoch: int
) -> Iterator[pa.RecordBatch]:
    """Each row as often as its weights say, in the order in which they last came, with the times of that."""
    schema = _inside(table)
    names = data_columns(schema.names)
    data = ", ".join(map(quoted, names))
    weight, last, times, copy = (quoted(name) for name in (SUMMED, OWN + "last", OWN + "times", OWN + "copy"))
    place = f"({EPOCH} * {1 << 32} + {SEQ})"
    found = db.sql(
        f"""WITH sums AS (
                SELECT {data}, sum({WEIGHT})::BIGINT AS {weight}, max({place}) FILTER ({WEIGHT} > 0) AS {last},
                    arg_max({{'event': {EVENT_TIME}, 'emitted': {EMITTED_AT}}}, {place})
                        FILTER ({WEIGHT} > 0) AS {times}
                FROM {_source(table, files)} WHERE {EPOCH} <= {epoch}
                GROUP BY {data} HAVING sum({WEIGHT}) <> 0
            ), copies AS (SELECT *, unnest(range(greatest({weight}, 1))) AS {copy} FROM sums)
            SELECT {weight}, {times}.event AS {EVENT_TIME}, {times}.emitted AS {EMITTED_AT}, {data} FROM copies
            ORDER BY {last}, {copy}"""
    )
    seq = 0
    for chunk in found.to_arrow_reader(CHUNK_ROWS):
        _refuse_negative(chunk, table)
        rows = chunk.num_rows
        head = {
            EPOCH: pa.repeat(pa.scalar(epoch, pa.int64()), rows),
            SEQ: pa.array(range(seq, seq + rows), pa.int64()),
            OP: pa.repeat(pa.scalar("+I"), rows),
            WEIGHT: pa.repeat(pa.scalar(1, pa.int64()), rows),
        }
        seq += rows
        yield pa.record_batch({**head, **_columns(chunk, (EVENT_TIME, EMITTED_AT, *names))}).cast(schema)


def _refuse_negative(chunk: pa.RecordBatch, table: DeltaDirectory) -> None:
    if chunk.num_rows and pc.min(chunk.column(SUMMED)).as_py() < 0:
        raise LaminarError(
            "LMR0413",
            "the changelog deletes rows that it never inserted",
            detail=f"{table.root}: nothing was folded",
            hint="This is a defect of laminar, or somebody else wrote the table: please report it.",
        )


def _rows_after(
    db: DuckDBPyConnection, table: DeltaDirectory, files: Sequence[DataFile], epoch: int
) -> Iterator[pa.RecordBatch]:
    """What is younger than the snapshot in files that also hold older rows."""
    if not files:
        return
    schema = _inside(table)
    columns = ", ".join(map(quoted, schema.names))
    found = db.sql(f"SELECT {columns} FROM {_source(table, files)} WHERE {EPOCH} > {epoch} ORDER BY {EPOCH}, {SEQ}")
    for chunk in found.to_arrow_reader(CHUNK_ROWS):
        yield chunk.cast(schema)


def _write(table: DeltaDirectory, folder: str, chunks: Iterator[pa.RecordBatch]) -> list[DataFile]:
    """The rows as files of bounded size, in order; none if there are no rows."""
    written: list[DataFile] = []
    first = next(chunks, None)
    while first is not None:
        path = table.root / folder / f"part-{len(written)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = 0
        with pq.ParquetWriter(path, first.schema) as writer:
            while first is not None and rows < FILE_ROWS:
                writer.write_batch(first)
                rows += first.num_rows
                first = next(chunks, None)
        written.append(describe(table.root, path))
    return [file for file in written if file.rows]


def _inside(table: DeltaDirectory) -> pa.Schema:
    """The columns that are in the files."""
    return pa.schema([field for field in table.schema() if field.name != EPOCHS])


def _columns(chunk: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    return {name: chunk.column(name) for name in names}


def _source(table: DeltaDirectory, files: Sequence[DataFile]) -> str:
    return parquet(table.absolute(files))
