"""The table of aggregates. The engine, explain, the reference and the reference page all read it; none has a case
for a name.
"""

from __future__ import annotations

from laminar_dagster.semantics.aggregates.choosing import CHOOSING
from laminar_dagster.semantics.aggregates.collecting import COLLECTING
from laminar_dagster.semantics.aggregates.frequencies import FREQUENCIES
from laminar_dagster.semantics.aggregates.kernel import (
    KEEP,
    TIME,
    WEIGHT,
    Aggregate,
    Constant,
    Distinct,
    Kernel,
    Ordering,
    PartialColumn,
    argument_name,
)
from laminar_dagster.semantics.aggregates.logic import LOGIC
from laminar_dagster.semantics.aggregates.moments import MOMENTS
from laminar_dagster.semantics.aggregates.sketches import SKETCHES
from laminar_dagster.semantics.aggregates.totals import TOTALS

AGGREGATES = {
    aggregate.name: aggregate
    for family in (TOTALS, CHOOSING, MOMENTS, LOGIC, COLLECTING, SKETCHES, FREQUENCIES)
    for aggregate in family
}
SYNONYMS = {
    "any": "bool_or", "every": "bool_and", "first_value": "first", "last_value": "last", "mean": "avg",
    "some": "bool_or", "std": "stddev",
}  # fmt: skip


def _remaining_rows() -> Kernel:
    kernel = AGGREGATES["count"].kernel().weighted
    assert kernel is not None
    return kernel


# How many rows of a group retractions have left: COUNT(*) over rows with weights. A group with none is no more.
REMAINING_ROWS = _remaining_rows()


def aggregate_called(name: str) -> Aggregate | None:
    """The aggregate of that name, in any letter case, or None."""
    lower = name.lower()
    return AGGREGATES.get(SYNONYMS.get(lower, lower))


__all__ = [
    "AGGREGATES",
    "KEEP",
    "REMAINING_ROWS",
    "SYNONYMS",
    "TIME",
    "WEIGHT",
    "Aggregate",
    "Constant",
    "Distinct",
    "Kernel",
    "Ordering",
    "PartialColumn",
    "aggregate_called",
    "argument_name",
]
