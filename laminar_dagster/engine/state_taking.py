"""The state of open windows, out of what was computed anew: as a whole, or of sessions those that were taken anew."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar_dagster.engine.correction_rows import Sessions
from laminar_dagster.engine.recomputing import Anew
from laminar_dagster.engine.runtime import Runtime
from state_store import DataFile, PlanRow
from state_store import format as f
from state_store.parquet import data_files


def state_taken(
    runtime: Runtime, planned: PlanRow, anew: Anew, sessions: Sessions | None
) -> tuple[list[DataFile], list[DataFile]]:
    """Files that leave the state, and those that come in their place."""
    mine = runtime.store.table(f.PARTIALS)
    before = dict(_by_path(mine.root, mine.files_at(planned.tables.get(f.PARTIALS))))
    now = dict(_by_path(anew.runtime.store.table(f.PARTIALS).root, anew.state))
    target = mine.root / f"e{runtime.epoch:010d}-{uuid.uuid4().hex[:8]}"
    if sessions is None:
        for number, (path, file) in enumerate(now.items()):
            shutil.copyfile(path, _place(target, file, number))
        gone = list(before.values())
    else:
        kept = [(Path(path), before[Path(path)], rows, False) for path, rows in _rows_by_file(sessions.leave)]
        entering = [(Path(path), now[Path(path)], rows, True) for path, rows in _rows_by_file(sessions.enter)]
        for number, (path, file, rows, wanted) in enumerate([*kept, *entering]):
            _copy_some(path, rows, _place(target, file, number), wanted=wanted)
        gone = [file for _, file, _, _ in kept]
    runtime.store.after_write(f"{f.PARTIALS} files")
    return gone, data_files(mine.root, target.name) if target.exists() else []


def _by_path(root: Path, files: Sequence[DataFile]) -> Iterator[tuple[Path, DataFile]]:
    return ((root / file.path, file) for file in files)


def _place(target: Path, file: DataFile, number: int) -> Path:
    """Where a copy of a file goes: into the same bucket."""
    bucket = next(part for part in Path(file.path).parts if "=" in part)
    (target / bucket).mkdir(parents=True, exist_ok=True)
    return target / bucket / f"part-{number}.parquet"


def _rows_by_file(places: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    for path in pc.unique(places.column("file")).to_pylist():
        yield path, places.filter(pc.equal(places.column("file"), path)).column("row").combine_chunks()


def _copy_some(path: Path, rows: pa.Array, target: Path, *, wanted: bool) -> None:
    """These rows of a file, or (not `wanted`) all others; a file without any is not written."""
    table = pq.ParquetFile(path).read()
    among = pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=rows.cast(pa.int64()))
    chosen = table.filter(among if wanted else pc.invert(among))
    if chosen.num_rows:
        pq.write_table(chosen, target)
