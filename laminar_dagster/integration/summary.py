"""What the state's materialization shows of a run: numbers that plot over time, the last closed windows, a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from laminar_dagster.engine.closing import PARTITION, closed_until
from laminar_dagster.engine.in_process_sql import connection, parquet, quoted
from laminar_dagster.engine.origins import origins
from laminar_dagster.engine.shown import END
from laminar_dagster.integration.chart import COLOURS, in_markdown, line_chart
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.partitions import in_time
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import SECOND, to_iso
from state_store import CommitRow, DataFile, StoreReader
from state_store import format as f

COUNTED = ("rows_in", "filtered", "late", "error", "windows_closed", "rows_out")
# Told only where there are such rows.
OCCASIONAL = ("between_windows", "evicted", "duplicate", "side_output_dropped")
STATE_TABLES = (f.PARTIALS, f.TIMERS, f.SOURCE_FILES, f.SEEN_KEYS)
CHARTED_EPOCHS = 60
SHOWN_ROWS = 10
SHOWN_WIDTH = 60
SHOWN_ORIGINS = 20

Metadata = dict[str, Any]


def run_metadata(plan: Plan, reader: StoreReader, commits: Sequence[CommitRow]) -> Metadata:
    """What a run did, and where the view stands after it."""
    last = reader.commit() if reader.exists else None
    done = {"epochs": len(commits), **totals(commits), **_epoch_seconds(commits)}
    if last is None:
        return done
    taken = taken_commits(plan.query, reader, commits)
    return {**done, **standing(last, reader), **pictures(plan.query, last, reader), **taken}


def taken_commits(query: Query, reader: StoreReader, commits: Sequence[CommitRow]) -> Metadata:
    """Which commits of the sources the run took, and the partitions that these reach; of many, the newest."""
    if not commits:
        return {}
    found = origins(query, reader, commits[0].epoch - 1, commits[-1].epoch)
    rows = [
        {
            "epoch": str(origin.epoch),
            "source": origin.source or origin.kind,
            "commit": origin.commit,
            "rows": None if origin.rows is None else str(origin.rows),
            "event time": None if origin.low is None or origin.high is None else _stretch(origin.low, origin.high),
            "partitions": origin.partitions,
        }
        for origin in found[-SHOWN_ORIGINS:]
    ]
    return {"source_commits": dg.MetadataValue.md(markdown_table(rows))} if rows else {}


def _stretch(low: int, high: int) -> str:
    return f"{to_iso(low)} – {to_iso(high)}"


def totals(commits: Sequence[CommitRow]) -> Metadata:
    summed = {name: sum(commit.counts.get(name, 0) for commit in commits) for name in (*COUNTED, *OCCASIONAL)}
    return {name: n for name, n in summed.items() if n or name in COUNTED}


def epoch_line(commit: CommitRow) -> str:
    watermark = "unknown yet" if commit.watermark is None else to_iso(commit.watermark)
    told = (*COUNTED, *(name for name in OCCASIONAL if commit.counts.get(name)))
    counts = ", ".join(f"{commit.counts.get(name, 0)} {name.replace('_', ' ')}" for name in told)
    return f"epoch {commit.epoch}: {counts}; watermark {watermark}"


def _epoch_seconds(commits: Sequence[CommitRow]) -> Metadata:
    """How long an epoch of this run took, on average."""
    if not commits:
        return {}
    return {"epoch_seconds": round(sum(sum(commit.seconds.values()) for commit in commits) / len(commits), 3)}


def standing(commit: CommitRow, reader: StoreReader) -> Metadata:
    files = [file for name in STATE_TABLES for file in reader.files(name, commit)]
    return {
        "epoch": commit.epoch,
        "open_windows": open_windows(commit),
        "state_bytes": sum(file.size for file in files),
        "dagster/row_count": sum(file.rows for file in reader.files(f.PARTIALS, commit)),
        **_watermark(commit),
    }


def open_windows(commit: CommitRow) -> int:
    return commit.counts.get("windows_open", commit.counts.get("open_fragments", 0))


def _watermark(commit: CommitRow) -> Metadata:
    if commit.watermark is None:
        return {}
    return {
        "watermark": dg.MetadataValue.timestamp(commit.watermark / SECOND),
        "watermark_lag_seconds": lag_seconds(commit),
    }


def lag_seconds(commit: CommitRow) -> float | None:
    """How far event time was behind the clock."""
    return None if commit.watermark is None else (commit.processing_time - commit.watermark) / SECOND


def pictures(query: Query, commit: CommitRow, reader: StoreReader) -> Metadata:
    shown: Metadata = {"last_epochs": dg.MetadataValue.md(epochs_chart(reader))}
    rows = last_results(query, commit, reader)
    return {**shown, "last_closed_windows": dg.MetadataValue.md(markdown_table(rows))} if rows else shown


def epochs_chart(reader: StoreReader) -> str:
    """The lag of the watermark and the open windows over the last epochs."""
    commits = reader.log.commits(limit=CHARTED_EPOCHS)[::-1]
    lags, windows = [lag_seconds(commit) for commit in commits], [float(open_windows(commit)) for commit in commits]
    legend = (
        f"{COLOURS[0]}: watermark lag, at most {max((lag for lag in lags if lag is not None), default=0):.0f} s; "
        f"{COLOURS[1]}: open windows, at most {max(windows, default=0):.0f}; "
        f"epochs {commits[0].epoch} to {commits[-1].epoch}"
    )
    return f"{in_markdown(line_chart(lags, windows), 'watermark lag and open windows')}\n\n{legend}"


def last_results(query: Query, commit: CommitRow, reader: StoreReader) -> list[dict[str, Any]]:
    """The newest rows of closed windows; of a view without windows, those that changed last."""
    files = _newest(reader.files(f.OUTPUT, commit))
    closed = closed_until(query, commit.watermark)
    if not files or (query.window is not None and closed is None):
        return []
    where, order = ("true", "_epoch") if query.window is None else (f"{END} <= {closed}", END)
    columns = ", ".join(f"{quoted(named.name)}::VARCHAR AS {quoted(named.name)}" for named in query.output)
    table = parquet(reader.table(f.OUTPUT).absolute(files))
    with connection() as db:
        found = db.sql(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order} DESC LIMIT {SHOWN_ROWS}")
        rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows


def _newest(files: Iterable[DataFile]) -> list[DataFile]:
    """Files of the last two partitions: more than the last windows are not asked for."""
    listed = list(files)
    partitions = sorted({file.partition.get(PARTITION) or "" for file in listed}, key=in_time)[-2:]
    return [file for file in listed if (file.partition.get(PARTITION) or "") in partitions]


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | None) -> str:
    shown = "NULL" if value is None else value.replace("|", "\\|").replace("\n", " ")
    return shown if len(shown) <= SHOWN_WIDTH else f"{shown[: SHOWN_WIDTH - 1]}…"
