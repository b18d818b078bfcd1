"""The runners by name, and the function that runs case files on one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from laminar_dagster.conformance import sessions
from laminar_dagster.conformance.cases import Case, CaseError, case_files, load
from laminar_dagster.conformance.harness import Runner, run_case
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.scorecard import CaseResult, Scorecard, Status
from laminar_dagster.conformance.spark_runner import SparkRunner


@dataclass(frozen=True)
class RunnerKind:
    """How a runner is made, and which passes over a case it does.

    `as_written` runs the steps as they stand; `one_tick` runs all commits of a split-invariant case in one tick.
    """

    make: Callable[[], Runner]
    as_written: bool = True
    one_tick: bool = True

    def takes(self, case: Case) -> bool:
        return self.as_written or case.is_refusal or case.split_invariant


RUNNERS: dict[str, RunnerKind] = {
    "reference": RunnerKind(ReferenceRunner),
    "spark": RunnerKind(lambda: SparkRunner(sessions.in_process), one_tick=False),
    "spark-crash": RunnerKind(lambda: SparkRunner(sessions.in_process, crash=True), one_tick=False),
    "spark-one-tick": RunnerKind(lambda: SparkRunner(sessions.in_process), as_written=False),
    "spark-connect": RunnerKind(lambda: SparkRunner(sessions.over_connect), one_tick=False),
}


def run_cases(
    paths: Sequence[Path], runner: str, *, on_result: Callable[[CaseResult], None] | None = None
) -> Scorecard:
    """Run the case files, and those in the directories, on the runner of this name."""
    kind = RUNNERS[runner]
    results: list[CaseResult] = []
    for path in case_files(paths):
        result = _result(path, kind)
        if result is None:
            continue
        results.append(result)
        if on_result is not None:
            on_result(result)
    return Scorecard(tuple(results))


def _result(path: Path, kind: RunnerKind) -> CaseResult | None:
    """The file's result; None for a case that this kind of runner leaves out."""
    try:
        case = load(path)
    except CaseError as problem:
        return CaseResult(path.stem, Status.ERROR, str(problem), 0.0)
    if not kind.takes(case):
        return None
    return run_case(case, kind.make, as_written=kind.as_written, one_tick=kind.one_tick)
