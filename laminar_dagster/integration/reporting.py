"""Tells Dagster which partitions epochs touched: one materialization for each, out of the epoch log.

What was told is remembered in Dagster's own event log, as a tag on the state's materialization. So whatever was
committed and not told, because a run was killed in between or the view ran outside of Dagster, is told by the next run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from laminar_dagster.engine.origins import Origin, origins
from laminar_dagster.engine.touched import WHOLE, Landed, Landings, Touched, rows_by_partition, touched
from laminar_dagster.integration.provenance import Upstream, provenance_tags, upstream_of
from laminar_dagster.integration.translator import CHANGELOG, OUTPUT, SIDE_OUTPUT, STATE
from laminar_dagster.integration.view_run import ViewRun
from state_store import CommitRow, StoreReader

REPORTED_EPOCH = "laminar/epoch"
REPORTED_STORE = "laminar/store"
REPORTED_PARTS = (OUTPUT, CHANGELOG, SIDE_OUTPUT)
NOTHING = Landed()
SHOWN_COMMITS = 50

Metadata = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """What a stretch of epochs did, and the partitions that it touched of each part."""

    commit: CommitRow
    touched: Touched
    rows: Mapping[str, int]
    origins: Sequence[Origin]

    def landed(self, part: str) -> Landings:
        if part == OUTPUT:
            return {name: self.touched.output.get(name, NOTHING) for name in sorted(self.touched.shown)}
        return self.touched.changelog if part == CHANGELOG else self.touched.side_output


class Reporter:
    """Reports for one run. What the view depends on is looked up when the run begins."""

    def __init__(self, run: ViewRun) -> None:
        self.run = run
        instance, parts = run.context.instance, run.view.parts
        self.upstream: dict[str, dict[dg.AssetKey, Upstream]] = {
            part: upstream_of(instance, spec) for part, spec in parts.items()
        }
        self.told = self._last_told()
        self.began = self.told

    def _last_told(self) -> int:
        """The last epoch that Dagster knows of; 0 if none, or if the store is not the one that it knows."""
        key = self.run.view.parts[STATE].key
        found = self.run.context.instance.fetch_materializations(key, limit=1).records
        tags = (found[0].event_log_entry.tags or {}) if found else {}
        same = tags.get(REPORTED_STORE) == self.run.reader().epochs.id
        return int(tags.get(REPORTED_EPOCH, 0)) if same else 0

    def begins(self) -> None:
        """What follows is the run's own doing; what was reported so far is not."""
        self.began = self.told

    def catch_up(self, upto: int | None = None) -> None:
        """Report what was committed and not told, up to an epoch (default: the last)."""
        reader = self.run.reader()
        last = reader.commit() if reader.exists else None
        until = 0 if last is None else last.epoch if upto is None else upto
        if until <= self.told:
            return
        commit = reader.commit(until)
        assert commit is not None, "a committed epoch stays in the log"
        self.run.context.log.info(f"reporting epochs {self.told + 1} to {until}, which Dagster was not told of")
        self.report(commit)

    def report(self, commit: CommitRow) -> Report:
        """Report all epochs since the last one told, up to this commit."""
        report = self._read(self.told, commit)
        for part in REPORTED_PARTS:
            for partition in report.landed(part):
                if not self._is_returned(part, partition):
                    self._log(report, part, partition)
        self.told = commit.epoch
        return report

    def of_this_run(self) -> Report | None:
        """All that was reported since the run began; None while nothing is committed."""
        reader = self.run.reader()
        last = reader.commit() if reader.exists else None
        return None if last is None else self._read(self.began, last)

    def _read(self, after: int, commit: CommitRow) -> Report:
        reader, query = self.run.reader(), self.run.plan.query
        return Report(
            commit,
            touched(query, reader, after, commit),
            rows_by_partition(reader, commit),
            origins(query, reader, after, commit.epoch),
        )

    def tags(self, part: str, version: str) -> dict[str, str]:
        return provenance_tags(self.run.view.parts[part], self.upstream[part], version)

    def _is_returned(self, part: str, partition: str) -> bool:
        """Whether the run hands this to Dagster as a result of its own: then it must not be logged as well."""
        wanted = self.run.partition_keys or [WHOLE]
        return self.run.selects(part) and partition in wanted

    def _log(self, report: Report, part: str, partition: str) -> None:
        spec = self.run.view.parts[part]
        self.run.context.log_event(
            dg.AssetMaterialization(
                spec.key,
                partition=partition or None,
                metadata=self.metadata(report, part, partition),
                tags={**self.tags(part, data_version(report.commit, part)), REPORTED_EPOCH: str(report.commit.epoch)},
            )
        )

    def metadata(self, report: Report, part: str, partition: str) -> Metadata:
        """What epochs did to a partition: rows, and how many of each operation (`+I`, …) or kind (`late`, …)."""
        landed = report.landed(part).get(partition, NOTHING)
        shown: Metadata = {
            "epoch": report.commit.epoch,
            "epoch_kind": report.commit.epoch_kind,
            "table_version": report.commit.tables.get(part),
            "rows": landed.rows.total(),
            **_sources(report, partition),
        }
        if part == OUTPUT:
            changes = report.touched.changelog.get(partition, NOTHING)
            return {**shown, "windows": len(landed.windows), **_row_count(report, partition), **changes.rows}
        return {**shown, **landed.rows}


def data_version(commit: CommitRow, part: str) -> str:
    """The table's Delta version and the epoch that it is of."""
    return f"{commit.tables.get(part)}-e{commit.epoch}"


def state_version(commit: CommitRow | None) -> str:
    return "empty" if commit is None else f"e{commit.epoch}"


def state_tags(commit: CommitRow, reader: StoreReader) -> dict[str, str]:
    return {REPORTED_EPOCH: str(commit.epoch), REPORTED_STORE: reader.epochs.id or ""}


def _sources(report: Report, partition: str) -> Metadata:
    """The commits of the sources that these epochs took and that reach into the partition."""
    found: dict[str, list[str]] = {}
    for origin in report.origins:
        if origin.source and origin.commit and (partition == WHOLE or origin.reaches(partition)):
            found.setdefault(origin.source, []).append(origin.commit)
    shown = {source: _newest(commits) for source, commits in found.items()}
    return {"source_commits": dg.MetadataValue.json(shown)} if shown else {}


def _newest(commits: list[str]) -> list[str]:
    """After a long catch-up there are thousands; `laminar lineage` has them all."""
    more = len(commits) - SHOWN_COMMITS
    return [f"{more} earlier", *commits[-SHOWN_COMMITS:]] if more > 0 else commits


def _row_count(report: Report, partition: str) -> Metadata:
    rows = report.rows.get(partition, 0)
    if partition == WHOLE:
        return {"dagster/row_count": rows}
    return {"dagster/partition_row_count": rows, "dagster/row_count": sum(report.rows.values())}
