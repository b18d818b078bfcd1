"""The clocks of a view as an epoch of the log left them: for those who ask why time stands still. No Spark."""

from __future__ import annotations

from laminar_dagster.engine.runtime import Clocks
from laminar_dagster.semantics.alignment import Standing, alignment
from laminar_dagster.semantics.query import Query
from state_store import CommitRow


def standings(query: Query, commit: CommitRow) -> tuple[Standing, ...]:
    """The shards beside each other, at the processing time of the epoch."""
    shards = Clocks.from_json(commit.watermark, commit.shards).shards
    return alignment(shards, query.policies, commit.processing_time)
