"""A view's changes, for Python programs: Z-sets over Arrow, a subscription that can be resumed, Debezium envelopes.

No Spark: a changelog is read straight from its files.

    for batch in subscribe("data/per_minute", since=position):
        take(batch.rows)            # a pyarrow.RecordBatch
        remember(batch.position)    # `since` of the next subscription
"""

from laminar_dagster.changes.buffer import ChangelogBuffer
from laminar_dagster.changes.debezium import CdcSource, debezium_lines
from laminar_dagster.changes.position import Position
from laminar_dagster.changes.reading import ChangeBatch
from laminar_dagster.changes.records import ChangelogRecord, records
from laminar_dagster.changes.retractions import LateDataRetraction
from laminar_dagster.changes.subscription import subscribe
from laminar_dagster.changes.zsets import apply, consolidate, diff
from laminar_dagster.semantics.zset import CdcOperation

__all__ = [
    "CdcOperation",
    "CdcSource",
    "ChangeBatch",
    "ChangelogBuffer",
    "ChangelogRecord",
    "LateDataRetraction",
    "Position",
    "apply",
    "consolidate",
    "debezium_lines",
    "diff",
    "records",
    "subscribe",
]
