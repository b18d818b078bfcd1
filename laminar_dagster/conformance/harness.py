"""Runs one case on any runner: the steps as written, then all commits in one tick, with the laws after every tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from laminar_dagster.conformance.cases import (
    Case,
    CommitStep,
    ExpectStep,
    RestartStep,
    Row,
    Schemas,
    TickStep,
    engine_rows,
    source_schemas,
)
from laminar_dagster.conformance.compare import compare_rows, compare_side_output
from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.scorecard import CaseResult, Status
from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.semantics.time import to_iso
from laminar_dagster.semantics.zset import consolidate

_OP = frozenset({"_op"})


@dataclass(frozen=True)
class Observed:
    """All that a view has done so far, values as the engine holds them.

    `rows` are those appended by an append-only view, in order; `changes` have the data columns and `_op`,
    `_weight`, `_epoch`, `_seq`, in the order of `_seq`; `side_output` entries have `kind`, `reason` and `row`
    (the original row, or None). `unique` says whether no two results of the view can look the same.
    """

    table: Sequence[Row]
    rows: Sequence[Row]
    changes: Sequence[Row]
    side_output: Sequence[Row]
    watermark: int | None
    unique: bool = True


class Runner(Protocol):
    """Something that can run views. One runner runs one case; `close` gives back what it holds."""

    @property
    def name(self) -> str: ...

    def open(self, sql: str) -> None:
        """Plan the script, with an empty data directory."""

    def commit(self, source: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """One commit to a source; nothing runs yet."""

    def tick(self, now: int | None) -> None:
        """One epoch of each view, upstream first, over all commits since the last tick."""

    def restart(self) -> None:
        """Forget everything that is not on disk."""

    def observe(self, view: str) -> Observed: ...

    def close(self) -> None: ...


def run_case(case: Case, make: Callable[[], Runner], *, as_written: bool = True, one_tick: bool = True) -> CaseResult:
    """The case's result. A clause that is not wired yet is a refusal of the runner, not a failure."""
    began = time.monotonic()
    try:
        problems = _problems(case, make, as_written=as_written, one_tick=one_tick)
        status, detail = (Status.FAILED if problems else Status.PASSED), "\n".join(problems)
    except NotWiredError as refusal:
        status, detail = Status.REFUSED, refusal.problem
    except Exception as error:
        status, detail = Status.ERROR, f"{type(error).__name__}: {error}"
    return CaseResult(case.name, status, detail, time.monotonic() - began)


def _problems(case: Case, make: Callable[[], Runner], *, as_written: bool, one_tick: bool) -> list[str]:
    if case.is_refusal:
        return _refusal(case, make())
    problems = _steps_as_written(case, make()) if as_written else []
    if not problems and one_tick and case.split_invariant:
        problems = [f"in one tick: {problem}" for problem in _all_in_one_tick(case, make())]
    return problems


def _refusal(case: Case, runner: Runner) -> list[str]:
    try:
        runner.open(case.sql)
    except NotWiredError:
        raise
    except LaminarError as error:
        text = error.render().lower()
        return [
            f"the error does not say {wanted!r}:\n{error.render()}"
            for wanted in case.expect_error or ()
            if wanted.lower() not in text
        ]
    finally:
        runner.close()
    return ["planning should have failed, and did not"]


def _steps_as_written(case: Case, runner: Runner) -> list[str]:
    try:
        runner.open(case.sql)
        run = _Run(case, runner, source_schemas(case.sql))
        for position, step in enumerate(case.steps, start=1):
            run.step(step, f"step {position}")
        return [*run.problems, *run.table_problems()]
    finally:
        runner.close()


def _all_in_one_tick(case: Case, runner: Runner) -> list[str]:
    try:
        runner.open(case.sql)
        run = _Run(case, runner, source_schemas(case.sql))
        for commit in case.commits:
            run.step(commit, "commit")
        run.step(TickStep(case.last_now), "the tick")
        return [*run.problems, *run.table_problems()]
    finally:
        runner.close()


@dataclass
class _Run:
    """One pass over a case: what has been seen up to the last `expect`, and what did not hold."""

    case: Case
    runner: Runner
    schemas: Schemas
    problems: list[str] = field(default_factory=list)
    seen: Observed = Observed((), (), (), (), None)
    new_changes: list[Row] = field(default_factory=list)
    several_epochs: bool = False
    looked_rows: int = 0
    looked_side: int = 0

    def step(self, step: CommitStep | TickStep | RestartStep | ExpectStep, place: str) -> None:
        match step:
            case CommitStep(source, rows):
                self.runner.commit(source, engine_rows(rows, self.schemas[source]))
            case TickStep(now):
                self.runner.tick(now)
                self._look(place)
            case RestartStep():
                self.runner.restart()
            case ExpectStep():
                self.problems += [f"{place}, {problem}" for problem in self._unmet(step)]
                self._forget()

    def _look(self, place: str) -> None:
        """Observe after a tick, and hold the view against the laws."""
        before, self.seen = self.seen, self.runner.observe(self.case.view)
        changes = self.seen.changes[len(before.changes) :]
        if len({row["_epoch"] for row in changes}) > 1:
            changes, self.several_epochs = _consolidated(changes), True
        self.new_changes += changes
        self.problems += [f"{place}, {law}" for law in self._laws()]

    def _laws(self) -> list[str]:
        seen = self.seen
        if seen.changes or not seen.rows:
            return broken_laws(seen.table, seen.changes, unique=seen.unique)
        difference = compare_rows("law: the rows appended are the table", seen.rows, seen.table)
        return [str(difference)] if difference else []

    def _unmet(self, step: ExpectStep) -> list[str]:
        approx = self.case.approx
        ignore = _OP if self.several_epochs else frozenset[str]()
        differences = {
            "rows": compare_rows("rows", step.rows, self.seen.rows[self.looked_rows :], approx),
            "changes": compare_rows("changes", step.changes, self.new_changes, approx, ignore),
            "side_output": compare_side_output(step.side_output, self.seen.side_output[self.looked_side :], approx),
        }
        unmet = [str(found) for what, found in differences.items() if what in step.checks and found]
        if "watermark" in step.checks and step.watermark != self.seen.watermark:
            unmet.append(f"watermark: {_time(self.seen.watermark)}, and not {_time(step.watermark)}")
        return unmet

    def _forget(self) -> None:
        self.looked_rows, self.looked_side = len(self.seen.rows), len(self.seen.side_output)
        self.new_changes, self.several_epochs = [], False

    def table_problems(self) -> list[str]:
        if self.case.expect_table is None:
            return []
        found = compare_rows("table", self.case.expect_table, self.seen.table, self.case.approx)
        return [str(found)] if found else []


def _consolidated(changes: Sequence[Row]) -> list[Row]:
    """A tick that took several epochs, as one: the sum of its weights, in which an operation has no meaning."""
    weighted = consolidate((data_columns(row), row["_weight"]) for row in changes)
    return [{**row, "_weight": 1 if weight > 0 else -1} for row, weight in weighted for _ in range(abs(weight))]


def _time(watermark: int | None) -> str:
    return "none" if watermark is None else to_iso(watermark)
