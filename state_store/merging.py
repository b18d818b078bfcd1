"""Merges small files of a table into one, so that their number stays bounded. No Spark: they are small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from state_store.parquet import DataFile, write_file
from state_store.policy import MaintenancePolicy
from state_store.sizes import levels
from state_store.tables import DeltaDirectory, described
from state_store.writer import StoreWriter

MOST_FILES = 256


@dataclass(frozen=True)
class Bound:
    """Files whose greatest value of a column is at most `value` are not merged with others."""

    column: str
    value: int


def merge_if_due(
    store: StoreWriter,
    name: str,
    policy: MaintenancePolicy,
    keep: pc.Expression | None = None,
    apart: Bound | None = None,
) -> int:
    """Merge some files of a table, if it has many small ones; gives how many went.

    `keep` tells the rows that are still of use; without it all rows stay as they are. They keep their partition.
    """
    table = store.table(name)
    actions = table.actions()
    files = [] if actions is None else _alike(table, mergeable(actions, policy, apart), policy.merge_bytes)
    if len(files) < 2:
        return 0
    rows = pa.concat_tables([_read(table, file) for file in files])
    if keep is not None:
        rows = rows.filter(keep)
    written = [write_file(table.root, _place(store.merge_name(name), files[0]), rows)] if rows.num_rows else []
    store.after_write(f"{name} merged file")
    store.replace(name, add=written, remove=files, same_rows=keep is None)
    return len(files)


def mergeable(actions: pa.Table, policy: MaintenancePolicy, apart: Bound | None = None) -> list[DataFile]:
    """The files of the partition and size of which there are the most, oldest first; none if they are few."""
    small = actions.filter(pc.less(actions.column("size_bytes"), policy.full_bytes))
    if small.num_rows < policy.merge_files:
        return []
    places = pa.array(range(small.num_rows))
    likeness = _likeness(small, policy.merge_files, apart)
    groups = pa.table({**likeness, "place": places}).group_by(list(likeness)).aggregate([("place", "list")])
    fullest = max(groups.column("place_list").to_pylist(), key=len)
    if len(fullest) < policy.merge_files:
        return []
    return sorted(described(small.take(fullest[:MOST_FILES])), key=lambda file: file.path)


def _likeness(files: pa.Table, fan: int, apart: Bound | None) -> dict[str, pa.ChunkedArray]:
    """What files that are merged have in common: their partition, their size, their side of the bound."""
    found = {name: files.column(name) for name in files.column_names if name.startswith("partition.")}
    found["size"] = levels(files.column("num_records"), fan)
    if apart is not None and f"max.{apart.column}" in files.column_names:
        found["side"] = pc.fill_null(pc.less_equal(files.column(f"max.{apart.column}"), apart.value), False)
    return found


def _alike(table: DeltaDirectory, files: Sequence[DataFile], most_bytes: int) -> list[DataFile]:
    """Those of one schema (Spark and the driver may spell nested types differently), up to so many bytes."""
    by_schema: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        by_schema[str(pq.read_schema(table.root / file.path).remove_metadata())].append(file)
    taken: list[DataFile] = []
    for file in max(by_schema.values(), key=len, default=[]):
        if len(taken) >= 2 and sum(other.size for other in taken) + file.size > most_bytes:
            break
        taken.append(file)
    return taken


def _read(table: DeltaDirectory, file: DataFile) -> pa.Table:
    return pq.ParquetFile(table.root / file.path).read().replace_schema_metadata(None)


def _place(name: str, like: DataFile) -> str:
    """Where the merged file goes: into a folder of its own, in which its partition is spelt as before."""
    partition = [part for part in Path(like.path).parts[:-1] if "=" in part]
    return "/".join([name, *partition, "part-0.parquet"])
