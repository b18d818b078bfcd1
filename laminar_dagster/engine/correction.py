"""Corrections: windows that are computed anew, closed ones too, and the difference to what was shown.

A backfill takes the windows of a stretch of time; a fold-back those of chosen late rows; a correction upstream those
that its changed rows lie in. Each is an epoch of its own kind in the same log, planned, landed and committed like any
other, so that a kill anywhere is healed by the next run.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laminar_dagster.engine.batch import TIME, read
from laminar_dagster.engine.changelog import begin_changelog, write_changes
from laminar_dagster.engine.closing import Closing, Emitted, closed_until, partition_of
from laminar_dagster.engine.correction_rows import Both, Corrected, corrections, everything
from laminar_dagster.engine.landing import Folded, land, pinned_commits
from laminar_dagster.engine.late_rows import Chosen, chosen_by, chosen_in, left_out, marked
from laminar_dagster.engine.recomputing import Anew, RunEpoch, computed_anew, scratch_of
from laminar_dagster.engine.runtime import Carried, Runtime
from laminar_dagster.engine.shown import END
from laminar_dagster.engine.updating import write_rows
from laminar_dagster.engine.window_sql import pane_end_sql, pane_start_sql
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.bounds import falls_back
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.ranges import ALWAYS, EVER, joined, last_end
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, DataFile, PlanRow
from state_store import format as f
from state_store.parquet import data_files

TICK, BACKFILL, FOLD, UPSTREAM = "tick", "backfill", "fold_late", "correction"
KINDS = (BACKFILL, FOLD, UPSTREAM)
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
    chosen: Chosen
    corrected: Corrected
    anew: Anew
    takes_state: bool

    @property
    def counts(self) -> dict[str, int]:
        changes = self.corrected.found.changes
        ops = Counter(changes.column("_op").to_pylist())
        return {
            "rows_read_again": self.anew.commit.counts["rows_in"],
            "folded_rows": self.chosen.rows,
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
        starts, ops = changes.column("_start").to_pylist(), changes.column("_op").to_pylist()
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
            hint="Give the source an event time: docs/reference/configuration.md.",
        )


def concerns(runtime: Runtime, planned: PlanRow) -> bool:
    """Whether there is anything to compute anew: a fold-back needs rows that fit."""
    correction = Correction.of(planned)
    return correction.kind != FOLD or chosen_by(runtime, planned, correction.where).rows > 0


def run_correction(runtime: Runtime, planned: PlanRow, run_epoch: RunEpoch) -> CommitRow:
    """Do what the plan pinned; like an epoch of rows, but with windows that are computed anew in the place of rows."""
    runtime.epoch, runtime.seconds = planned.epoch, {}
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
    correction = Correction.of(planned)
    with runtime.timed("choose"):
        ranges, chosen = _chosen(runtime, planned, correction)
    scope, takes_state = _scope(runtime, ranges)
    shutil.rmtree(scratch_of(runtime), ignore_errors=True)
    folding = chosen if correction.kind == FOLD else None
    excluded = left_out(runtime, planned, folding, scratch_of(runtime) / "left_out.parquet")
    with computed_anew(runtime, planned, scope, excluded, run_epoch) as anew:
        with runtime.timed("compare"):
            both = Both(_shown(runtime, planned, scope), anew.files(f.OUTPUT), _still_open(runtime, anew))
            corrected = corrections(runtime.plan.query, both, scope)
        yield Result(ranges, chosen, corrected, anew, takes_state or corrected.takes_state)


def _chosen(runtime: Runtime, planned: PlanRow, correction: Correction) -> tuple[tuple[Window, ...], Chosen]:
    if correction.kind == FOLD:
        chosen = chosen_by(runtime, planned, correction.where)
        return chosen.ranges, chosen
    ranges = joined(correction.ranges or _changed_upstream(runtime, planned))
    return ranges, chosen_in(runtime, planned, ranges)


def _changed_upstream(runtime: Runtime, planned: PlanRow) -> Iterator[Window]:
    """The stretches that the rows lie in which a view upstream has corrected."""
    query = runtime.plan.query
    if everything(query):
        yield EVER
        return
    batch = read(runtime, pinned_commits(planned), planned.processing_time)
    if batch.frame is None:
        return
    if isinstance(query.window, Session):
        start, end = f"{TIME} - pmod({TIME}, {query.window.gap}L)", f"{TIME} - pmod({TIME}, {query.window.gap}L) + 1L"
    else:
        assert query.window is not None
        start = pane_start_sql(query.window, TIME)
        end = pane_end_sql(query.window, start)
    spans = batch.frame.filter(f"{TIME} IS NOT NULL").selectExpr(f"{start} AS low", f"{end} AS high").distinct()
    yield from (Window(row["low"], row["high"]) for row in spans.collect())
    batch.release()


def _scope(runtime: Runtime, ranges: Sequence[Window]) -> tuple[tuple[Window, ...], bool]:
    """The ranges with, where they reach an open window, all that is open; and whether the state is replaced."""
    query = runtime.plan.query
    if everything(query):
        return (EVER,), not query.passes_rows
    if not ranges:
        return (), False
    if isinstance(query.window, Session):
        return tuple(ranges), False
    assert query.window is not None
    until = closed_until(query, runtime.clocks.watermark)
    last = last_end(query.window, ranges)
    if until is not None and last <= until:
        return tuple(ranges), False
    first = min([window.start for window in runtime.timers] + [max(r.start for r in ranges)])
    return joined([*ranges, Window(first, ALWAYS)]), True


def _shown(runtime: Runtime, planned: PlanRow, scope: Sequence[Window]) -> list[str]:
    """The files of the table that can hold windows of the scope; of sessions all, since one may come to touch any."""
    table = runtime.store.table(f.OUTPUT)
    files = table.files_at(planned.tables.get(f.OUTPUT))
    if not isinstance(runtime.plan.query.window, Session):
        low = min((r.start for r in scope), default=ALWAYS)
        files = [file for file in files if END not in file.high or int(file.high[END]) > low]
    return table.absolute(files)


def _still_open(runtime: Runtime, anew: Anew) -> list[str]:
    return anew.files(f.PARTIALS) if isinstance(runtime.plan.query.window, Session) else []


# --- files ---------------------------------------------------------------------------------------------------


def _written(runtime: Runtime, planned: PlanRow, result: Result) -> tuple[Folded, Closing, Emitted]:
    found = result.corrected.found
    shown = _files_by_path(runtime, planned)
    now, watermark = planned.processing_time, runtime.clocks.watermark
    begun = begin_changelog(runtime, planned) if found.changes.num_rows else []
    aside, replaced_aside = marked(runtime, planned, result.chosen)
    emitted = Emitted(
        output=write_rows(runtime, planned, found.rows) if found.rows.num_rows else [],
        failures=[],
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
    opened = result.anew.runtime.timers
    return Closing(
        merged=None,
        rows=0,
        gone=runtime.store.table(f.PARTIALS).files_at(planned.tables[f.PARTIALS]),
        live=_taken_over(runtime, result.anew),
        until=until,
        opened=opened,
        replaces_timers=True,
    )


def _taken_over(runtime: Runtime, anew: Anew) -> list[DataFile]:
    """The partials that were computed anew, as files of this view's state."""
    theirs, mine = anew.runtime.store.table(f.PARTIALS), runtime.store.table(f.PARTIALS)
    folder = f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}"
    for number, file in enumerate(theirs.files_at(anew.commit.tables.get(f.PARTIALS))):
        source = Path(file.path)
        bucket = next(part for part in source.parts if "=" in part)
        target = mine.root / folder / bucket / f"part-{number}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(theirs.root / source, target)
    runtime.store.after_write(f"{f.PARTIALS} files")
    return data_files(mine.root, folder)


def _commit_row(runtime: Runtime, planned: PlanRow, result: Result) -> CommitRow:
    again = result.anew.runtime
    timers = again.timers if result.takes_state else runtime.timers
    carried = runtime.carried
    if result.takes_state:
        carried = replace(carried, waiting=again.carried.waiting, failing=again.carried.failing)
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
        carried=carried.to_json(),
        corrected={
            "ranges": [[r.start, r.end] for r in result.ranges],
            "partitions": result.by_partition(runtime.plan.query),
        },
        taken=[None] * len(planned.sources["commits"]),
        seconds={step: round(seconds, 4) for step, seconds in runtime.seconds.items()},
    )
