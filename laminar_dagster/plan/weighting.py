"""A query over rows that may be taken back: every aggregate by its weighted kernel, and how many rows remain."""

from __future__ import annotations

from dataclasses import replace

from laminar_dagster.semantics.aggregates import REMAINING_ROWS
from laminar_dagster.semantics.query import AggregateCall, Query

LIVE = "live"


def weighted(query: Query) -> Query:
    """The query as it is, or, if some source sends retractions, one whose groups are there while rows remain."""
    if not query.takes_retractions or not query.is_grouped:
        return query
    calls = tuple(_weighted(call) for call in query.aggregates)
    if query.repeats is not None:
        return replace(query, aggregates=calls, live=query.repeats)
    live = AggregateCall(LIVE, REMAINING_ROWS, (), None, "rows that remain")
    return replace(query, aggregates=(*calls, live), live=LIVE)


def _weighted(call: AggregateCall) -> AggregateCall:
    assert call.kernel.weighted is not None, "planning refuses aggregates that take no retractions"
    return replace(call, kernel=call.kernel.weighted)
