"""Corrections: windows that are computed anew, closed ones too, and the difference to what was shown.

A backfill takes the windows of a stretch of time; a fold-back those of chosen late rows; a correction upstream those
that its changed rows lie in. Each is an epoch of its own kind in the same log, planned, landed and committed like any
other, so that a kill anywhere is healed by the next run.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from laminar_dagster.engine.batch import TIME, read
from laminar_dagster.engine.changelog import begin_changelog, write_changes
from laminar_dagster.engine.closing import Closing, Emitted, closed_until, partition_of
from laminar_dagster.engine.column_names import CHANGE_START, HIGH, LOW
from laminar_dagster.engine.corrected_failures import new_failures
from laminar_dagster.engine.correction_rows import Both, Corrected, corrections, everything
from laminar_dagster.engine.epoch_kinds import FOLD
from laminar_dagster.engine.landing import Folded, land, pinned_commits
from laminar_dagster.engine.late_rows import (
    Chosen,
    Taken,
    chosen_by,
    left_out,
    marked,
    require_known,
    require_late_kept,
    taken_by_sessions,
    taken_in,
)
from laminar_dagster.engine.recomputing import Anew, RunEpoch, computed_anew, rows_of, scratch_of
from laminar_dagster.engine.retained import retained, tables_of_views
from laminar_dagster.engine.runtime import Carried, Runtime
from laminar_dagster.engine.shown import END
from laminar_dagster.engine.state_taking import state_taken
from laminar_dagster.engine.updating import write_rows
from laminar_dagster.engine.window_sql import pane_end_sql, pane_start_sql
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.bounds import falls_back
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.ranges import ALWAYS, EVER, joined, last_end, overlap
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, DataFile, PlanRow
from state_store import format as f

# In a plan's sources: what is to be corrected.
CORRECTION = "correction"


@dataclass(frozen=True)
class Correction:
    """What to compute anew: windows that overlap the ranges, or those of late rows that fit a condition."""

    kind: str
    ranges: tuple[Window, ...] = ()
    where: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"ranges": [[r.start, r.end] for r in self.ranges], "where": self.where}

    @staticmethod
    def of(planned: PlanRow) -> Correction:
        body = planned.sources[CORRECTION]
        return Correction(planned.epoch_kind, tuple(Window(*bounds) for bounds in body["ranges"]), body["where"])


@dataclass(frozen=True)
class Result:
    """What a correction comes to, before anything of it has landed."""

    ranges: tuple[Window, ...]
    taken: Taken
    corrected: Corrected
    anew: Anew
    takes_state: bool

    @property
    def counts(self) -> dict[str, int]:
        changes = self.corrected.found.changes
        ops = Counter(changes.column("_op").to_pylist())
        return {
            "rows_read_again": self.anew.commit.counts["rows_in"],
            "folded_rows": self.taken.rows,
            "inserted": ops["+I"],
            "updated": ops["+U"],
            "deleted": ops["-D"],
            "rows_out": changes.num_rows,
        }

    def by_partition(self, query: Query) -> dict[str, dict[str, int]]:
        """How many changes of each kind the partitions of the output get."""
        changes = self.corrected.found.changes
        if query.window is None or not changes.num_rows:
            return {}
        starts, ops = changes.column(CHANGE_START).to_pylist(), changes.column("_op").to_pylist()
        found: dict[str, Counter[str]] = {}
        for (start, op), count in Counter(zip(starts, ops, strict=True)).items():
            found.setdefault(partition_of(start, query.partition), Counter())[op] += count
        return {partition: dict(counts) for partition, counts in sorted(found.items())}


def require_correctable(query: Query) -> None:
    """Rows must tell their own time: one that took the time at which it was read cannot be placed again."""
    if query.null_event_time == FALLBACK or any(falls_back(query, entry) for entry in query.inputs):
        raise LaminarError(
            "LMR0724",
            f'windows of view "{query.view}" cannot be computed anew',
            detail="Its rows take the time at which they were read, and the source does not tell that any more.",
            hint="Give the source an event time (docs/reference/configuration.md), and build the view anew.",
            committed="Nothing was changed.",
        )


def is_due(runtime: Runtime, planned: PlanRow) -> bool:
    """Whether there is anything to compute anew: a fold-back needs rows that fit.

    What stands in the way is told here, before the plan is written: an epoch that was planned must be possible.
    """
    ranges, chosen = _chosen(runtime, planned, Correction.of(planned))
    if planned.epoch_kind == FOLD and not chosen.rows:
        require_late_kept(runtime, planned)
        return False
    needed = rows_of(runtime.plan.query, _scope(runtime, ranges)[0])
    require_known(runtime, planned, taken_in(runtime, planned, ranges, chosen), needed)
    retained(runtime, tables_of_views(runtime, planned), needed)
    return True


def run_correction(runtime: Runtime, planned: PlanRow, run_epoch: RunEpoch) -> CommitRow:
    """Do what the plan pinned; like an epoch of rows, but with windows that are computed anew in the place of rows."""
    runtime.epoch, runtime.now, runtime.seconds = planned.epoch, planned.processing_time, {}
    with result_of(runtime, planned, run_epoch) as result, runtime.timed("commit"):
        folded, closing, emitted = _written(runtime, planned, result)
        land(runtime, planned, folded, closing, emitted)
        commit = _commit_row(runtime, planned, result)
        runtime.store.finish(commit)
    runtime.carried = Carried.from_json(commit.carried)
    if result.takes_state:
        runtime.timers = result.anew.runtime.timers
    for name, position in planned.sources["positions"].items():
        runtime.positions[name] = position
    return commit


@contextmanager
def result_of(runtime: Runtime, planned: PlanRow, run_epoch: RunEpoch) -> Iterator[Result]:
    """Compute the windows anew and compare; nothing is written to the view's tables."""
    query = runtime.plan.query
    with runtime.timed("choose"):
        ranges, chosen = _chosen(runtime, planned, Correction.of(planned))
        taken = taken_in(runtime, planned, ranges, chosen)
    scope, takes_state = _scope(runtime, ranges)
    needed = rows_of(query, scope)
    require_known(runtime, planned, taken, needed)
    shutil.rmtree(scratch_of(runtime, planned), ignore_errors=True)
    excluded = left_out(runtime, planned, taken, needed, scratch_of(runtime, planned) / "left_out.parquet")
    with computed_anew(runtime, planned, needed, excluded, run_epoch) as anew:
        with runtime.timed("compare"):
            compared = (EVER,) if everything(query) else ranges
            corrected = corrections(query, _both(runtime, planned, anew, compared), compared)
        if corrected.sessions is not None:
            taken = taken_by_sessions(runtime, planned, taken, corrected.sessions.spans)
            takes_state = corrected.sessions.takes_state
        yield Result(ranges, taken, corrected, anew, takes_state)


def _chosen(runtime: Runtime, planned: PlanRow, correction: Correction) -> tuple[tuple[Window, ...], Chosen]:
    if correction.kind == FOLD:
        chosen = chosen_by(runtime, planned, correction.where)
        return chosen.ranges, chosen
    return joined(correction.ranges or _changed_upstream(runtime, planned)), Chosen()


def _changed_upstream(runtime: Runtime, planned: PlanRow) -> Iterator[Window]:
    """The stretches that the rows lie in which a view upstream has corrected."""
    query = runtime.plan.query
    if everything(query):
        yield EVER
        return
    batch = read(runtime, pinned_commits(planned), planned.processing_time)
    assert batch.frame is not None
    assert query.window is not None
    rows = batch.frame.filter(f"{TIME} IS NOT NULL")
    if isinstance(query.window, Session):
        cells = rows.selectExpr(f"{TIME} - pmod({TIME}, {query.window.gap}L) AS cell", TIME)
        spans = runtime.aggregated(cells, ["cell"], {"low": f"min({TIME})", "high": f"max({TIME}) + 1L"})
    else:
        start = pane_start_sql(query.window, TIME)
        spans = rows.selectExpr(f"{start} AS low", f"{pane_end_sql(query.window, start)} AS high").distinct()
    yield from (Window(row["low"], row["high"]) for row in spans.collect())
    batch.release()


def _scope(runtime: Runtime, ranges: Sequence[Window]) -> tuple[tuple[Window, ...], bool]:
    """The ranges with, where they reach an open window, all that is open; and whether the state is replaced."""
    query = runtime.plan.query
    if everything(query):
        return (EVER,), not query.passes_rows
    if not ranges or isinstance(query.window, Session):
        return tuple(ranges), False
    assert query.window is not None
    until = closed_until(query, runtime.clocks.watermark)
    last = last_end(query.window, ranges)
    if until is not None and last <= until:
        return tuple(ranges), False
    first = min([window.start for window in runtime.timers] + [max(r.start for r in ranges)])
    return joined([*ranges, Window(first, ALWAYS)]), True


def _both(runtime: Runtime, planned: PlanRow, anew: Anew, ranges: Sequence[Window]) -> Both:
    """What is held against what: files of the table that can hold windows of the ranges; of sessions all of them."""
    table, is_session = runtime.store.table(f.OUTPUT), isinstance(runtime.plan.query.window, Session)
    files = table.files_at(planned.tables.get(f.OUTPUT))
    if not is_session:
        low = min((r.start for r in ranges), default=ALWAYS)
        files = [file for file in files if END not in file.high or int(file.high[END]) > low]
    state = runtime.store.table(f.PARTIALS)
    return Both(
        shown=table.absolute(files),
        anew=anew.files(f.OUTPUT),
        open_before=state.absolute(state.files_at(planned.tables.get(f.PARTIALS))) if is_session else (),
        open_anew=anew.files(f.PARTIALS) if is_session else (),
    )


# --- files ---------------------------------------------------------------------------------------------------


def _written(runtime: Runtime, planned: PlanRow, result: Result) -> tuple[Folded, Closing, Emitted]:
    found = result.corrected.found
    shown = _files_by_path(runtime, planned)
    now, watermark = planned.processing_time, runtime.clocks.watermark
    begun = begin_changelog(runtime, planned) if found.changes.num_rows else []
    aside, replaced_aside = marked(runtime, planned, result.taken)
    emitted = Emitted(
        output=write_rows(runtime, planned, found.rows) if found.rows.num_rows else [],
        failures=new_failures(runtime, planned, result.anew, result.ranges),
        replaced=[shown[path] for path in found.touched],
        changes=[*begun, *write_changes(runtime, found.changes, now=now, watermark=watermark)]
        if found.changes.num_rows
        else [],
    )
    folded = Folded([], aside, {}, replaced_aside=replaced_aside)
    return folded, _state(runtime, planned, result), emitted


def _files_by_path(runtime: Runtime, planned: PlanRow) -> dict[str, DataFile]:
    table = runtime.store.table(f.OUTPUT)
    files = table.files_at(planned.tables.get(f.OUTPUT))
    return dict(zip(table.absolute(files), files, strict=True))


def _state(runtime: Runtime, planned: PlanRow, result: Result) -> Closing:
    """The state of everything that is open, in the place of what there was; or nothing to change."""
    until = closed_until(runtime.plan.query, runtime.clocks.watermark)
    if not result.takes_state:
        return Closing(None, 0, [], [], until)
    gone, live = state_taken(runtime, planned, result.anew, result.corrected.sessions)
    return Closing(
        merged=None,
        rows=0,
        gone=gone,
        live=live,
        until=until,
        opened=result.anew.runtime.timers,
        replaces_timers=True,
    )


def _commit_row(runtime: Runtime, planned: PlanRow, result: Result) -> CommitRow:
    timers = result.anew.runtime.timers if result.takes_state else runtime.timers
    return CommitRow(
        epoch=planned.epoch,
        epoch_kind=planned.epoch_kind,
        run_id=runtime.store.run_id,
        processing_time=planned.processing_time,
        fingerprint=planned.fingerprint,
        watermark=runtime.clocks.watermark,
        positions=planned.sources["positions"],
        shards=runtime.clocks.to_json(),
        tables=runtime.store.versions(f.TABLES),
        counts={
            "rows_in": 0,
            "commits": len(planned.sources["commits"]),
            **result.counts,
            "windows_open": len(timers),
        },
        carried=_carried(runtime, result).to_json(),
        corrected=_account(runtime, result),
        taken=[None] * len(planned.sources["commits"]),
        seconds={step: round(seconds, 4) for step, seconds in runtime.seconds.items()},
    )


def _account(runtime: Runtime, result: Result) -> dict[str, Any]:
    """Which windows were computed anew (those that overlap the ranges; sessions as they are), and what changed."""
    found: dict[str, Any] = {"ranges": [[r.start, r.end] for r in result.ranges]}
    if result.corrected.sessions is not None:
        bounds = result.corrected.sessions.spans.select([LOW, HIGH]).to_pylist()
        found["sessions"] = [[r.start, r.end] for r in joined(Window(b[LOW], b[HIGH]) for b in bounds)]
    return {**found, "partitions": result.by_partition(runtime.plan.query)}


def _carried(runtime: Runtime, result: Result) -> Carried:
    """What the windows that were not computed anew wait for is still to come; what fails is known anew of all."""
    if not result.takes_state:
        return runtime.carried
    failing = {**runtime.carried.failing, **result.anew.runtime.carried.failing}
    if result.corrected.sessions is None:
        failing = dict(result.anew.runtime.carried.failing)
    if everything(runtime.plan.query):
        return replace(runtime.carried, waiting=frozenset(), failing=failing)
    waiting = (w for w in runtime.carried.waiting if w is None or not overlap(w, result.ranges))
    return replace(runtime.carried, waiting=frozenset(waiting), failing=failing)
