"""Brings a view's sinks to where the view is, epoch by epoch, and remembers how far each has come."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from laminar_dagster.engine.epoch_kinds import CORRECTIONS
from laminar_dagster.engine.sinks.history import EpochChanges, changes_since
from laminar_dagster.engine.sinks.registry import open_target
from laminar_dagster.engine.sinks.side_output import entries_since, refuse_own_input
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings, Target
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import ADDRESSES
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.sinks import APPEND, DROP, FAIL, DeclaredSink
from laminar_dagster.semantics.time import from_datetime
from state_store import StoreReader
from state_store.positions import SinkPosition, SinkPositions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a route that may drop rows drops them for: brokers that do not answer, and disks that are full or do not answer.
SATURATED = frozenset({"LMR0630"})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ETIMEDOUT, errno.EIO})


@dataclass
class Delivered:
    """What a run delivered to one sink, and how many changes of corrections it could not take.

    `dropped` entries of the side output did not go to their route, for what `why` says; the table has them.
    """

    epochs: int = 0
    rows: int = 0
    withheld: int = 0
    dropped: int = 0
    why: str = ""


@dataclass
class Deliveries:
    """The sinks of one view, in one run. A sink that fails is left alone for the rest of the run; the others go on."""

    query: Query
    store: Path
    surroundings: Surroundings
    spark: Callable[[], SparkSession]
    delivered: dict[str, Delivered] = field(default_factory=dict)
    failures: dict[str, LaminarError] = field(default_factory=dict)
    _targets: dict[str, Target] = field(default_factory=dict)
    _saturated: set[str] = field(default_factory=set)

    def catch_up(self) -> None:
        """Deliver all that is committed and not delivered yet."""
        for sink in self.query.delivered_to:
            if sink.name in self.failures:
                continue
            try:
                self._deliver_to(sink)
            except Exception as problem:
                self.failures[sink.name] = self._failure(sink, problem)

    def require_success(self) -> None:
        """Raise the first failure; further ones are named in it."""
        for name, failure in self.failures.items():
            others = [other for other in self.failures if other != name]
            if others:
                failure = _with(failure, detail=_listed(failure.detail, others))
            raise failure

    def _deliver_to(self, sink: DeclaredSink) -> None:
        reader, positions = StoreReader(self.store), SinkPositions(self.store)
        last = reader.commit() if reader.exists else None
        if last is None:
            return
        target = self._target(sink, positions)
        position = _position(positions, sink)
        only_grows = sink.mode == APPEND and sink.entries is None
        corrections = _corrections(reader, position.epoch, last.epoch) if only_grows else frozenset()
        for changes in self._after(sink, reader, position.epoch):
            done = self.delivered.setdefault(sink.name, Delivered())
            if changes.epoch in corrections and not changes.snapshot:
                done.withheld += changes.rows.num_rows
                continue
            rows = changes.rows if sink.entries is None else self._within_bounds(sink, changes.rows, done)
            if rows.num_rows:
                delivery = Delivery(changes.epoch, rows, self.spark, changes.snapshot, after=position.delivered)
                rows = self._taken(sink, target, delivery, done)
            dropped = changes.rows.num_rows - rows.num_rows
            done.dropped += dropped
            position = replace(position, epoch=changes.epoch, dropped=position.dropped + dropped)
            if rows.num_rows:
                done.epochs, done.rows = done.epochs + 1, done.rows + rows.num_rows
                position = _delivered(position, changes.epoch)
            self._remember(positions, sink, position)
        if position.epoch < last.epoch:
            self._remember(positions, sink, replace(position, epoch=last.epoch))

    def _within_bounds(self, sink: DeclaredSink, entries: pa.Table, done: Delivered) -> pa.Table:
        """The entries of an epoch that a route may take: none any more once it has failed in this run."""
        bounds = sink.saturation
        if sink.name in self._saturated:
            return entries.slice(0, 0)
        fits = entries.num_rows if bounds.rows is None else min(bounds.rows, entries.num_rows)
        if bounds.bytes is not None and entries.nbytes > bounds.bytes:
            fits = min(fits, entries.num_rows * bounds.bytes // entries.nbytes)
        if fits == entries.num_rows:
            return entries
        done.why = f"an epoch has {entries.num_rows} entries, and {fits} are within the bounds of the route"
        if bounds.policy == FAIL:
            raise LaminarError(
                "LMR0647", f"{sink.target} cannot take all of an epoch: {done.why}",
                hint="Raise side_output.route_max_rows or route_max_bytes, or let the rest be dropped: "
                "side_output.on_saturation = 'drop'. All entries are in the side output's table.",
            )  # fmt: skip
        return entries.slice(0, fits)

    def _taken(self, sink: DeclaredSink, target: Target, delivery: Delivery, done: Delivered) -> pa.Table:
        """What the target took: all of it, or, of a route that may drop, nothing."""
        try:
            target.deliver(delivery)
        except (LaminarError, OSError) as problem:
            if sink.entries is None or sink.saturation.policy != DROP or not _is_saturated(problem):
                raise
            self._saturated.add(sink.name)
            done.why = problem.problem if isinstance(problem, LaminarError) else f"{type(problem).__name__}: {problem}"
            return delivery.rows.slice(0, 0)
        return delivery.rows

    def _after(self, sink: DeclaredSink, reader: StoreReader, epoch: int) -> Iterator[EpochChanges]:
        if sink.entries is not None:
            return entries_since(reader, sink.entries, epoch)
        return changes_since(self.query, reader, epoch)

    def _target(self, sink: DeclaredSink, positions: SinkPositions) -> Target:
        """The sink's target, and the position as the target has it, where a kill came between the two."""
        if sink.name not in self._targets:
            if sink.entries is not None and sink.connector == "files":
                refuse_own_input(self.query, sink, self.surroundings.project)
            target = open_target(sink, self.surroundings)
            known, landed = positions.read(sink.name), target.landed() or 0
            if known is None:
                _refuse_used(sink, landed)
                self._remember(positions, sink, SinkPosition())
            elif dict(known.target) != described(sink):
                raise _another_target(sink, known)
            elif known.epoch < landed:
                self._remember(positions, sink, _delivered(known, landed))
            self._targets[sink.name] = target
        return self._targets[sink.name]

    def _remember(self, positions: SinkPositions, sink: DeclaredSink, position: SinkPosition) -> None:
        positions.write(sink.name, replace(position, target=described(sink)))
        self.surroundings.after_write(f"sink {sink.name} position")

    def _failure(self, sink: DeclaredSink, problem: Exception) -> LaminarError:
        commit = StoreReader(self.store).commit()
        known = SinkPositions(self.store).read(sink.name)
        committed = f"Epoch {commit.epoch if commit else 0} of the view is committed and stands; the sink has the view"
        committed += f" up to epoch {known.epoch if known else 0}. Once that is mended, the next run catches up."
        command = f"laminar run {self.query.view}"
        if isinstance(problem, LaminarError):
            problem.problem = f'sink "{sink.name}": {problem.problem}'
            return _with(problem, committed=committed, next_command=command)
        return LaminarError(
            "LMR0641",
            f'sink "{sink.name}" of view "{self.query.view}" could not be delivered to',
            detail=f"{type(problem).__name__}: {problem}",
            hint=f"Look at {sink.target}, and run again.",
            committed=committed,
            next_command=command,
        )


def described(sink: DeclaredSink) -> dict[str, Any]:
    """What a position is of: the same options mean the same target, by whatever address it is reached."""
    options = {name: value for name, value in sink.options.items() if name not in ADDRESSES}
    return {"connector": sink.connector, "mode": sink.mode, "key": list(sink.key or ()), "options": options}


def _corrections(reader: StoreReader, after: int, upto: int) -> frozenset[int]:
    """Epochs that corrected results: a target that only grows has these as they were first shown, each once."""
    commits = reader.log.commits(upto=upto, limit=upto - after)
    return frozenset(commit.epoch for commit in commits if commit.epoch_kind in CORRECTIONS)


def position_of(store: Path, sink: DeclaredSink) -> SinkPosition:
    return _position(SinkPositions(store), sink)


def _delivered(position: SinkPosition, epoch: int) -> SinkPosition:
    return replace(position, epoch=epoch, delivered=epoch, at=from_datetime(datetime.now(UTC)))


def _is_saturated(problem: LaminarError | OSError) -> bool:
    """Whether it is the target that cannot take more now; a mistake on this side is not to cost any rows."""
    return problem.code in SATURATED if isinstance(problem, LaminarError) else problem.errno in FULL


def _position(positions: SinkPositions, sink: DeclaredSink) -> SinkPosition:
    return positions.read(sink.name) or SinkPosition()


def _with(error: LaminarError, **changed: Any) -> LaminarError:
    """The same error, saying more."""
    said: Mapping[str, Any] = {
        "where": error.where,
        "detail": error.detail,
        "hint": error.hint,
        "committed": error.committed,
        "next_command": error.next_command,
    }
    return LaminarError(error.code, error.problem, **{**said, **changed})


def _refuse_used(sink: DeclaredSink, landed: int) -> None:
    if landed:
        raise LaminarError(
            "LMR0643",
            f"{sink.target} already has deliveries up to epoch {landed}, of an earlier build of this view or sink",
            hint="Delete it if nobody needs it, or give the sink another path.",
        )


def _another_target(sink: DeclaredSink, known: SinkPosition) -> LaminarError:
    now = described(sink)
    changed = ", ".join(name for name in now if now[name] != known.target.get(name))
    return LaminarError(
        "LMR0644",
        f"its target is not the one that epochs up to {known.epoch} were delivered to",
        where=sink.where,
        detail=f"changed: {changed}. The new target would begin in the middle of the view's history.",
        hint="Give the sink a new name, and it delivers from the beginning; or restore the options.",
    )


def _listed(detail: str | None, others: list[str]) -> str:
    """What one sink failed of, as a sentence, and the names of the others."""
    first = detail.rstrip() if detail else ""
    ended = f"{first}." if first and first[-1] not in ".!?" else first
    return f"{ended} Also failed: {', '.join(others)}.".strip()
