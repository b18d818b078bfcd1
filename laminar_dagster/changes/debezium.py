"""A subscription's batches as Debezium envelopes; engine/debezium.py says what they look like."""

from __future__ import annotations

import pyarrow as pa

from laminar_dagster.changes.reading import ChangeBatch
from laminar_dagster.engine.debezium import CdcSource, debezium_texts

__all__ = ["CdcSource", "debezium_lines"]


def debezium_lines(batch: ChangeBatch, source: CdcSource) -> list[str]:
    """The events of a batch, in order, without line ends. `source.sequence` rises from event to event."""
    lines = debezium_texts(pa.Table.from_batches([batch.rows]), source, snapshot=batch.snapshot)
    return [str(line) for line in lines.to_pylist()]
