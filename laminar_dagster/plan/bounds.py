"""Whether anything bounds a view's state, and what to be careful about when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laminar_dagster.semantics.query import VIEW_CONNECTOR, Input, Query, TimeStep


@dataclass(frozen=True)
class Unbounded:
    """A way in which a state can grow without end: why, what would bound it, and which part of the SQL it is."""

    why: str
    remedy: str
    places: tuple[str, ...]
    holds: Callable[[Query], bool]


def _keeps_every_group(query: Query) -> bool:
    return query.window is None and query.is_grouped and bool(query.keys) and query.max_state_rows is None


def _keeps_every_value(query: Query) -> bool:
    growing = any(call.kernel.grows is not None for call in query.aggregates)
    return query.window is None and query.is_grouped and growing and not _keeps_every_group(query)


def _keeps_every_key_for_gaps(query: Query) -> bool:
    return query.gap_fill is not None and bool(query.keys) and query.max_gap is None


def _closes_nothing(query: Query) -> bool:
    return query.window is not None and not query.has_watermark


UNBOUNDED = (
    Unbounded(
        "without a window nothing closes, so every group that was ever seen is kept",
        "Group by a window of the event time or set max_state_rows",
        ("view",),
        _keeps_every_group,
    ),
    Unbounded(
        "without a window nothing closes, and an aggregate keeps every value",
        "Group by a window of the event time, or use an aggregate whose state does not grow",
        ("view",),
        _keeps_every_value,
    ),
    Unbounded(
        "GAP FILL keeps the last closed window of every key that was ever seen",
        "Set max_gap",
        ("gap_fill",),
        _keeps_every_key_for_gaps,
    ),
    Unbounded(
        "no watermark is declared for the time of the windows, so none of them closes",
        "Declare WATERMARK FOR the time in the source, or watermark_lag in the view",
        ("window",),
        _closes_nothing,
    ),
)


def unbounded(query: Query) -> tuple[Unbounded, ...]:
    return tuple(entry for entry in UNBOUNDED if entry.holds(query))


def cautions(query: Query) -> tuple[str, ...]:
    """What a run of the view says once, before it begins."""
    timeless = [entry.source.name for entry in query.inputs if falls_back(query, entry)]
    warned = [entry for entry in unbounded(query) if query.unbounded_state == "warn"]
    return (
        *([_without_event_time(timeless)] if timeless else []),
        *(f"nothing bounds the state: {entry.why}. {entry.remedy}." for entry in warned),
        *([_unnamed(query.derived)] if query.derived else []),
    )


def between_windows(rows: int) -> str:
    """What a run says when such rows have come: a HOP whose slide is longer than its size may be meant."""
    return (
        f"{rows} row(s) lie between two windows of HOP, whose slide is longer than its size, and are in none. "
        "If that is not meant: the slide comes first, HOP(source, event_time, slide, size)."
    )


def _unnamed(columns: tuple[str, ...]) -> str:
    named = ", ".join(f'"{name}"' for name in columns)
    return f"columns without AS are named by their expressions, as Spark names them: {named}"


def falls_back(query: Query, entry: Input) -> bool:
    """Whether rows have processing time for want of any other. A view that is read has a time only in windows."""
    if entry.time_step is not TimeStep.PROCESSING_TIME:
        return False
    return entry.source.connector != VIEW_CONNECTOR or query.window is not None


def _without_event_time(sources: list[str]) -> str:
    named = ", ".join(f'"{name}"' for name in sources)
    return (
        f"no event time is known for {named}, so rows have the processing time of the epoch that reads them. "
        "Name a column: WATERMARK FOR in CREATE SOURCE, or event_time in laminar.toml."
    )
