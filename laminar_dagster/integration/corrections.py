"""Backfills and fold-backs from Dagster: windows of chosen partitions, or late rows, as corrections of the engine."""

from __future__ import annotations

import dagster as dg

from laminar_dagster.engine.correcting import backfill, fold_late
from laminar_dagster.integration.partitions import ranges_of
from laminar_dagster.integration.reporting import Report, Reporter
from laminar_dagster.integration.results import results
from laminar_dagster.integration.translator import OUTPUT
from laminar_dagster.integration.view_run import Results, ViewRun
from laminar_dagster.semantics.time import to_iso
from state_store import CommitRow


def backfill_partitions(run: ViewRun) -> Results:
    """Compute the windows of the run's partitions anew. Every partition asked for is reported, corrected or not."""
    project, partitions = run.project, run.view.parts[OUTPUT].partitions_def
    assert isinstance(partitions, dg.TimeWindowPartitionsDefinition), "only partitioned outputs have partition keys"
    ranges = ranges_of(partitions, run.partition_keys)
    shown = "; ".join(f"{to_iso(start)} to {to_iso(end)}" for start, end in ranges)
    run.context.log.info(f"backfill of {len(run.partition_keys)} partition(s): {shown}")
    reporter = Reporter(run)
    commit = backfill(
        run.plan, run.session, project=project.root, data=project.data, options=run.options(), ranges=ranges
    )
    yield from _told(run, reporter, commit)


def fold_late_rows(run: ViewRun) -> Results:
    """Put late rows of the side output into their windows, closed or not."""
    assert run.config.fold_late is not None, "the run's configuration asks for it"
    project, where = run.project, run.config.fold_late.where
    run.context.log.info(f"folding late rows: {where or 'all that are not folded yet'}")
    reporter = Reporter(run)
    commit = fold_late(
        run.plan, run.session, project=project.root, data=project.data, options=run.options(), where=where
    )
    yield from _told(run, reporter, commit)


def _told(run: ViewRun, reporter: Reporter, commit: CommitRow | None) -> Results:
    """Epochs before the correction that Dagster does not know of, the correction itself, then the run's results."""
    reporter.catch_up(None if commit is None else commit.epoch - 1)
    reporter.begins()
    if commit is None:
        run.context.log.info("nothing to correct")
    else:
        run.context.log.info(_corrections_line(reporter.report(commit)))
    yield from results(run, reporter, [] if commit is None else [commit])


def _corrections_line(report: Report) -> str:
    parts = [f"{name}: {dict(landed.rows)}" for name, landed in report.touched.changelog.items()]
    return f"epoch {report.commit.epoch} ({report.commit.epoch_kind}) corrected {'; '.join(parts) or 'nothing'}"
