"""Lands an epoch's files in their tables: one commit per table, under the epoch's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from laminar_dagster.engine.closing import PARTITION, Closing, Emitted
from laminar_dagster.engine.duplicates import Remembered
from laminar_dagster.engine.partials import BUCKET
from laminar_dagster.engine.runtime import Runtime, written_schema
from laminar_dagster.engine.sources.commits import SourceCommit
from state_store import DataFile, PlanRow
from state_store import format as f
from state_store.changelog import EPOCHS
from state_store.parquet import write_file


@dataclass(frozen=True)
class Folded:
    """The epoch's rows after they were taken in: partials, rows set aside, and how many of each fate.

    `passed`: what the rows themselves already show, where the view keeps no state. `closing`: what they closed, where
    that was found out in the same pass. `seen`: the keys by which duplicates are found.
    `replaced_aside`: files of the side output that others come in the place of.
    """

    partials: list[DataFile]
    aside: list[DataFile]
    counts: Mapping[str, int]
    passed: Emitted | None = None
    closing: Closing | None = None
    replaced_aside: list[DataFile] = field(default_factory=list)
    seen: Remembered = field(default_factory=Remembered)


def pinned_commits(planned: PlanRow) -> list[SourceCommit]:
    return [SourceCommit.from_json(entry) for entry in planned.sources["commits"]]


def land(runtime: Runtime, planned: PlanRow, folded: Folded, closing: Closing, emitted: Emitted) -> None:
    """Make the epoch's files part of their tables, each in one commit that a rerun does not repeat."""
    _land(runtime, f.PARTIALS, closing.live, closing.gone, {BUCKET: pa.int64()})
    _land_timers(runtime, planned, closing)
    _land_ledger(runtime, planned)
    _land(runtime, f.SEEN_KEYS, folded.seen.new, folded.seen.forgotten, {}, f.SEEN_KEY_SCHEMA)
    aside = [*folded.aside, *emitted.failures]
    _land(runtime, f.SIDE_OUTPUT, aside, folded.replaced_aside, {}, f.SIDE_OUTPUT_SCHEMA)
    _land(runtime, f.CHANGELOG, emitted.changes, [], {EPOCHS: pa.int64()})
    by = {PARTITION: pa.string()} if runtime.plan.query.window is not None else {}
    _land(runtime, f.OUTPUT, emitted.output, emitted.replaced, by)


def _land(
    runtime: Runtime,
    name: str,
    add: list[DataFile],
    remove: list[DataFile],
    partition: Mapping[str, pa.DataType],
    schema: pa.Schema | None = None,
) -> None:
    if not add and not remove:
        return
    table = runtime.store.table(name)
    known = schema or (table.schema() if table.exists else written_schema(table.root, add, partition))
    runtime.store.land(name, runtime.epoch, schema=known, partition_by=tuple(partition), add=add, remove=remove)


def _land_timers(runtime: Runtime, planned: PlanRow, closing: Closing) -> None:
    """One timer row per window that opens; files whose timers have all fired go."""
    table = runtime.store.table(f.TIMERS)
    lateness = runtime.plan.query.lateness
    fired = [
        file
        for file in table.files_at(planned.tables[f.TIMERS])
        if closing.replaces_timers or (closing.until is not None and int(file.high["window_end"]) <= closing.until)
    ]
    rows = [
        {
            "deadline": window.end + lateness,
            "key_hash": None,
            "window_start": window.start,
            "window_end": window.end,
            "epoch": runtime.epoch,
        }
        for window in sorted(closing.opened - closing.closed)
    ]
    _land(runtime, f.TIMERS, _small_file(runtime, f.TIMERS, rows, f.TIMER_SCHEMA), fired, {}, f.TIMER_SCHEMA)


def _land_ledger(runtime: Runtime, planned: PlanRow) -> None:
    """Which files of directory sources this epoch took: the position of a source that has no versions."""
    taken = [c for c in pinned_commits(planned) if runtime.connectors[c.source].keeps_ledger]
    rows = [
        {"source": c.source, "id": c.id, "size": c.files[0].size, "epoch": runtime.epoch, "position": i}
        for i, c in enumerate(taken)
    ]
    files = _small_file(runtime, f.SOURCE_FILES, rows, f.SOURCE_FILE_SCHEMA)
    _land(runtime, f.SOURCE_FILES, files, [], {}, f.SOURCE_FILE_SCHEMA)


def _small_file(runtime: Runtime, name: str, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> list[DataFile]:
    if not rows:
        return []
    root = runtime.store.table(name).root
    file = write_file(
        root, f"e{runtime.epoch:010d}-{runtime.store.run_id}.parquet", pa.Table.from_pylist(list(rows), schema)
    )
    runtime.store.after_write(f"{name} files")
    return [file]
