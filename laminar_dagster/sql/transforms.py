"""`[transforms.sql]` of laminar.toml: defaults for all views, under the names that stream processors have for them.

| key | option |
|---|---|
| `event_time_field` | `event_time` |
| `event_time_unit`, `watermark_lag`, `allowed_lateness` | the same |
| `side_output.KIND.sink` | `side_output.KIND`; `dlq_NAME`, a dead-letter sink, is the route `kafka:dlq_NAME` |
| `side_output.KIND.include_original` | the same |
| `side_output.brokers`, `properties`, `reinject_to`, `max_rows_per_epoch` and the bounds of routes | the same |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from laminar_dagster.semantics.query import KAFKA_ROUTE, SIDE_OUTPUT_KINDS

TRANSFORMS = "transforms"
TABLE = (TRANSFORMS, "sql")
DEAD_LETTERS = "dlq_"
OF_ALL_KINDS = (
    "brokers", "properties", "reinject_to", "max_rows_per_epoch",
    "on_saturation", "route_max_rows", "route_max_bytes", "route_timeout",
)  # fmt: skip
NAMES: Mapping[str, str] = {
    "event_time_field": "event_time",
    "event_time_unit": "event_time_unit",
    "watermark_lag": "watermark_lag",
    "allowed_lateness": "allowed_lateness",
    **{f"side_output.{kind}.sink": f"side_output.{kind}" for kind in SIDE_OUTPUT_KINDS},
    **{f"side_output.{kind}.include_original": f"side_output.{kind}.include_original" for kind in SIDE_OUTPUT_KINDS},
    **{f"side_output.{name}": f"side_output.{name}" for name in OF_ALL_KINDS},
}


def translated(entries: Iterable[tuple[str, Any]]) -> tuple[dict[str, tuple[str, Any]], str | None]:
    """Options by their own names, each with the name that was written; and the first name that is none."""
    found: dict[str, tuple[str, Any]] = {}
    for name, value in entries:
        if name not in NAMES:
            return found, name
        is_route = name.endswith(".sink") and isinstance(value, str) and value.startswith(DEAD_LETTERS)
        found[NAMES[name]] = (name, f"{KAFKA_ROUTE}{value}" if is_route else value)
    return found, None
