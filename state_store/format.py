"""The names and the version of what lies on disk. docs/reference/state-format.md is the normative text."""

from __future__ import annotations

import pyarrow as pa

FORMAT_VERSION = 3
FORMAT_KEY = "laminar.formatVersion"
LOCK_FILE = "_writer.lock"
# Checkpoints carry removed files as long as this; nobody here reads them, so the checkpoints may be small.
TABLE_PROPERTIES = {"delta.checkpointInterval": "20", "delta.deletedFileRetentionDuration": "interval 1 day"}

EPOCHS = "epochs"
PARTIALS = "partials"
TIMERS = "timers"
SIDE_OUTPUT = "side_output"
OUTPUT = "output"
CHANGELOG = "changelog"
SOURCE_FILES = "source_files"
SEEN_KEYS = "seen_keys"
TABLES = (PARTIALS, TIMERS, SOURCE_FILES, SEEN_KEYS, SIDE_OUTPUT, CHANGELOG, OUTPUT)

TIMESTAMP = pa.timestamp("us", tz="UTC")

EPOCH_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("epoch", pa.int64()),
        ("kind", pa.string()),
        ("epoch_kind", pa.string()),
        ("run_id", pa.string()),
        ("written_at", TIMESTAMP),
        ("processing_time", TIMESTAMP),
        ("fingerprint", pa.string()),
        ("watermark", TIMESTAMP),
        ("body", pa.string()),
    ]
)
TIMER_SCHEMA = pa.schema(
    [
        ("deadline", pa.int64()),
        ("key_hash", pa.int64()),
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("epoch", pa.int64()),
    ]
)
SOURCE_FILE_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("id", pa.string()),
        ("size", pa.int64()),
        ("epoch", pa.int64()),
        ("position", pa.int64()),
    ]
)
SEEN_KEY_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("key", pa.string()),
        ("remembered_until", pa.int64()),
        ("epoch", pa.int64()),
    ]
)
SIDE_OUTPUT_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("event_time", TIMESTAMP),
        ("processing_time", TIMESTAMP),
        ("watermark", TIMESTAMP),
        ("window_start", TIMESTAMP),
        ("window_end", TIMESTAMP),
        ("group_key", pa.string()),
        ("original_event", pa.string()),
        ("error_detail", pa.string()),
        ("plan_id", pa.string()),
        ("shard", pa.string()),
        ("source", pa.string()),
        ("source_file", pa.string()),
        ("_epoch", pa.int64()),
        ("folded_epoch", pa.int64()),
    ]
)
