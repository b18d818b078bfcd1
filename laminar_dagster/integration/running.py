"""Which of the three a run of a view is: a tick, a backfill, or a fold-back."""

from __future__ import annotations

import dagster as dg

from laminar_dagster.integration.config import ViewRunConfig
from laminar_dagster.integration.corrections import backfill_partitions, fold_late_rows
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.tick import tick
from laminar_dagster.integration.translator import ViewAssets
from laminar_dagster.integration.view_run import Results, ViewRun


def run_asset(
    context: dg.AssetExecutionContext, view: ViewAssets, config: ViewRunConfig, resource: LaminarResource
) -> Results:
    run = ViewRun(context, view, config, resource)
    if run.partition_keys:
        return backfill_partitions(run)
    return tick(run) if config.fold_late is None else fold_late_rows(run)
