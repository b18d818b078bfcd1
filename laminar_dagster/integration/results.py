"""What a run hands to Dagster when it is done: the state, the partitions that were asked for, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from laminar_dagster.engine.touched import WHOLE
from laminar_dagster.integration.reporting import REPORTED_PARTS, Reporter, data_version, state_tags, state_version
from laminar_dagster.integration.summary import run_metadata
from laminar_dagster.integration.translator import STATE
from laminar_dagster.integration.view_run import Results, ViewRun
from state_store import CommitRow


def results(run: ViewRun, reporter: Reporter, commits: Sequence[CommitRow], **more: Any) -> Results:
    """`commits` are the run's own; `more` is shown with the state."""
    for part in REPORTED_PARTS:
        wanted = run.partition_keys or ([] if run.view.parts[part].partitions_def else [WHOLE])
        if run.selects(part) and wanted:
            yield _outcome(run, reporter, part, wanted)
    if run.selects(STATE):
        yield _state(run, commits, more)
    elif commits:
        log_state(run, reporter, commits)


def _outcome(run: ViewRun, reporter: Reporter, part: str, partitions: Sequence[str]) -> dg.MaterializeResult[None]:
    """One result, which Dagster takes as a materialization of each partition asked for, touched or not."""
    key, report = run.view.parts[part].key, reporter.of_this_run()
    if report is None:
        return dg.MaterializeResult(asset_key=key)
    shown = {partition: reporter.metadata(report, part, partition) for partition in partitions}
    for partition, metadata in shown.items():
        if partition != WHOLE:
            run.context.add_asset_metadata(metadata, asset_key=key, partition_key=partition)
    return dg.MaterializeResult(
        asset_key=key, metadata=shown.get(WHOLE), data_version=dg.DataVersion(data_version(report.commit, part))
    )


def _state(run: ViewRun, commits: Sequence[CommitRow], more: dict[str, Any]) -> dg.MaterializeResult[None]:
    reader = run.reader()
    last = reader.commit() if reader.exists else None
    return dg.MaterializeResult(
        asset_key=run.view.parts[STATE].key,
        metadata={**run_metadata(run.plan, reader, commits), **more},
        data_version=dg.DataVersion(state_version(last)),
        tags={} if last is None else state_tags(last, reader),
    )


def log_state(run: ViewRun, reporter: Reporter, commits: Sequence[CommitRow]) -> None:
    """The state's materialization as an event, where the run does not return it."""
    reader, last = run.reader(), commits[-1]
    run.context.log_event(
        dg.AssetMaterialization(
            run.view.parts[STATE].key,
            metadata=run_metadata(run.plan, reader, commits),
            tags={**reporter.tags(STATE, state_version(last)), **state_tags(last, reader)},
        )
    )
