"""A view's history as deliveries: what each epoch after a position changed, in order.

Of a view with a changelog these are its rows; where history is folded and the sink is at its beginning, the rows as
they stood then come first, as one snapshot. Of a view without a changelog, which has only appended so far, they are the
rows that the epoch added to the output, each an insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from laminar_dagster.engine.changelog_rows import CHUNK_ROWS, rows_after
from laminar_dagster.engine.in_process_sql import connection, parquet
from laminar_dagster.engine.insertions import insertions_schema, insertions_sql
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Query
from state_store import CommitRow, StoreReader
from state_store import format as f
from state_store.changelog import AFTER_ALL, EPOCH, snapshot_epoch


@dataclass(frozen=True)
class EpochChanges:
    """The changelog rows of one epoch; of a snapshot, the rows as they were then."""

    epoch: int
    rows: pa.Table
    snapshot: bool = False


def changes_since(query: Query, reader: StoreReader, epoch: int) -> Iterator[EpochChanges]:
    """What each epoch after this one changed; epochs that changed nothing are left out."""
    last = reader.commit() if reader.exists else None
    if last is None or last.epoch <= epoch:
        return
    has_changelog = query.has_changelog or last.tables.get(f.CHANGELOG) is not None
    yield from (_of_changelog if has_changelog else _of_output)(query, reader, last, epoch)


def _gone(query: Query, epoch: int, first: int) -> LaminarError:
    return LaminarError(
        "LMR0645",
        f'view "{query.view}" no longer has the changes after epoch {epoch} one by one',
        detail=f"the changes up to epoch {first} are folded into a snapshot, and the sink has not taken all of them",
        hint="Give the sink a new name and a new target: it then begins with the rows as they are. Deliver more often "
        "than history is kept: retain_epochs and retain_results in laminar.toml.",
    )


# --- views with a changelog ----------------------------------------------------------------------------------


def _of_changelog(query: Query, reader: StoreReader, last: CommitRow, epoch: int) -> Iterator[EpochChanges]:
    version = last.tables.get(f.CHANGELOG)
    if version is None:
        return
    table = reader.table(f.CHANGELOG).at(version)
    folded = snapshot_epoch(table) or 0
    if 0 < epoch < folded:
        raise _gone(query, epoch, folded)
    with connection() as db:
        for found, rows in by_epoch(rows_after(db, table, (epoch, AFTER_ALL), last.epoch)):
            yield EpochChanges(found, rows, snapshot=found == folded and epoch == 0)


def by_epoch(chunks: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Rows that come in the order of their epochs, an epoch at a time."""
    held: list[pa.RecordBatch] = []
    current: int | None = None
    for chunk in chunks:
        for epoch, part in _runs(chunk):
            if epoch != current and held and current is not None:
                yield current, pa.Table.from_batches(held).combine_chunks()
                held = []
            current = epoch
            held.append(part)
    if held and current is not None:
        yield current, pa.Table.from_batches(held).combine_chunks()


def _runs(chunk: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not chunk.num_rows:
        return
    runs = pc.run_end_encode(chunk.column(EPOCH))
    start = 0
    for end, epoch in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield epoch, chunk.slice(start, end - start)
        start = end


# --- views that only append ----------------------------------------------------------------------------------


def _of_output(query: Query, reader: StoreReader, last: CommitRow, epoch: int) -> Iterator[EpochChanges]:
    """Each row of the output knows its epoch, also in files that were merged since."""
    table = reader.table(f.OUTPUT)
    files = [file for file in reader.files(f.OUTPUT, last) if file.high.get(EPOCH, last.epoch) > epoch]
    if not files:
        return
    with connection() as db:
        found = db.sql(insertions_sql(query, parquet(table.absolute(files)), epoch)).to_arrow_reader(CHUNK_ROWS)
        for number, rows in by_epoch(chunk.cast(insertions_schema(table, chunk.schema)) for chunk in found):
            yield EpochChanges(number, rows)
