"""One epoch, on one page: from a pinned plan to the commit that makes it happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar_dagster.engine.aside import Judged, set_aside, write_side_output
from laminar_dagster.engine.batch import Batch, read
from laminar_dagster.engine.changelog import write_insertions
from laminar_dagster.engine.closing import Closing, Emitted, emit
from laminar_dagster.engine.correction import CORRECTION, run_correction
from laminar_dagster.engine.duplicates import remember, seen_keys
from laminar_dagster.engine.landing import Folded, land, pinned_commits
from laminar_dagster.engine.partials import write_partials
from laminar_dagster.engine.passing import pass_on
from laminar_dagster.engine.quotas import is_near, is_passed
from laminar_dagster.engine.revising import Change
from laminar_dagster.engine.runtime import TOLD, WAITING, Clocks, Runtime
from laminar_dagster.engine.side_output import as_planned, dropped
from laminar_dagster.engine.updating import period_passed, update
from laminar_dagster.engine.window_state import WindowState, state_of
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.emission import Moment
from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS
from laminar_dagster.semantics.watermark import Progress, directed, progress
from laminar_dagster.semantics.windows import Session
from state_store import CommitRow, DataFile, PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_epoch(runtime: Runtime, planned: PlanRow) -> CommitRow:
    """Do what the plan pinned. Killed anywhere, the same call does the rest, and nothing happens twice."""
    if CORRECTION in planned.sources:
        return run_correction(runtime, planned, run_epoch)
    runtime.epoch, runtime.now, runtime.seconds = planned.epoch, planned.processing_time, {}
    with runtime.timed("read"):
        batch = read(runtime, pinned_commits(planned), runtime.now)
    try:
        return finish_epoch(runtime, planned, batch)
    finally:
        batch.release()


def finish_epoch(runtime: Runtime, planned: PlanRow, batch: Batch) -> CommitRow:
    """From the rows at hand to the commit: fold, close, emit, land."""
    clocks = clocks_of(runtime, planned, batch)
    state = state_of(runtime.plan.query)
    pinned = runtime.store.table(f.PARTIALS).files_at(planned.tables[f.PARTIALS])
    with runtime.timed("fold"):
        folded = fold(runtime, planned, state, batch, clocks, pinned)
    with runtime.timed("close"):
        closing = folded.closing or state.close(runtime, folded.partials, pinned, clocks.watermark)
        emitted = emit_results(runtime, planned, state, closing, pinned, folded, clocks)
    with runtime.timed("commit"):
        land(runtime, planned, folded, closing, emitted)
        commit = commit_row(runtime, planned, batch, clocks, folded, closing, emitted)
        runtime.store.finish(commit)
    advance(runtime, planned, clocks, closing, emitted)
    return commit


def emit_results(
    runtime: Runtime,
    planned: PlanRow,
    state: WindowState,
    closing: Closing,
    pinned: Sequence[DataFile],
    folded: Folded,
    clocks: Progress,
) -> Emitted:
    """Results once their window closes, or whatever has changed of them, as the strategy has it."""
    query, now = runtime.plan.query, planned.processing_time
    if query.passes_rows:
        return folded.passed or Emitted([], [])
    if query.waits_for_close:
        emitted = emit(runtime, closing, now)
        keeps = query.has_changelog or planned.tables.get(f.CHANGELOG) is not None
        changes = write_insertions(runtime, emitted.output, now=now) if keeps else []
        return replace(emitted, changes=changes)
    moment = Moment(planned.watermark, clocks.watermark, period_passed(query, runtime.carried, now))
    change = Change(list(pinned), folded.partials, closing.touched, moment)
    return update(runtime, planned, state, closing, change)


def clocks_of(runtime: Runtime, planned: PlanRow, batch: Batch) -> Progress:
    """Where the epoch's rows move time to, or where its plan says."""
    before, shards, now = planned.watermark, runtime.clocks.shards, planned.processing_time
    if TOLD in planned.sources:
        return directed(batch.commit_times, before, shards, planned.sources[TOLD], now)
    waiting = planned.sources.get(WAITING, ())
    return progress(batch.commit_times, before, shards, runtime.plan.query.policies, now, waiting)


def fold(
    runtime: Runtime,
    planned: PlanRow,
    state: WindowState,
    batch: Batch,
    clocks: Progress,
    pinned: Sequence[DataFile],
) -> Folded:
    """Take the epoch's rows in: partials of those that enter windows, and the rows that were set aside."""
    seen = seen_keys(runtime, planned)
    remembered = remember(runtime, batch, seen, clocks.watermark)
    if batch.frame is None:
        return Folded([], [], {"rows_in": 0}, seen=remembered)
    evicts = is_near(runtime, batch, pinned)
    judged = set_aside(runtime, batch, clocks, pinned, seen, evicts=evicts)
    folded = take_in(runtime, planned, state, batch, judged.kept, clocks, pinned)
    if not evicts and is_passed(runtime, batch, pinned, folded.partials):
        judged = set_aside(runtime, batch, clocks, pinned, seen, evicts=True)
        folded = take_in(runtime, planned, state, batch, judged.kept, clocks, pinned)
    counts = fates(batch, judged)
    counts |= dropped(as_planned(runtime.plan.query.side_output, planned), counts)
    aside = write_side_output(runtime, judged, planned, counts, runtime.clocks.watermark)
    return replace(folded, aside=aside, counts=counts, seen=remembered)


def take_in(
    runtime: Runtime,
    planned: PlanRow,
    state: WindowState,
    batch: Batch,
    kept: DataFrame,
    clocks: Progress,
    pinned: Sequence[DataFile],
) -> Folded:
    """Rows that enter windows: passed on, folded together with what they close, or folded."""
    if runtime.plan.query.passes_rows:
        return Folded([], [], {}, passed=pass_on(runtime, planned, kept, batch.rows, clocks.watermark))
    closing = state.fold_and_close(runtime, batch, kept, pinned, clocks.watermark)
    if closing is not None:
        return Folded([], [], {}, closing=closing)
    return Folded(write_partials(runtime, state, batch, kept), [], {})


def fates(batch: Batch, judged: Judged) -> dict[str, int]:
    """How many rows came in, and what became of them; the parts add up to the whole."""
    counts = {"rows_in": batch.rows, "late": 0, "error": 0, **judged.counts()}
    if counts["rows_in"] != batch.rows:
        raise _rows_missing(batch.rows, counts["rows_in"])
    others = sum(counts.get(fate, 0) for fate in (*SIDE_OUTPUT_KINDS, "between_windows"))
    aggregated = counts.pop("kept", None)
    if aggregated is None:
        aggregated = counts["rows_in"] - counts["filtered"] - others
    return {**counts, "filtered": counts["rows_in"] - aggregated - others, "aggregated": aggregated}


def _rows_missing(expected: int, found: int) -> LaminarError:
    return LaminarError(
        "LMR0406",
        f"the epoch judged {found} rows, and its source files hold {expected}",
        detail="Every row that comes in is accounted for, so this is a defect of laminar or of a source file.",
        hint="Please report it, with the output of `laminar explain` and the source's format.",
        committed="Nothing of this epoch is committed; all earlier epochs stand.",
    )


def commit_row(
    runtime: Runtime,
    planned: PlanRow,
    batch: Batch,
    clocks: Progress,
    folded: Folded,
    closing: Closing,
    emitted: Emitted,
) -> CommitRow:
    counts = {
        "groups_touched": sum(file.rows for file in folded.partials),
        **folded.counts,
        **closing.counts,
        "commits": len(batch.commits),
        **window_counts(runtime, batch, closing),
        "rows_out": emitted.rows,
        **({} if runtime.plan.query.gap_fill is None else {"filled_rows": emitted.filled}),
        "result_errors": emitted.failed,
        **skipped_messages(batch),
        **batch.fallbacks(runtime.plan.query),
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
        carried=emitted.carried.to_json(),
        taken=[[times.rows, times.low, times.high, times.future] for times in batch.times],
        seconds={step: round(seconds, 4) for step, seconds in runtime.seconds.items()},
    )


def skipped_messages(batch: Batch) -> dict[str, int]:
    """What was gone from a topic before it could be read, and was passed over as the source says."""
    skipped = sum(commit.skipped for commit in batch.commits)
    return {"skipped_offsets": skipped} if skipped else {}


def window_counts(runtime: Runtime, batch: Batch, closing: Closing) -> dict[str, int]:
    if isinstance(runtime.plan.query.window, Session):
        return session_counts(batch, closing)
    return {
        "windows_opened": len(closing.opened),
        "windows_closed": len(closing.closed),
        "windows_open": len(runtime.timers) + len(closing.opened) - len(closing.closed),
    }


def session_counts(batch: Batch, closing: Closing) -> dict[str, int]:
    """A session that closes in an epoch without rows closes by its timer alone."""
    by_timer = closing.ended if batch.frame is None else 0
    return {
        "windows_closed": closing.ended,
        "sessions_closed_by_timer": by_timer,
        "sessions_closed_by_watermark": closing.ended - by_timer,
        "stale_timers": closing.counts.get("due_timers", 0) - closing.ended,
    }


def advance(runtime: Runtime, planned: PlanRow, clocks: Progress, closing: Closing, emitted: Emitted) -> None:
    """Hand the committed state on to the next epoch of this run."""
    runtime.clocks = Clocks(clocks.watermark, clocks.shards)
    runtime.carried = emitted.carried
    runtime.timers = (runtime.timers | closing.opened) - closing.closed
    commits = pinned_commits(planned)
    for name, connector in runtime.connectors.items():
        mine = [commit for commit in commits if commit.source == name]
        if mine:
            runtime.positions[name] = connector.position_after(mine, runtime.positions.get(name))
