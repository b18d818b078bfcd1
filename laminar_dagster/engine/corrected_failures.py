"""Groups that have no result any more since a correction: each gets its error entry, as in any other epoch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from laminar_dagster.engine.in_process_sql import parquet
from laminar_dagster.engine.late_rows import side_output
from laminar_dagster.engine.recomputing import Anew
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.writing import write_table
from laminar_dagster.semantics.windows import Window
from state_store import DataFile, PlanRow
from state_store import format as f

OF_RESULTS = "kind = 'error' AND reason LIKE 'result\\_%' ESCAPE '\\'"


def new_failures(runtime: Runtime, planned: PlanRow, anew: Anew, ranges: Sequence[Window]) -> list[DataFile]:
    """Entries of windows that were computed anew and that the view has none of yet, as files of its side output."""
    files = anew.files(f.SIDE_OUTPUT)
    if not files:
        return []
    names = ", ".join(f.SIDE_OUTPUT_SCHEMA.names)
    inside = " OR ".join(f"(epoch_us(window_start) < {r.end} AND epoch_us(window_end) > {r.start})" for r in ranges)
    concerned = "true" if runtime.plan.query.window is None else f"({inside or 'false'})"
    same = " AND ".join(
        f"known.{name} IS NOT DISTINCT FROM t.{name}" for name in ("reason", "window_start", "window_end", "group_key")
    )
    with side_output(runtime, planned) as db:
        found = db.sql(
            f"""SELECT {names} FROM {parquet(files)} t WHERE {OF_RESULTS} AND {concerned}
                AND NOT EXISTS (SELECT 1 FROM (SELECT * FROM side WHERE {OF_RESULTS}) known WHERE {same})"""
        ).to_arrow_table()
    typed = found.cast(f.SIDE_OUTPUT_SCHEMA)
    epochs = pa.repeat(pa.scalar(runtime.epoch, pa.int64()), typed.num_rows)
    return write_table(runtime, f.SIDE_OUTPUT, typed.set_column(typed.column_names.index("_epoch"), "_epoch", epochs))
