"""Rows as lines of JSON, for programs that read text; engine/json_text.py says how each type is written."""

from __future__ import annotations

import pyarrow as pa

from laminar_dagster.engine.json_text import json_texts


def json_lines(rows: pa.RecordBatch) -> list[str]:
    """Each row as a JSON object, in order."""
    return [str(line) for line in json_texts(pa.Table.from_batches([rows])).to_pylist()]
