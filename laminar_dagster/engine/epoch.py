"""One epoch, on one page: from a pinned plan to the commit that makes it happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from laminar_dagster.engine.aside import Judged, set_aside, write_side_output
from laminar_dagster.engine.batch import Batch, read
from laminar_dagster.engine.closing import PARTITION, Due, Emitted, closed_until, emit, windows_due
from laminar_dagster.engine.partials import BUCKET, windows_in, write_partials
from laminar_dagster.engine.runtime import Clocks, Runtime, written_schema
from laminar_dagster.engine.sources.commits import SourceCommit
from laminar_dagster.engine.window_sql import fixed_window
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.watermark import Progress, progress
from laminar_dagster.semantics.windows import Window
from state_store import CommitRow, DataFile, PlanRow
from state_store import format as f
from state_store.parquet import write_file


def run_epoch(runtime: Runtime, planned: PlanRow) -> CommitRow:
    """Do what the plan pinned. Killed anywhere, the same call does the rest, and nothing happens twice."""
    runtime.epoch, runtime.seconds = planned.epoch, {}
    now = planned.processing_time
    with runtime.timed("read"):
        batch = read(runtime, pinned_commits(planned), now)
    try:
        return finish_epoch(runtime, planned, batch)
    finally:
        batch.release()


def finish_epoch(runtime: Runtime, planned: PlanRow, batch: Batch) -> CommitRow:
    """From the rows at hand to the commit: fold, close, emit, land."""
    now = planned.processing_time
    clocks = progress(batch.commit_times, planned.watermark, runtime.clocks.shards, runtime.plan.query.policies, now)
    with runtime.timed("fold"):
        folded = fold(runtime, batch, clocks, now)
    with runtime.timed("close"):
        timers = runtime.timers | folded.windows
        due = windows_due(runtime.plan.query, timers, clocks.watermark)
        pinned = runtime.store.table(f.PARTIALS).files_at(planned.tables[f.PARTIALS])
        emitted = emit(runtime, due, folded.partials, pinned, now)
    with runtime.timed("commit"):
        land(runtime, planned, folded, due, emitted, pinned)
        commit = commit_row(runtime, planned, batch, clocks, folded, due, emitted)
        runtime.store.finish(commit)
    advance(runtime, planned, clocks, timers, due)
    return commit


@dataclass(frozen=True)
class Folded:
    """The epoch's rows after they were taken in: partials, rows set aside, and the windows they touched."""

    partials: list[DataFile]
    aside: list[DataFile]
    windows: frozenset[Window]
    counts: Mapping[str, int]


def fold(runtime: Runtime, batch: Batch, clocks: Progress, now: int) -> Folded:
    if batch.frame is None:
        return Folded([], [], frozenset(), {"rows_in": 0})
    judged = set_aside(runtime, batch, clocks)
    partials = write_partials(runtime, batch, judged.kept)
    counts = fates(batch, judged)
    aside = write_side_output(runtime, judged, now, counts, runtime.clocks.watermark)
    return Folded(partials, aside, _open(runtime, windows_in(runtime, partials)), counts)


def _open(runtime: Runtime, windows: set[Window]) -> frozenset[Window]:
    """Those that were not closed before this epoch: a pane may be part of windows that are long gone."""
    closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
    return frozenset(window for window in windows if closed is None or window.end > closed)


def fates(batch: Batch, judged: Judged) -> dict[str, int]:
    """How many rows came in, and what became of them; the parts add up to the whole."""
    counts = {"rows_in": batch.rows, "late": 0, "error": 0, **judged.counts()}
    if counts["rows_in"] != batch.rows:
        raise _rows_missing(batch.rows, counts["rows_in"])
    aggregated = counts.pop("kept", None)
    if aggregated is None:
        aggregated = counts["rows_in"] - counts["filtered"] - counts["late"] - counts["error"]
    filtered = counts["rows_in"] - aggregated - counts["late"] - counts["error"]
    return {**counts, "filtered": filtered, "aggregated": aggregated}


def _rows_missing(expected: int, found: int) -> LaminarError:
    return LaminarError(
        "LMR0406",
        f"the epoch judged {found} rows, and its source files hold {expected}",
        detail="Every row that comes in is accounted for, so this is a defect of laminar or of a source file.",
        hint="Please report it, with the output of `laminar explain` and the source's format.",
        committed="Nothing of this epoch is committed; all earlier epochs stand.",
    )


def land(
    runtime: Runtime, planned: PlanRow, folded: Folded, due: Due, emitted: Emitted, pinned: list[DataFile]
) -> None:
    """Make the epoch's files part of their tables, each in one commit that a rerun does not repeat."""
    closed = [file for file in pinned if _is_closed(runtime, file, due)]
    live = [file for file in folded.partials if not _is_closed(runtime, file, due)]
    _land(runtime, f.PARTIALS, live, closed, {BUCKET: pa.int64()})
    _land_timers(runtime, planned, folded, due)
    _land_ledger(runtime, planned)
    _land(runtime, f.SIDE_OUTPUT, [*folded.aside, *emitted.failures], [], {}, f.SIDE_OUTPUT_SCHEMA)
    _land(runtime, f.OUTPUT, emitted.output, [], {PARTITION: pa.string()})


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


def _is_closed(runtime: Runtime, file: DataFile, due: Due) -> bool:
    """Whether every window that the file has panes of is closed."""
    newest = Window(int(file.high["pane_start"]), int(file.high["pane_end"]))
    last = max(window.end for window in fixed_window(runtime.plan.query).windows_of(newest))
    return due.until is not None and last <= due.until


def _land_timers(runtime: Runtime, planned: PlanRow, folded: Folded, due: Due) -> None:
    """One timer row per window that opens; files whose timers have all fired go."""
    table = runtime.store.table(f.TIMERS)
    lateness = runtime.plan.query.lateness
    opened = sorted(folded.windows - runtime.timers - due.windows)
    fired = [
        file
        for file in table.files_at(planned.tables[f.TIMERS])
        if due.until is not None and int(file.high["window_end"]) <= due.until
    ]
    rows = [
        {
            "deadline": window.end + lateness,
            "key_hash": None,
            "window_start": window.start,
            "window_end": window.end,
            "epoch": runtime.epoch,
        }
        for window in opened
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


def pinned_commits(planned: PlanRow) -> list[SourceCommit]:
    return [SourceCommit.from_json(entry) for entry in planned.sources["commits"]]


def commit_row(
    runtime: Runtime,
    planned: PlanRow,
    batch: Batch,
    clocks: Progress,
    folded: Folded,
    due: Due,
    emitted: Emitted,
) -> CommitRow:
    opened = folded.windows - runtime.timers
    counts = {
        **folded.counts,
        "commits": len(batch.commits),
        "groups_touched": sum(file.rows for file in folded.partials),
        "windows_opened": len(opened),
        "windows_closed": len(due.windows),
        "windows_open": len(runtime.timers) + len(opened) - len(due.windows),
        "rows_out": emitted.rows,
        "result_errors": emitted.failed,
    }
    return CommitRow(
        epoch=planned.epoch,
        epoch_kind=planned.epoch_kind,
        run_id=runtime.store.run_id,
        processing_time=planned.processing_time,
        fingerprint=planned.fingerprint,
        watermark=clocks.watermark,
        positions=planned.sources["positions"],
        shards=Clocks(clocks.watermark, clocks.shards).to_json(),
        tables=runtime.store.versions(f.TABLES),
        counts=counts,
        seconds={step: round(seconds, 4) for step, seconds in runtime.seconds.items()},
    )


def advance(runtime: Runtime, planned: PlanRow, clocks: Progress, timers: frozenset[Window], due: Due) -> None:
    """Hand the committed state on to the next epoch of this run."""
    runtime.clocks = Clocks(clocks.watermark, clocks.shards)
    runtime.timers = timers - due.windows
    commits = pinned_commits(planned)
    for name, connector in runtime.connectors.items():
        mine = [commit for commit in commits if commit.source == name]
        if mine:
            runtime.positions[name] = connector.position_after(mine, runtime.positions.get(name))
