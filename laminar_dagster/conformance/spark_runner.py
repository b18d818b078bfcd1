"""The real engine as a runner of cases: SQL front end, Spark and Delta in a directory of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar_dagster.conformance.cases import Row, engine_rows
from laminar_dagster.conformance.harness import Observed
from laminar_dagster.conformance.laws import rows_are_unique
from laminar_dagster.conformance.values import engine_value
from laminar_dagster.engine.correcting import backfill, fold_late
from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import Source
from state_store import MaintenancePolicy, StoreReader
from state_store import format as f
from state_store.moments import as_integers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """One case on Spark. Every tick opens the store anew, so a restart is what each tick survives anyway."""

    name = "spark"

    def __init__(
        self,
        session: Callable[[], SparkSession],
        *,
        crash: bool = False,
        maintenance: MaintenancePolicy | None = None,
    ) -> None:
        self._session = session
        self.crash = crash
        self._maintenance = maintenance or MaintenancePolicy()
        self.root = Path(tempfile.mkdtemp(prefix="laminar-case-"))
        self._plans: tuple[Plan, ...] = ()
        self._order = 0

    def open(self, sql: str) -> None:
        self._plans = plan_script(sql)

    def commit(self, source: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._order += 1
        MemoryConnector(self._sources()[source], self.root).append(rows, self._order)

    def tick(self, now: int | None) -> None:
        moment = time.time_ns() // 1000 if now is None else now
        for plan in self._plans:
            self._tick_view(plan, moment)

    def _tick_view(self, plan: Plan, now: int) -> None:
        self._until_done(lambda given: run_view(plan, self._session(), **given), now)

    def backfill(self, view: str, ranges: Sequence[tuple[int, int]], now: int) -> None:
        plan = self.plan(view)
        self._until_done(lambda given: backfill(plan, self._session(), ranges=ranges, **given), now)

    def fold_late(self, view: str, now: int, where: str | None = None) -> None:
        plan = self.plan(view)
        self._until_done(lambda given: fold_late(plan, self._session(), where=where, **given), now)

    def _until_done(self, run: Callable[[dict[str, Any]], object], now: int) -> None:
        """With `crash`: end after the first write, resume, end after the second, … until a run gets through."""
        writes = 1
        while True:
            hook = raising_after(writes) if self.crash else (lambda _: None)
            options = RunOptions(now=lambda: now, after_write=hook, maintenance=self._maintenance)
            try:
                run({"project": self.root, "data": self.root / "data", "options": options})
                return
            except CrashError:
                writes += 1

    def plan(self, view: str) -> Plan:
        return next(plan for plan in self._plans if plan.query.view == view)

    def restart(self) -> None:
        """Nothing is kept between ticks but what is on disk."""

    def observe(self, view: str) -> Observed:
        plan = self.plan(view)
        reader = StoreReader(self.root / "data" / view)
        commit = reader.commit() if reader.exists else None
        rows = [] if commit is None else _rows(reader, f.OUTPUT, commit)
        changes = [] if commit is None else _rows(reader, f.CHANGELOG, commit)
        aside = [] if commit is None else _rows(reader, f.SIDE_OUTPUT, commit)
        return Observed(
            table=rows,
            rows=rows if plan.query.emit.append_only else [],
            changes=changes,
            side_output=[self._side_entry(entry) for entry in aside],
            watermark=None if commit is None else commit.watermark,
            unique=rows_are_unique(plan.query),
        )

    def _sources(self) -> dict[str, Source]:
        return {entry.source.name: entry.source for plan in self._plans for entry in plan.query.inputs}

    def _side_entry(self, entry: Row) -> Row:
        row = None
        if entry["original_event"] is not None:
            columns = self._sources()[entry["source"]].columns
            parsed = json.loads(entry["original_event"], parse_float=Decimal)
            row = engine_rows([parsed], {column.name: column.type for column in columns})[0]
        return {"kind": entry["kind"], "reason": entry["reason"], "row": row, "folded": entry["folded_epoch"]}

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def _rows(reader: StoreReader, table: str, commit: Any) -> list[Row]:
    """A table's rows in the order of their epochs, values as the engine holds them."""
    rows = as_integers(reader.read(table, commit)).to_pylist()
    ordered = sorted(rows, key=lambda row: (int(row["_epoch"]), int(row.get("_seq", 0))))
    return [{name: engine_value(value) for name, value in row.items()} for row in ordered]
