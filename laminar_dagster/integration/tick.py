"""A tick: runs epochs until the view has caught up, and tells Dagster after each commit what it touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from laminar_dagster.engine import run as engine
from laminar_dagster.engine.touched import WHOLE
from laminar_dagster.integration.observations import log_observations
from laminar_dagster.integration.reporting import Report, Reporter
from laminar_dagster.integration.results import log_state, results
from laminar_dagster.integration.summary import epoch_line
from laminar_dagster.integration.view_run import Results, ViewRun
from laminar_dagster.plan.bounds import between_windows, cautions
from state_store import CommitRow


def tick(run: ViewRun) -> Results:
    """Epochs, at most `max_epochs`; before them, a report of those that a run left untold."""
    for caution in cautions(run.plan.query):
        run.context.log.warning(caution)
    reporter = Reporter(run)
    commits: list[CommitRow] = []
    with _state_told_anyway(run, reporter, commits), _opened(run) as view:
        for caution in view.cautions():
            run.context.log.warning(caution)
        reporter.catch_up()
        run.context.log.info(f"{view.backlog()} source commit(s) wait")
        view.drain(lambda commit: _tell(run, reporter, commits, commit))
    log_observations(run)
    delivered = {f"delivered_{sink}": done.rows for sink, done in view.deliveries.delivered.items()}
    for sink, done in view.deliveries.delivered.items():
        if done.dropped:
            delivered[f"dropped_{sink}"] = done.dropped
            run.context.log.warning(f"{done.dropped} row(s) did not go to route {sink}: {done.why}")
    between = sum(commit.counts.get("between_windows", 0) for commit in commits)
    if between:
        run.context.log.warning(between_windows(between))
    yield from results(run, reporter, commits, **delivered)


def _opened(run: ViewRun) -> AbstractContextManager[engine.ViewRun]:
    project = run.project
    return engine.open_view(run.plan, run.session, project=project.root, data=project.data, options=run.options())


def _tell(run: ViewRun, reporter: Reporter, commits: list[CommitRow], commit: CommitRow) -> None:
    commits.append(commit)
    report = reporter.report(commit)
    run.context.log.info(f"{epoch_line(commit)}; partitions touched: {_listed(report)}")


def _listed(report: Report) -> str:
    return ", ".join(sorted(report.touched.shown - {WHOLE})) or "none"


@contextmanager
def _state_told_anyway(run: ViewRun, reporter: Reporter, commits: list[CommitRow]) -> Iterator[None]:
    """Where something fails after a commit, the state is reported all the same: what is committed stays so."""
    try:
        yield
    except Exception:
        if commits:
            log_state(run, reporter, commits)
        raise
