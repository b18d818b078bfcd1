"""Rows of the side output that a correction takes back in, and those that it must leave out. DuckDB, no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from laminar_dagster.engine.in_process_sql import connection, parquet
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.ranges import joined
from laminar_dagster.semantics.windows import Session, Window
from state_store import DataFile, PlanRow
from state_store import format as f
from state_store.parquet import describe

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDABLE = "kind = 'late' AND folded_epoch IS NULL"
COPIES = "_excluded"


@dataclass(frozen=True)
class Chosen:
    """The late rows that a correction takes in: a condition on the side output, and how many there are."""

    condition: str
    rows: int
    ranges: tuple[Window, ...] = ()


def chosen_by(runtime: Runtime, planned: PlanRow, where: str | None) -> Chosen:
    """Late rows that were not folded yet and fit the condition, with the stretches of time that they lie in."""
    condition = f"{FOLDABLE} AND ({where})" if where else FOLDABLE
    with _side_output(runtime, planned) as db:
        times = _asked(db, f"SELECT epoch_us(event_time) AS t, count(*) AS n FROM side WHERE {condition} GROUP BY ALL")
    return Chosen(condition, sum(n for _, n in times), _panes(runtime, [t for t, _ in times]))


def chosen_in(runtime: Runtime, planned: PlanRow, ranges: Sequence[Window]) -> Chosen:
    """Late rows whose event time lies in the ranges: a backfill takes them in as if they had been on time."""
    inside = " OR ".join(f"epoch_us(event_time) BETWEEN {r.start} AND {r.end - 1}" for r in ranges) or "false"
    condition = f"{FOLDABLE} AND ({inside})"
    with _side_output(runtime, planned) as db:
        ((rows,),) = _asked(db, f"SELECT count(*) FROM side WHERE {condition}")
    return Chosen(condition, rows)


def _panes(runtime: Runtime, times: Sequence[int]) -> tuple[Window, ...]:
    """What holds exactly the windows of these moments."""
    window = runtime.plan.query.window
    if window is None or isinstance(window, Session):
        return joined(Window(t, t + 1) for t in times)
    return joined({window.pane(t) for t in times})


def left_out(runtime: Runtime, planned: PlanRow, chosen: Chosen | None, target: Path) -> Path | None:
    """Rows that were set aside and stay so, as a file: source, text of the row, how often. None: there are none.

    Without a choice only duplicates stay out: everything else counts as if it had come on time.
    """
    apart = "kind = 'duplicate'" if chosen is None else f"folded_epoch IS NULL AND NOT ({chosen.condition})"
    with _side_output(runtime, planned) as db:
        unknown = _asked(db, f"SELECT count(*) FROM side WHERE {apart} AND kind <> 'error' AND original_event IS NULL")
        if unknown[0][0]:
            raise _without_text(runtime, unknown[0][0])
        rows = db.sql(
            f"""SELECT source AS _source, original_event AS _original, count(*) AS {COPIES} FROM side
                WHERE {apart} AND original_event IS NOT NULL GROUP BY ALL"""
        ).to_arrow_table()
    if not rows.num_rows:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return target


def marked(runtime: Runtime, planned: PlanRow, chosen: Chosen) -> tuple[list[DataFile], list[DataFile]]:
    """The files that hold chosen rows, written anew with the epoch that folded them; and those they replace."""
    if not chosen.rows:
        return [], []
    table = runtime.store.table(f.SIDE_OUTPUT)
    files = table.files_at(planned.tables[f.SIDE_OUTPUT])
    paths = dict(zip(table.absolute(files), files, strict=True))
    folder = table.root / f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}"
    with _side_output(runtime, planned) as db:
        touched = [str(name) for (name,) in _asked(db, f"SELECT DISTINCT filename FROM side WHERE {chosen.condition}")]
        written = [
            _rewritten(runtime, db, path, chosen, folder / f"part-{i}.parquet") for i, path in enumerate(touched)
        ]
    runtime.store.after_write(f"{f.SIDE_OUTPUT} files")
    return written, [paths[path] for path in touched]


def _rewritten(runtime: Runtime, db: DuckDBPyConnection, path: str, chosen: Chosen, target: Path) -> DataFile:
    epoch = f"CASE WHEN {chosen.condition} THEN {runtime.epoch} ELSE folded_epoch END AS folded_epoch"
    rows = db.sql(f"SELECT * REPLACE ({epoch}) FROM {parquet([path])}").to_arrow_table()
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.select(f.SIDE_OUTPUT_SCHEMA.names).cast(f.SIDE_OUTPUT_SCHEMA), target)
    return describe(runtime.store.table(f.SIDE_OUTPUT).root, target)


@contextmanager
def _side_output(runtime: Runtime, planned: PlanRow) -> Iterator[DuckDBPyConnection]:
    """The side output as the correction found it, as `side`."""
    table = runtime.store.table(f.SIDE_OUTPUT)
    paths = table.absolute(table.files_at(planned.tables.get(f.SIDE_OUTPUT)))
    with connection() as db:
        if paths:
            db.execute(f"CREATE TEMP VIEW side AS SELECT * FROM {parquet(paths, 'filename = true')}")
        else:
            db.register("nothing", pa.table({n.name: pa.array([], n.type) for n in f.SIDE_OUTPUT_SCHEMA}))
            db.execute("CREATE TEMP VIEW side AS SELECT *, '' AS filename FROM nothing")
        try:
            yield db
        finally:
            db.execute("DROP VIEW side")


def _asked(db: DuckDBPyConnection, sql: str) -> list[Any]:
    try:
        return db.sql(sql).fetchall()
    except duckdb.Error as problem:
        raise LaminarError(
            "LMR0721",
            "the condition on the side output cannot be used",
            detail=str(problem),
            hint="It is SQL over the columns of the side output: docs/reference/side-output.md.",
        ) from problem


def _without_text(runtime: Runtime, rows: int) -> LaminarError:
    return LaminarError(
        "LMR0722",
        f'{rows} rows in the side output of view "{runtime.plan.query.view}" are kept without their content',
        detail="Windows are computed anew from the source, without the rows that stay aside: which are these?",
        hint="Keep originals (side_output.<kind>.include_original), or backfill the time in question: "
        "`laminar backfill` takes all rows in.",
    )
