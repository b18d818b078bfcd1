"""Keeps the number of state files bounded: merges the partials of a bucket that has many of them."""

from __future__ import annotations

from collections import defaultdict

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from laminar_dagster.engine.closing import closed_until
from laminar_dagster.engine.partials import BUCKET, merged_sql
from laminar_dagster.engine.runtime import Runtime
from state_store import DataFile
from state_store import format as f

FILES_PER_BUCKET = 48


def compact_if_due(runtime: Runtime, threshold: int = FILES_PER_BUCKET) -> int:
    """Merge the fullest bucket if it has more than `threshold` files; gives how many files went.

    One bucket per epoch: bounded work. Killed before its commit, it leaves the state as it was.
    """
    by_bucket: dict[str | None, list[DataFile]] = defaultdict(list)
    for file in runtime.store.table(f.PARTIALS).files():
        by_bucket[file.partition[BUCKET]].append(file)
    bucket, files = max(by_bucket.items(), key=lambda entry: len(entry[1]), default=(None, []))
    if len(files) <= threshold:
        return 0
    with runtime.timed("compact"):
        _merge(runtime, str(bucket), files)
    return len(files)


def _merge(runtime: Runtime, bucket: str, files: list[DataFile]) -> None:
    table = runtime.store.table(f.PARTIALS)
    runtime.set_parallelism(sum(file.rows for file in files))
    schema = from_arrow_schema(pq.read_schema(table.root / files[0].path))
    state = runtime.spark.read.schema(schema).parquet(*table.absolute(files))
    closed = closed_until(runtime.plan.query, runtime.clocks.watermark)
    still_open = "true" if closed is None else f"window_end > {closed}L"
    merged = runtime.sql(lambda name: merged_sql(runtime.plan, name, still_open), state)
    written = runtime.write(f.PARTIALS, merged, folder=f"{BUCKET}={bucket}")
    runtime.store.replace(f.PARTIALS, runtime.epoch, add=written, remove=files)
