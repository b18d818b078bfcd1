"""What the asset checks measure, and how a measure becomes Dagster's result."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.same_query import require_same_query, require_store_of
from laminar_dagster.engine.soundness import Faults, changelog_against_table, repeated_results, sampled_window
from laminar_dagster.engine.verifying import Range, verify
from laminar_dagster.engine.window_account import moment_of
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.session_log import told_session
from laminar_dagster.integration.summary import markdown_table
from laminar_dagster.integration.translator import ViewAssets
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import SECOND, from_datetime, to_iso
from state_store import CommitRow, StoreReader

SEVERITIES = {"error": dg.AssetCheckSeverity.ERROR, "warn": dg.AssetCheckSeverity.WARN}


@dataclass(frozen=True)
class Measured:
    """A number that must not be above a limit; None if there is nothing to measure yet."""

    value: float | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None

    def judged(self, key: dg.AssetKey, name: str, limit: float, severity: str) -> dg.AssetCheckResult:
        shown: dict[str, Any] = {"limit": float(limit), **self.metadata}
        if self.value is not None:
            shown["value"] = float(self.value)
        return dg.AssetCheckResult(
            passed=self.value is None or self.value <= limit,
            asset_key=key,
            check_name=name,
            severity=SEVERITIES[severity],
            metadata=shown,
            description=self.note,
        )


@dataclass(frozen=True)
class Looked:
    """A view as its last commit left it, and its last epochs, newest first."""

    plan: Plan
    reader: StoreReader
    commits: list[CommitRow]

    @property
    def query(self) -> Query:
        return self.plan.query

    @property
    def last(self) -> CommitRow:
        return self.commits[0]

    def rate(self, count: str) -> Measured:
        rows = sum(commit.counts.get("rows_in", 0) for commit in self.commits)
        found = sum(commit.counts.get(count, 0) for commit in self.commits)
        shown = {"rows": rows, count: found, "epochs": len(self.commits)}
        return Measured(found / rows, shown) if rows else Measured(None, shown, "no rows in these epochs")


def measured(name: str, view: ViewAssets, project: Project, epochs: int) -> Measured:
    reader = StoreReader(project.store(view.name))
    commits = reader.log.commits(limit=epochs) if reader.exists else []
    if not commits:
        return Measured(None, note="no epoch yet")
    return MEASURES[name](Looked(view.plan, reader, commits))


def _watermark_lag(looked: Looked) -> Measured:
    watermark = looked.last.watermark
    if watermark is None:
        return Measured(None, note="no watermark yet")
    lag = (from_datetime(datetime.now(UTC)) - watermark) / SECOND
    return Measured(lag, {"watermark": dg.MetadataValue.timestamp(watermark / SECOND)})


def _duplicates(looked: Looked) -> Measured:
    require_same_query(looked.plan, looked.last, looked.last)
    since = looked.commits[-1].epoch - 1
    found = repeated_results(looked.query, looked.reader, looked.last, since)
    return _of_faults(found, "rows of this view are results of their own")


def _changelog(looked: Looked) -> Measured:
    require_same_query(looked.plan, looked.last, looked.last)
    found = changelog_against_table(looked.query, looked.reader, looked.last)
    return _of_faults(found, "the view has no changelog: nothing in its table was ever corrected")


def _of_faults(found: Faults | None, note: str) -> Measured:
    if found is None:
        return Measured(None, note=note)
    examples = {"examples": dg.MetadataValue.md(_table(found.examples))} if found.examples else {}
    return Measured(found.count, {"rows": found.rows, **examples})


MEASURES: Mapping[str, Callable[[Looked], Measured]] = {
    "late_rate": lambda looked: looked.rate("late"),
    "error_rate": lambda looked: looked.rate("error"),
    "watermark_lag": _watermark_lag,
    "duplicate_emission": _duplicates,
    "changelog_sums_to_table": _changelog,
}


def verified(
    view: ViewAssets, resource: LaminarResource, log: logging.Logger, since: str | None, to: str | None
) -> Measured:
    """Replays the view beside itself and compares the windows asked for, or one by chance."""
    project, plan = resource.located(view.project), view.plan
    reader = StoreReader(project.store(view.name))
    require_store_of(plan, reader)
    range_ = _asked(since, to) or _sampled(plan.query, reader)
    if range_ is None:
        return Measured(None, note="no closed window to compare")
    session = told_session(resource, project, log)
    found = verify(plan, session, project=project.root, data=project.data, range_=range_)
    if found is None:
        return Measured(None, note="no closed window to compare")
    rows = [{"differs": "missing", **row} for row in found.missing.rows]
    rows += [{"differs": "unexpected", **row} for row in found.unexpected.rows]
    counts = {"windows": found.windows, "rows": found.rows, "corrected": found.corrected, "gone": found.gone}
    shown: dict[str, Any] = {**counts, **_bounds(range_)}
    examples = {"examples": dg.MetadataValue.md(_table(rows))} if rows else {}
    return Measured(found.missing.count + found.unexpected.count, {**shown, **examples})


def _asked(since: str | None, to: str | None) -> Range | None:
    given = {"since": since, "to": to}
    bounds = {name: moment_of(text) for name, text in given.items() if text is not None}
    return Range(**bounds) if bounds else None


def _sampled(query: Query, reader: StoreReader) -> Range | None:
    commit = reader.commit() if reader.exists else None
    window = None if commit is None else sampled_window(query, reader, commit, random.randrange(1 << 30))
    return None if window is None else Range(window.start, window.start + 1)


def _bounds(range_: Range) -> dict[str, str]:
    bounds = {"from": range_.since, "to": range_.to}
    ever = Range()
    return {name: to_iso(moment) for name, moment in bounds.items() if moment not in (ever.since, ever.to)}


def _table(rows: list[dict[str, Any]]) -> str:
    return markdown_table(
        [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    )
