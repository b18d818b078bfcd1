"""What a view's trailing clauses and options say, with the contradictions between them refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics.emit import EmitPolicy
from laminar_dagster.sql import options as o
from laminar_dagster.sql.configuration import is_default
from laminar_dagster.sql.intervals import IntervalText, fixed
from laminar_dagster.sql.statements import ViewStatement


@dataclass(frozen=True)
class Settings:
    """What a view's clauses and options come to.

    `values` are the options as they were read, `defaulted` those that only the project's defaults say.
    """

    emission: EmitPolicy | None
    period: int | None
    allowed_lateness: int
    sink: str | None
    partition: str
    partition_zone: str | None
    null_event_time: str
    limits: Mapping[str, int]
    gap_fill: str | None
    max_gap: int | None
    labels: Mapping[str, str]
    places: Mapping[str, Span]
    values: Mapping[str, Any]
    unbounded_state: str = "allow"
    defaulted: frozenset[str] = frozenset()

    def without_window(self) -> Settings:
        """A default for windows says nothing about a view that has none."""
        left_out = {option.name for option in o.VIEW_OPTIONS if option.needs == "window"} & self.defaulted
        limits = {name: limit for name, limit in self.limits.items() if name not in left_out}
        lateness = 0 if "allowed_lateness" in left_out else self.allowed_lateness
        return replace(self, limits=limits, allowed_lateness=lateness)


def read_settings(view: ViewStatement) -> Settings:
    clauses = view.clauses
    values = o.read(clauses.options, (*o.TIME_OPTIONS, *o.VIEW_OPTIONS), "a view")
    defaulted = frozenset(name for name, option in clauses.options.items() if is_default(option))
    if clauses.gap_fill is None and "max_gap" in defaulted:
        del values["max_gap"]
    emission = clauses.emission
    return Settings(
        emission=emission.policy if emission is not None else None,
        period=_period(emission.period) if emission is not None and emission.period is not None else None,
        allowed_lateness=_lateness(view, values),
        sink=values.get("sink"),
        partition=values.get("partition", "day"),
        partition_zone=_partition_zone(view, values),
        null_event_time=values.get("on_null_event_time", "side_output"),
        limits={name: values[name] for name in o.LIMITS if name in values},
        gap_fill=clauses.gap_fill,
        max_gap=values.get("max_gap"),
        labels={name: values[name] for name in o.LABELS if name in values},
        places=_places(view),
        values=values,
        unbounded_state=values.get("unbounded_state", "allow"),
        defaulted=defaulted,
    )


def _period(written: IntervalText) -> int:
    period = fixed(written, "EMIT EVERY", "LMR0207")
    if period <= 0:
        raise LaminarError("LMR0207", "EMIT EVERY needs a period longer than zero", where=written.where)
    return period


def _lateness(view: ViewStatement, values: Mapping[str, Any]) -> int:
    written = view.clauses.lateness
    if written is None:
        return int(values.get("allowed_lateness", 0))
    if "allowed_lateness" in values:
        raise LaminarError(
            "LMR0305", "ALLOW LATENESS and allowed_lateness both say how late a row may be",
            where=view.clauses.options["allowed_lateness"].name_where, hint="Keep one of the two.",
        )  # fmt: skip
    lateness = fixed(written, "ALLOW LATENESS", "LMR0208")
    if lateness < 0:
        raise LaminarError(
            "LMR0208", "ALLOW LATENESS cannot be negative", where=written.where,
            hint="A row cannot be late before its window ends. Give zero or more.",
        )  # fmt: skip
    return lateness


def _partition_zone(view: ViewStatement, values: Mapping[str, Any]) -> str | None:
    """Hours are those of UTC; a default for all says nothing about them."""
    given = view.clauses.options.get("partition_time_zone")
    if given is None:
        return None
    if values.get("partition") == "hour" and not is_default(given):
        raise LaminarError(
            "LMR0305", "partition_time_zone is for days, weeks and months; hours are those of UTC",
            where=given.name_where, hint="Leave partition_time_zone out, or choose another partition.",
        )  # fmt: skip
    return str(values["partition_time_zone"])


_PLACE_NAMES = {"ALLOW": "lateness", "GAP": "gap_fill", "EMIT": "emit", "LATE": "late_data", "WITH": "options"}


def _places(view: ViewStatement) -> dict[str, Span]:
    clauses = view.clauses
    places = {_PLACE_NAMES[word]: where for word, where in clauses.places.items()}
    for name, option in clauses.options.items():
        places[f"option:{name}"] = option.whole
    for name, key in (("sink", "option:sink"), ("lateness", "option:allowed_lateness")):
        if key in places:
            places.setdefault(name, places[key])
    return places
