"""A view's changelog as files: its columns, which files hold what comes after a row, and what was folded.

`laminar/snapshot` is an application transaction of the table, so the epoch up to which history is folded lands in the
same commit as the files that it is about, stays through checkpoints, and is known for each version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from state_store.epochs import EpochLog
from state_store.format import TIMESTAMP
from state_store.parquet import DataFile
from state_store.tables import DeltaDirectory, described

EPOCH, SEQ, OP, WEIGHT = "_epoch", "_seq", "_op", "_weight"
EVENT_TIME, EMITTED_AT = "_event_time", "_emitted_at"
EPOCHS = "_epochs"
EPOCHS_PER_PARTITION = 100
SNAPSHOT_APPLICATION = "laminar/snapshot"
HEAD = pa.schema(
    [
        (EPOCH, pa.int64()),
        (SEQ, pa.int64()),
        (OP, pa.string()),
        (WEIGHT, pa.int64()),
        (EVENT_TIME, TIMESTAMP),
        (EMITTED_AT, TIMESTAMP),
    ]
)
OWN_COLUMNS = (*HEAD.names, EPOCHS)

RowPlace = tuple[int, int]
BEFORE_ALL, AFTER_ALL = -1, 1 << 63


@dataclass(frozen=True)
class ChangelogRetention:
    """How much history stays: the last `epochs` epochs, and whatever was committed within `age`, if that is more."""

    epochs: int = 1_000
    age: timedelta = timedelta(days=7)

    def foldable(self, log: EpochLog, last: int, now: datetime) -> int:
        """The last epoch that need not be kept, rounded down to whole partitions; 0 if there is none."""
        old_enough = log.last_before(now - self.age) or 0
        upto = max(0, min(last - self.epochs, old_enough))
        return upto - upto % EPOCHS_PER_PARTITION


def changelog_schema(data: pa.Schema) -> pa.Schema:
    """The table's columns for a view's own columns, the partition column last."""
    return pa.schema([*HEAD, *data, (EPOCHS, pa.int64())])


def data_columns(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in OWN_COLUMNS]


def partition_of(epoch: int) -> int:
    return (epoch - 1) // EPOCHS_PER_PARTITION


def partition_folder(epoch: int) -> str:
    return f"{EPOCHS}={partition_of(epoch)}"


def snapshot_epoch(table: DeltaDirectory) -> int | None:
    """The epoch up to which the table holds a snapshot and not the changes; None if it holds all of them."""
    return table.landed(SNAPSHOT_APPLICATION)


def files_between(table: DeltaDirectory, after: RowPlace, upto: int) -> list[DataFile]:
    """The files that may hold rows after a place, up to an epoch; told by the log alone."""
    actions = table.actions()
    if actions is None or not actions.num_rows:
        return []
    epoch = after[0]
    in_reach = pc.and_(
        pc.greater_equal(actions.column(f"partition.{EPOCHS}"), partition_of(max(epoch, 1))),
        pc.less_equal(actions.column(f"partition.{EPOCHS}"), partition_of(max(upto, 1))),
    )
    for name, bounded in ((f"max.{EPOCH}", pc.greater_equal), (f"min.{EPOCH}", pc.less_equal)):
        if name in actions.column_names:
            limit = epoch if name.startswith("max") else upto
            in_reach = pc.and_(in_reach, pc.fill_null(bounded(actions.column(name), limit), True))
    return [file for file in described(actions.filter(in_reach)) if last_place(file) > after]


def first_place(file: DataFile) -> RowPlace:
    """No row of the file comes before (epoch, seq)."""
    low, high = file.low, file.high
    if EPOCH not in low:
        return BEFORE_ALL, BEFORE_ALL
    return low[EPOCH], low.get(SEQ, BEFORE_ALL) if low[EPOCH] == high[EPOCH] else BEFORE_ALL


def last_place(file: DataFile) -> RowPlace:
    """No row of the file comes after (epoch, seq)."""
    low, high = file.low, file.high
    if EPOCH not in high:
        return AFTER_ALL, AFTER_ALL
    return high[EPOCH], high.get(SEQ, AFTER_ALL) if low[EPOCH] == high[EPOCH] else AFTER_ALL


def readable_together(files: Sequence[DataFile], rows: int, count: int) -> Iterator[list[DataFile]]:
    """The files in order, in groups whose rows do not interleave with others', up to about so many rows and files."""
    group: list[DataFile] = []
    held, reach = 0, (BEFORE_ALL, BEFORE_ALL)
    for file in sorted(files, key=first_place):
        if group and (held >= rows or len(group) >= count) and first_place(file) > reach:
            yield group
            group, held = [], 0
        group.append(file)
        held += file.rows
        reach = max(reach, last_place(file))
    if group:
        yield group
