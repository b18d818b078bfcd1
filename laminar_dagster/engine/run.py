"""Runs a view until it has caught up: finish the epoch that was cut short, then take what is new, bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.column_names import with_numbered_columns
from laminar_dagster.engine.committed import open_timers, positions
from laminar_dagster.engine.correction import (
    CORRECTION,
    Correction,
    Result,
    is_due,
    require_correctable,
    result_of,
)
from laminar_dagster.engine.cutting import epoch_of, is_correction
from laminar_dagster.engine.epoch import run_epoch
from laminar_dagster.engine.epoch_kinds import CHECK, TICK, UPSTREAM
from laminar_dagster.engine.landing import pinned_commits
from laminar_dagster.engine.maintenance import maintain_after_epoch
from laminar_dagster.engine.pending import pending
from laminar_dagster.engine.quotas import up_to_the_limits
from laminar_dagster.engine.runtime import TOLD, WAITING, Carried, Clocks, Runtime, Told
from laminar_dagster.engine.same_query import require_fingerprint, standing
from laminar_dagster.engine.side_output import pinned_options
from laminar_dagster.engine.sinks.delivering import Deliveries
from laminar_dagster.engine.sinks.targets import Surroundings
from laminar_dagster.engine.sources.commits import Limit, SourceCommit, require_files, require_readable
from laminar_dagster.engine.sources.files import FilesConnector
from laminar_dagster.engine.sources.kafka import KafkaConnector
from laminar_dagster.engine.sources.reading_again import require_as_taken
from laminar_dagster.engine.sources.registry import connect
from laminar_dagster.engine.updating import period_passed
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint, settings_fingerprint
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import from_datetime
from laminar_dagster.semantics.watermark import later, progress
from laminar_dagster.semantics.windows import Window
from laminar_dagster.sql.local_paths import require_local
from state_store import CommitRow, MaintenancePolicy, PlanRow, StoreWriter
from state_store import format as f
from state_store.epochs import Tail
from state_store.writer import EPOCH_APPLICATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_ROWS = 2_000_000
MAX_FILES = 500
# In a plan's sources: what the view's settings were, which may change between epochs and not within one.
SETTINGS = "settings"


@dataclass(frozen=True)
class RunOptions:
    """How much an epoch may take, how many epochs a run may take, what is kept, and the clock (tests set it)."""

    max_rows: int = MAX_ROWS
    max_files: int = MAX_FILES
    max_epochs: int | None = None
    now: Callable[[], int] = lambda: from_datetime(datetime.now(UTC))
    replan: bool = False
    lock: bool = True
    after_write: Callable[[str], None] = lambda _: None
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)


def run_view(
    plan: Plan,
    spark: SparkSession,
    *,
    project: Path,
    data: Path,
    options: RunOptions | None = None,
    on_epoch: Callable[[CommitRow], None] = lambda _: None,
) -> list[CommitRow]:
    """Run epochs until the view has caught up with its sources; gives what was committed."""
    with open_view(plan, spark, project=project, data=data, options=options) as view:
        return view.drain(on_epoch)


@contextmanager
def open_view(
    plan: Plan, spark: SparkSession, *, project: Path, data: Path, options: RunOptions | None = None
) -> Iterator[ViewRun]:
    """The view's store, locked for this run, and its state as the last commit left it."""
    options = options or RunOptions()
    require_local("the data directory", data)
    require_local("the project", project)
    # Spark, in another process, may have another working directory.
    writer = StoreWriter(data.absolute() / plan.query.view, lock=options.lock, after_write=options.after_write)
    with writer as store:
        connectors = {i.source.name: connect(i.source, project, data.absolute()) for i in plan.query.inputs}
        runtime = Runtime(with_numbered_columns(plan), fingerprint(plan), spark, store, connectors)
        surroundings = Surroundings(project.absolute(), store.after_write)
        deliveries = Deliveries(plan.query, store.root, surroundings, lambda: spark)
        try:
            yield ViewRun(runtime, store.tail(), options, deliveries)
        finally:
            runtime.restore_session()


class ViewRun:
    """A run of one view: each `step` is one epoch. What `drain` commits it also delivers to the view's sinks."""

    def __init__(self, runtime: Runtime, tail: Tail, options: RunOptions, deliveries: Deliveries) -> None:
        self.runtime = runtime
        self.options = options
        self.deliveries = deliveries
        self.last = tail.commit
        self.unfinished = tail.unfinished
        self._restore(tail)

    def _restore(self, tail: Tail) -> None:
        commit = tail.commit
        if commit is None:
            return
        require_fingerprint(self.runtime.fingerprint, self.runtime.plan.query, commit, commit)
        self.runtime.clocks = Clocks.from_json(commit.watermark, commit.shards)
        reader = self.runtime.store.reader()
        self.runtime.positions = positions(reader, commit)
        self.runtime.timers = open_timers(self.runtime.plan.query, reader, commit)
        self.runtime.carried = Carried.from_json(commit.carried)

    def backlog(self) -> int:
        """How many source commits wait, about."""
        connectors = self.runtime.connectors.items()
        return sum(connector.backlog(self.runtime.positions.get(name)) for name, connector in connectors)

    def cautions(self) -> list[str]:
        """What to know before a first build, of sources that are there."""
        if self.last is not None or self.unfinished is not None:
            return []
        directories = [c for c in self.runtime.connectors.values() if isinstance(c, FilesConnector)]
        return [caution for directory in directories if (caution := directory.caution()) is not None]

    def drain(self, on_epoch: Callable[[CommitRow], None] = lambda _: None) -> list[CommitRow]:
        """Run epochs until there is nothing to do, or as many as the options allow; deliver each to the sinks.

        An epoch that took nothing from the sources is the last one: it moved time as far as the clock is, and the clock
        goes on for ever.
        A sink that fails does not keep the view from going on: its failure is raised when the epochs are done.
        """
        done: list[CommitRow] = []
        self.deliveries.catch_up()
        while self.options.max_epochs is None or len(done) < self.options.max_epochs:
            was_planned = self.unfinished is not None
            commit = self.step()
            if commit is None:
                break
            done.append(commit)
            on_epoch(commit)
            self.deliveries.catch_up()
            if not commit.counts["commits"] and not was_planned:
                break
        self.deliveries.require_success()
        return done

    def step(self, told: Told | None = None) -> CommitRow | None:
        """Run one epoch; None if there is nothing to do. `told`: where the watermark goes, whatever the rows say."""
        planned = self._resume() or self._plan(told)
        return None if planned is None else self._run(planned)

    def _run(self, planned: PlanRow) -> CommitRow:
        try:
            self.last = run_epoch(self.runtime, planned)
        except Exception:
            self._blame_the_files(planned)
            raise
        maintain_after_epoch(self.runtime, self.options.maintenance)
        return self.last

    def _resume(self) -> PlanRow | None:
        """The epoch that an earlier run planned and did not finish, now this run's."""
        planned, self.unfinished = self.unfinished, None
        if planned is None:
            return None
        if self.options.replan and self._untouched(planned):
            self.runtime.store.cancel(planned)
            return None
        require_fingerprint(self.runtime.fingerprint, self.runtime.plan.query, planned, self.last)
        _same_settings(self.runtime, planned, standing(self.last))
        self._require_sources(pinned_commits(planned))
        require_as_taken(self.runtime.connectors, pinned_commits(planned), planned.sources["positions"])
        return self.runtime.store.claim(planned)

    def _require_sources(self, commits: list[SourceCommit]) -> None:
        """What was planned must still be there to be read."""
        view, committed = self.runtime.plan.query.view, standing(self.last)
        require_files(commits, view, committed)
        for name, connector in self.runtime.connectors.items():
            if isinstance(connector, KafkaConnector):
                connector.require_kept([commit for commit in commits if commit.source == name], view, committed)

    def _blame_the_files(self, planned: PlanRow) -> None:
        """Where a source file is the cause of a failure, say that, and not what Spark made of it."""
        commits = pinned_commits(planned)
        self._require_sources(commits)
        require_as_taken(self.runtime.connectors, commits, planned.sources["positions"])
        require_readable(commits, standing(self.last))

    def _untouched(self, planned: PlanRow) -> bool:
        landed = [n for n in f.TABLES if (self.runtime.store.table(n).landed(EPOCH_APPLICATION) or 0) >= planned.epoch]
        if landed:
            raise LaminarError(
                "LMR0403",
                f"epoch {planned.epoch} cannot be planned anew: part of it is already in the tables",
                detail=f"landed: {', '.join(landed)}",
                hint="Put the missing source files back and run again without --replan.",
                committed=standing(self.last),
            )
        return True

    def _plan(self, told: Told | None) -> PlanRow | None:
        """Write down what the next epoch takes; None if it would change nothing."""
        runtime, options, now = self.runtime, self.options, self._now()
        waiting = pending(runtime.connectors, runtime.positions, Limit(options.max_rows, options.max_files))
        commits = up_to_the_limits(runtime, epoch_of(runtime, waiting.commits, now), now)
        if not commits and not (self._moves_to(told) if told else self._time_moves(now) or self._period_ends(now)):
            return None
        return self._pin(commits, now, told, waiting.left_by(commits))

    def _now(self) -> int:
        """Processing time. A clock that was set back stands still until it has caught up: time never falls."""
        now = self.options.now()
        return now if self.last is None else max(now, self.last.processing_time)

    def require_as_taken(self, log: Sequence[tuple[PlanRow, CommitRow]]) -> None:
        """What another store of this view has taken must still be what the sources hold."""
        commits = [commit for planned, _ in log for commit in pinned_commits(planned)]
        require_as_taken(self.runtime.connectors, commits, log[-1][1].positions if log else {})

    def again(self, logged: PlanRow) -> int:
        """An epoch out of the log of another store of this view: the same commits, at the same time.

        Gives how many of them the sources no longer hold; it is done without these.
        """
        commits = pinned_commits(logged)
        held = commits if self._holds(commits) else [commit for commit in commits if self._holds([commit])]
        told = Told(logged.sources[TOLD]) if TOLD in logged.sources else None
        self._run(self._pin(held, logged.processing_time, told, logged.sources.get(WAITING, ())))
        return len(commits) - len(held)

    def _holds(self, commits: list[SourceCommit]) -> bool:
        try:
            self._require_sources(commits)
        except LaminarError:
            return False
        return True

    def _pin(self, commits: list[SourceCommit], now: int, told: Told | None, waiting: Sequence[str]) -> PlanRow:
        runtime = self.runtime
        corrects = is_correction(runtime.plan.query, commits)
        if corrects:
            require_correctable(runtime.plan.query)
        more = {
            **({} if told is None else {TOLD: told.watermark}),
            **({WAITING: list(waiting)} if waiting else {}),
            **pinned_options(runtime.plan.query.side_output),
            **({CORRECTION: Correction(UPSTREAM).to_json()} if corrects else {}),
        }
        planned = self._next_plan(UPSTREAM if corrects else TICK, now, commits, more)
        runtime.store.begin(planned)
        return planned

    def correct(self, correction: Correction) -> CommitRow | None:
        """Compute windows anew and commit the difference; None if there is nothing that could be corrected."""
        require_correctable(self.runtime.plan.query)
        if self.unfinished is not None:
            self.step()
        planned = self._planned(correction)
        commit = None
        if planned is not None and is_due(self.runtime, planned):
            self.runtime.store.begin(planned)
            commit = self._run(planned)
        self.deliveries.catch_up()
        self.deliveries.require_success()
        return commit

    @contextmanager
    def preview(self, correction: Correction) -> Iterator[Result | None]:
        """What a correction would change; nothing of it is written."""
        require_correctable(self.runtime.plan.query)
        if self.unfinished is not None:
            raise _cut_short(self.runtime.plan.query.view, self.unfinished.epoch, standing(self.last))
        planned = self._planned(correction)
        if planned is None or not is_due(self.runtime, planned):
            yield None
            return
        with result_of(self.runtime, planned, run_epoch) as result:
            yield result

    @contextmanager
    def computed_anew(self, ranges: Sequence[Window]) -> Iterator[Result | None]:
        """Windows as the rows say that count in the view now; nothing is written, an epoch cut short stays so."""
        planned = self._planned(Correction(CHECK, tuple(ranges)))
        if planned is None or self.last is None:
            yield None
            return
        as_committed = replace(planned, tables=self.last.tables)
        is_due(self.runtime, as_committed)
        with result_of(self.runtime, as_committed, run_epoch) as result:
            yield result

    def _planned(self, correction: Correction) -> PlanRow | None:
        """The correction's plan; None where nothing is committed."""
        if self.last is None:
            return None
        return self._next_plan(correction.kind, self._now(), [], {CORRECTION: correction.to_json()})

    def _next_plan(self, kind: str, now: int, commits: list[SourceCommit], more: dict[str, Any]) -> PlanRow:
        """The next epoch, pinned to what the view's tables, clocks and settings are now."""
        runtime = self.runtime
        return PlanRow(
            epoch=(self.last.epoch if self.last else 0) + 1,
            epoch_kind=kind,
            run_id=runtime.store.run_id,
            processing_time=now,
            fingerprint=runtime.fingerprint,
            watermark=runtime.clocks.watermark,
            sources={
                "commits": [commit.to_json() for commit in commits],
                "positions": self._positions_after(commits),
                SETTINGS: settings_fingerprint(runtime.plan),
                **more,
            },
            tables=runtime.store.versions(f.TABLES),
            shards=runtime.clocks.to_json(),
        )

    def _moves_to(self, told: Told) -> bool:
        return later(self.runtime.clocks.watermark, told.watermark) != self.runtime.clocks.watermark

    def _period_ends(self, now: int) -> bool:
        """Whether changes wait for a period of EVERY that has passed by now."""
        carried = self.runtime.carried
        return bool(carried.waiting) and period_passed(self.runtime.plan.query, carried, now)

    def _time_moves(self, now: int) -> bool:
        """Whether a tick without data moves the watermark: the idle policy. Without windows nothing waits for it."""
        clocks = self.runtime.clocks
        if self.runtime.plan.query.window is None:
            return False
        if self.last is None:
            return any(policy.idle_timeout is not None for policy in self.runtime.plan.query.policies.values())
        moved = progress((), clocks.watermark, clocks.shards, self.runtime.plan.query.policies, now)
        return moved.watermark != clocks.watermark

    def _positions_after(self, commits: list[SourceCommit]) -> dict[str, Any]:
        after: dict[str, Any] = {}
        for name, connector in self.runtime.connectors.items():
            if connector.keeps_ledger:
                continue
            mine = [commit for commit in commits if commit.source == name]
            position = self.runtime.positions.get(name)
            after[name] = connector.position_after(mine, position) if mine else position
        return after


def _same_settings(runtime: Runtime, planned: PlanRow, committed: str) -> None:
    if planned.sources[SETTINGS] != settings_fingerprint(runtime.plan):
        raise LaminarError(
            "LMR0408",
            f'epoch {planned.epoch} of view "{runtime.plan.query.view}" was begun under other settings',
            detail="Routes of the side output, idle_timeout and max_future_skew hold for whole epochs, and this was "
            "cut short.",
            hint="Run once with the settings as they were, then change them; or, if nothing of the epoch has landed, "
            "run with --replan.",
            committed=committed,
        )


def _cut_short(view: str, epoch: int, committed: str) -> LaminarError:
    return LaminarError(
        "LMR0726",
        f'epoch {epoch} of view "{view}" was cut short, and a dry run does not finish it',
        hint="Run the view; the dry run then shows what a correction of the finished view would change.",
        committed=committed,
        next_command=f"laminar run {view}",
    )
