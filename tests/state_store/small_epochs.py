"""A store that is filled by hand, epoch by epoch, with the smallest files that make sense. No Spark."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from state_store import CommitRow, MaintenancePolicy, PlanRow, StoreReader, StoreWriter
from state_store import format as f
from state_store.merging import merge_if_due
from state_store.parquet import write_file
from state_store.vacuum import vacuum_if_due

OUTPUT_SCHEMA = pa.schema(
    [("n", pa.int64()), ("_epoch", pa.int64()), ("_emitted_at", f.TIMESTAMP), ("_partition", pa.string())]
)
EAGER = MaintenancePolicy(
    merge_files=4,
    vacuum_every=1,
    retain_epochs=5,
    retain_state=timedelta(0),
    retain_results=timedelta(0),
)
# So that a store has several checkpoints behind it after a few epochs.
CHECKPOINT_EVERY = 5
OFTEN_CHECKPOINTED = {"delta.checkpointInterval": str(CHECKPOINT_EVERY)}


def run(
    root: Path,
    epochs: range,
    policy: MaintenancePolicy | None = None,
    after_write: Any = lambda _: None,
    query: str = "f",
) -> None:
    """Epochs of a view whose windows are closed four epochs after they opened; `query` is its fingerprint."""
    untouched = not root.exists() or not any(root.iterdir())
    if untouched and policy is None:
        shutil.copytree(_made_once(epochs.stop, query), root, dirs_exist_ok=True)
        return
    _run(root, epochs, policy, after_write, query)


_MADE: dict[tuple[str, int], Path] = {}


def _made_once(stop: int, query: str) -> Path:
    """A store after the epochs before `stop`, made once per process and from the longest that is there."""
    if (query, stop) not in _MADE:
        root = Path(mkdtemp(prefix="laminar-epochs-"))
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        shorter = max((made for of, made in _MADE if of == query and made < stop), default=None)
        if shorter is not None:
            shutil.copytree(_MADE[query, shorter], root, dirs_exist_ok=True)
        _run(root, range(shorter or 1, stop), None, lambda _: None, query)
        _MADE[query, stop] = root
    return _MADE[query, stop]


def _run(root: Path, epochs: range, policy: MaintenancePolicy | None, after_write: Any, query: str) -> None:
    with patch.dict(f.TABLE_PROPERTIES, OFTEN_CHECKPOINTED), StoreWriter(root, after_write=after_write) as store:
        unfinished = store.tail().unfinished
        first = store.last.epoch + 1 if store.last else epochs.start
        for epoch in range(first, epochs.stop):
            plan = a_plan(store, epoch, query) if unfinished is None else store.claim(unfinished)
            if unfinished is None:
                store.begin(plan)
            unfinished = None
            land(store, plan)
            store.finish(a_commit(store, plan))
            if policy is not None:
                maintain(store, policy)


def maintain(store: StoreWriter, policy: MaintenancePolicy) -> None:
    assert store.last is not None
    merge_if_due(store, f.TIMERS, policy, keep=pc.field("window_end") > closed_at(store.last.epoch))
    for name in (f.SOURCE_FILES, f.SIDE_OUTPUT, f.OUTPUT):
        merge_if_due(store, name, policy)
    vacuum_if_due(store, policy)


def closed_at(epoch: int) -> int:
    return epoch - 4


def a_plan(store: StoreWriter, epoch: int, query: str = "f") -> PlanRow:
    versions = store.versions(f.TABLES)
    return PlanRow(epoch, "tick", store.run_id, 0, query, None, {"commits": [], "positions": {}}, versions, {})


def a_commit(store: StoreWriter, plan: PlanRow) -> CommitRow:
    versions = store.versions(f.TABLES)
    return CommitRow(plan.epoch, "tick", store.run_id, 0, plan.fingerprint, None, {}, {}, versions, {"rows_in": 1})


def land(store: StoreWriter, plan: PlanRow) -> None:
    """One timer, one file of the ledger, and a row in each of two partitions of the output."""
    epoch = plan.epoch
    fired = [
        file
        for file in store.table(f.TIMERS).files_at(plan.tables[f.TIMERS])
        if file.high["window_end"] <= closed_at(epoch)
    ]
    timer = {"deadline": epoch, "key_hash": None, "window_start": epoch - 1, "window_end": epoch, "epoch": epoch}
    taken = {"source": "s", "id": f"{epoch}.json", "size": 1, "epoch": epoch, "position": 0}
    _land(store, epoch, f.TIMERS, f.TIMER_SCHEMA, {"": timer}, remove=fired)
    _land(store, epoch, f.SOURCE_FILES, f.SOURCE_FILE_SCHEMA, {"": taken})
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = {
        f"_partition=2026-01-0{day}-13%3A00/": {"n": epoch * 10 + day, "_epoch": epoch, "_emitted_at": at}
        for day in (1, 2)
    }
    _land(store, epoch, f.OUTPUT, OUTPUT_SCHEMA, rows, partition_by=("_partition",))


def _land(
    store: StoreWriter, epoch: int, name: str, schema: pa.Schema, rows: Mapping[str, Mapping[str, Any]], **rest: Any
) -> None:
    root = store.table(name).root
    inside = pa.schema([field for field in schema if field.name not in rest.get("partition_by", ())])
    files = [
        write_file(root, f"e{epoch:010d}-{store.run_id}/{folder}part-0.parquet", pa.Table.from_pylist([row], inside))
        for folder, row in rows.items()
    ]
    store.after_write(f"{name} files")
    store.land(name, epoch, schema=schema, add=files, **rest)


def content(root: Path, epoch: int | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table as of an epoch; of the timers those that have not fired."""
    reader = StoreReader(root)
    commit = reader.commit(epoch)
    assert commit is not None
    rows = {name: reader.read(name, commit).to_pylist() for name in (f.TIMERS, f.SOURCE_FILES, f.OUTPUT)}
    return {
        "timers": sorted((r["window_end"],) for r in rows[f.TIMERS] if r["window_end"] > closed_at(commit.epoch)),
        "source_files": sorted((r["source"], r["id"], r["epoch"]) for r in rows[f.SOURCE_FILES]),
        "output": sorted((r["n"], r["_epoch"], r["_partition"]) for r in rows[f.OUTPUT]),
    }


def expected(epoch: int) -> dict[str, list[tuple[Any, ...]]]:
    epochs = range(1, epoch + 1)
    return {
        "timers": [(e,) for e in epochs if e > closed_at(epoch)],
        "source_files": sorted(("s", f"{e}.json", e) for e in epochs),
        "output": [(e * 10 + day, e, f"2026-01-0{day}-13:00") for e in epochs for day in (1, 2)],
    }


def on_disk(root: Path, name: str) -> list[str]:
    return sorted(path.relative_to(root / name).as_posix() for path in (root / name).rglob("*") if path.is_file())
