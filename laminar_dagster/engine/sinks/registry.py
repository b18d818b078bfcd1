"""Which target takes which kind of sink."""

from __future__ import annotations

from importlib import import_module

from laminar_dagster.engine.sinks.targets import MakeTarget, Surroundings, Target
from laminar_dagster.semantics.sinks import DeclaredSink

# Modules are imported when a sink needs them: whoever delivers no messages need not have what those need.
TARGETS = {
    "delta": ("laminar_dagster.engine.sinks.delta", "DeltaTarget"),
    "files": ("laminar_dagster.engine.sinks.files", "FilesTarget"),
    "kafka": ("laminar_dagster.engine.sinks.kafka", "KafkaTarget"),
}


ENTRY_TARGETS = {
    "files": ("laminar_dagster.engine.sinks.side_output", "Reinjection"),
    "kafka": ("laminar_dagster.engine.sinks.side_output", "SideMessages"),
}


def open_target(sink: DeclaredSink, surroundings: Surroundings) -> Target:
    module, name = (TARGETS if sink.entries is None else ENTRY_TARGETS)[sink.connector]
    make: MakeTarget = getattr(import_module(module), name)
    return make(sink, surroundings)
