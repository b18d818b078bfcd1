"""What can be wrong with a topic that a view has read before."""

from __future__ import annotations

from collections.abc import Mapping

from laminar_dagster.engine.kafka_cluster import Reach
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.query import Source


def expired(source: Source, topic: str, lost: Mapping[int, Reach]) -> LaminarError:
    return LaminarError(
        "LMR0632",
        f'topic "{topic}" of source "{source.name}" no longer holds messages that the view has not read',
        detail=_lost(lost),
        hint="They expired (retention), or somebody deleted them. To go on with what is left, say on_data_loss = "
        "'skip' in CREATE SOURCE: what is passed over is counted as skipped_offsets. Run more often than the topic "
        "forgets.",
        committed="Everything read so far is committed; nothing of this run is.",
    )


def planned_and_expired(
    source: Source, topic: str, lost: Mapping[int, Reach], view: str, committed: str
) -> LaminarError:
    return LaminarError(
        "LMR0632",
        f'topic "{topic}" of source "{source.name}" no longer holds messages of an epoch that is planned',
        detail=_lost(lost),
        hint=f"`laminar run {view} --replan` plans the epoch anew; with on_data_loss = 'skip' in CREATE SOURCE it "
        "passes over what is lost.",
        committed=committed,
        next_command=f"laminar run {view} --replan",
    )


def _lost(lost: Mapping[int, Reach]) -> str:
    parts = [f"partition {n}: offsets {reach.first} to {reach.end - 1}" for n, reach in sorted(lost.items())]
    shown = "; ".join(parts[:5]) + (" …" if len(parts) > 5 else "")
    return f"lost: {shown}; {sum(reach.end - reach.first for reach in lost.values())} offset(s) in all"


def recreated(source: Source, topic: str) -> LaminarError:
    return LaminarError(
        "LMR0633",
        f'topic "{topic}" of source "{source.name}" is not the one that the view has read',
        detail="It was deleted and created again, or `brokers` names another cluster; offsets begin anew there.",
        hint="Correct `brokers`. If the topic is meant to be a new one, build the view in another data directory.",
        committed="Everything read so far is committed; nothing of this run is.",
    )
