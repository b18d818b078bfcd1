"""The tags by which Dagster knows what a materialization was made from, for events that the engine reports itself.

Dagster writes these tags for what a step returns, and not for events that are logged. Without them every old partition
would count as stale after a tick. The names are Dagster's own business; tests/integration/test_provenance.py compares
them with what Dagster writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

DATA_VERSION = "dagster/data_version"
USER_PROVIDED = "dagster/data_version_is_user_provided"
CODE_VERSION = "dagster/code_version"
INPUT_VERSION = "dagster/input_data_version/"
INPUT_POINTER = "dagster/input_event_pointer/"
INITIAL = "INITIAL"
NO_EVENT = "NULL"


@dataclass(frozen=True)
class Upstream:
    """The last event of an asset that is read: its data version, and its place in the event log."""

    data_version: str = INITIAL
    pointer: str = NO_EVENT


def upstream_of(instance: dg.DagsterInstance, spec: dg.AssetSpec) -> dict[dg.AssetKey, Upstream]:
    """What a spec's dependencies are at now: asked before the work, so that nothing newer counts as taken."""
    return {dep.asset_key: _last_event(instance, dep.asset_key) for dep in spec.deps}


def _last_event(instance: dg.DagsterInstance, key: dg.AssetKey) -> Upstream:
    found = instance.fetch_materializations(key, limit=1).records or instance.fetch_observations(key, limit=1).records
    if not found:
        return Upstream()
    tags = found[0].event_log_entry.tags or {}
    return Upstream(tags.get(DATA_VERSION, INITIAL), str(found[0].storage_id))


def provenance_tags(spec: dg.AssetSpec, upstream: Mapping[dg.AssetKey, Upstream], data_version: str) -> dict[str, str]:
    tags = {DATA_VERSION: data_version, USER_PROVIDED: "true", CODE_VERSION: spec.code_version or ""}
    for key, event in upstream.items():
        tags[INPUT_VERSION + key.to_user_string()] = event.data_version
        tags[INPUT_POINTER + key.to_user_string()] = event.pointer
    return tags
