"""A view over a source in a directory of its own: append, run, look."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.schemas import schema_of
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from state_store import CommitRow, StoreReader
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAR = 3600
COLUMNS = "k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND"
SELECT = """
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, COUNT(*) AS n, SUM(v) AS total
FROM TUMBLE(ev, ts, INTERVAL '10' SECOND)
GROUP BY window_start, window_end, k
EMIT ON WINDOW CLOSE;
"""
ROWS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def rows(*entries: tuple[str | None, int | None, float | None]) -> pa.Table:
    """(key, value, seconds after noon) as a table."""
    data = [{"k": k, "v": v, "ts": None if s is None else at(s)} for k, v, s in entries]
    return pa.Table.from_pylist(data, ROWS)


def source(name: str = "ev", columns: str | None = COLUMNS, **options: str) -> str:
    declared = f"({columns})" if columns else ""
    listed = ", ".join(f"{key} = '{value}'" for key, value in options.items())
    return f"CREATE SOURCE {name} {declared} WITH ({listed});"


class View:
    """`root` is the project: sources are below it, and so is the view's store."""

    def __init__(self, root: Path, sql: str) -> None:
        self.root = root
        self.sql = sql

    @property
    def plan(self) -> Plan:
        (plan,) = plan_script(self.sql, schema_of=lambda statement: schema_of(statement, self.root))
        return plan

    def run(self, spark: SparkSession, **options: Any) -> list[CommitRow]:
        return run_view(self.plan, spark, project=self.root, data=self.root / "data", options=RunOptions(**options))

    @property
    def store(self) -> StoreReader:
        return StoreReader(self.root / "data" / "out")

    def closed(self) -> dict[tuple[float, str | None], tuple[int, int | None]]:
        """(window's start in seconds after noon, key) to (count, sum)."""
        found = self.store.read(f.OUTPUT).to_pylist()
        result = {((r["window_start"] - NOON).total_seconds(), r["k"]): (r["n"], r["total"]) for r in found}
        assert len(result) == len(found), "a window was emitted twice"
        return result

    def aside(self) -> list[dict[str, Any]]:
        return self.store.read(f.SIDE_OUTPUT).to_pylist()

    def reasons(self) -> Counter[str]:
        return Counter(entry["reason"] for entry in self.aside())

    def faults(self) -> dict[str, str]:
        """The original text of each row set aside, with the reason; each must be there once."""
        entries = self.aside()
        found = {entry["original_event"]: entry["reason"] for entry in entries}
        assert len(found) == len(entries), "a row was set aside twice"
        return found

    def counts(self) -> dict[str, int]:
        """What became of all rows so far; the parts must add up to the whole and to the side output."""
        total: Counter[str] = Counter()
        for commit in self.store.log.commits():
            total.update({n: commit.counts.get(n, 0) for n in ("rows_in", "aggregated", "filtered", "late", "error")})
        parts = total["aggregated"] + total["filtered"] + total["late"] + total["error"]
        assert total["rows_in"] == parts, dict(total)
        assert len(self.aside()) == total["late"] + total["error"]
        return dict(total)


def delta_view(root: Path, columns: str | None = COLUMNS, **options: str) -> View:
    return View(root, source(columns=columns, connector="delta", path="events", **options) + SELECT)


def files_view(root: Path, format_: str, columns: str | None = COLUMNS, **options: str) -> View:
    (root / "in").mkdir(exist_ok=True)
    return View(root, source(columns=columns, connector="files", path="in", format=format_, **options) + SELECT)


def append(root: Path, *entries: tuple[str | None, int | None, float | None], **options: Any) -> None:
    """One version of the Delta table `events`, as deltalake writes it."""
    write_deltalake(str(root / "events"), rows(*entries), mode="append", **options)


def write(root: Path, name: str, text: str | bytes, *, mtime: float | None = None) -> Path:
    """A file of the directory `in`."""
    path = root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def json_line(k: str | None, v: Any, seconds: float | None) -> str:
    row = {"k": k, "v": v, "ts": None if seconds is None else at(seconds).isoformat()}
    return json.dumps(row)


def json_lines(*entries: tuple[str | None, Any, float | None]) -> str:
    return "".join(json_line(*entry) + "\n" for entry in entries)


def total(found: Mapping[Any, tuple[int, int | None]]) -> int:
    return sum(n for n, _ in found.values())


def ids(commits: Sequence[Any]) -> list[str]:
    return [commit.id for commit in commits]
