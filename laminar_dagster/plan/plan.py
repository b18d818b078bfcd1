"""The decision, as one frozen object: what a view means and how its state lies on disk.

Explain, check, fingerprint and execution are functions over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar_dagster.semantics.aggregates import KEEP, WEIGHT
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.time import HOUR, MINUTE
from laminar_dagster.semantics.windows import Cumulate, Hop, Session, Tumble, WindowKind

# A row's weight, in sources that send retractions and in the frames that are made of them.
WEIGHT_COLUMN = "_weight"
# Of each row of state, beside the aggregates: how many source rows it stands for, and when the last of them came.
ROW_COUNT = "row_count"
UPDATED_AT = "updated_at"


@dataclass(frozen=True)
class StateLayout:
    """How partials are laid out: one row per (pane, key) and epoch, in buckets of the pane's end."""

    bucket_width: int
    key_columns: tuple[str, ...]
    accumulator_columns: tuple[str, ...]

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """What a merge merges: the aggregates' columns, and what is kept about the rows themselves."""
        return (*self.accumulator_columns, ROW_COUNT, UPDATED_AT)

    def bucket_of(self, pane_end: int) -> int:
        """The bucket's number. A bucket holds pane ends in `(number * width - width, number * width]`."""
        return -(-pane_end // self.bucket_width)


@dataclass(frozen=True)
class Plan:
    query: Query
    layout: StateLayout

    @property
    def session_keys(self) -> tuple[str, ...]:
        """The keys that have sessions of their own; rows that are only kept share theirs."""
        return () if self.query.repeats is not None else self.layout.key_columns


def partial_column(aggregate_id: str, partial: str) -> str:
    return f"{aggregate_id}_{partial}"


def prepared_columns_of(call: AggregateCall) -> dict[str, str]:
    """What the aggregate's templates call the parts of a row, and the columns in which the engine prepares them."""
    names = {name: call.id if name == "x" else f"{call.id}_{name}" for name in call.kernel.mentions}
    if WEIGHT in names:
        names[WEIGHT] = WEIGHT_COLUMN
    return names if call.filter is not None or KEEP not in names else {**names, KEEP: "true"}


def key_column(position: int) -> str:
    return f"k{position}"


def layout_of(query: Query) -> StateLayout:
    return StateLayout(
        bucket_width=bucket_width(query.window),
        key_columns=tuple(key_column(i) for i in range(len(query.keys))),
        accumulator_columns=tuple(
            partial_column(call.id, partial.name) for call in query.aggregates for partial in call.kernel.partials
        ),
    )


def bucket_width(window: WindowKind | None) -> int:
    """Wide enough that an epoch touches few buckets; for sessions narrow, as a close rewrites the one it cuts."""
    match window:
        case Tumble(size=size) | Hop(size=size) | Cumulate(size=size):
            return max(HOUR, size)
        case Session(gap=gap):
            return max(MINUTE, gap)
        case _:
            return HOUR
