"""A view as data: what its SQL says, resolved and typed, before anything about storage is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar_dagster.errors import NotWiredError, Span
from laminar_dagster.semantics.aggregates import Kernel
from laminar_dagster.semantics.emit import EmitPolicy
from laminar_dagster.semantics.expressions import Expression, Named
from laminar_dagster.semantics.types import DataType
from laminar_dagster.semantics.watermark import DEFAULT_FUTURE_SKEW, ShardPolicy
from laminar_dagster.semantics.windows import WindowKind

WINDOW_START = "window_start"
WINDOW_END = "window_end"


@dataclass(frozen=True)
class Field:
    name: str
    type: DataType


@dataclass(frozen=True)
class Source:
    """A declared source. `columns` is empty as long as the schema is the table's own and not read yet."""

    name: str
    connector: str
    columns: tuple[Field, ...]
    options: Mapping[str, str]
    watermark_column: str | None = None
    watermark_lag: int | None = None
    idle_timeout: int | None = None
    max_future_skew: int | None = DEFAULT_FUTURE_SKEW

    @property
    def policy(self) -> ShardPolicy:
        return ShardPolicy(self.watermark_lag or 0, self.idle_timeout, self.max_future_skew)

    @property
    def takes_retractions(self) -> bool:
        return "changes" in self.options


@dataclass(frozen=True)
class Input:
    """One branch of FROM: a source, the rows it keeps, and the columns it hands on under common names."""

    source: Source
    columns: tuple[Named, ...]
    where: Expression | None
    event_time: Expression


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of the query. `id` names its columns in the state.

    `arguments` are what it reads of each row, the keys of its ORDER BY last; COUNT(*) has none.
    """

    id: str
    kernel: Kernel
    arguments: tuple[Expression, ...]
    filter: Expression | None
    text: str
    distinct: bool = False


@dataclass(frozen=True)
class SideOutput:
    """Where rows that were set aside go, by kind: `table` or `metrics_only`."""

    routes: Mapping[str, str] = field(default_factory=dict)

    def keeps(self, kind: str) -> bool:
        return self.routes.get(kind, "table") == "table"


@dataclass(frozen=True)
class Query:
    """A view's meaning.

    `where`, keys and aggregate arguments are over the inputs' common columns. `having` and `output` are over
    the keys (`k0`, `k1`, … by position), the window's bounds (`window_start`, `window_end`, TIMESTAMPs) and the
    results (`a0`, `a1`, …). `places` says where in the SQL a part stands: emit, sink, window, lateness, gap_fill,
    late_data, having, input:NAME, aggregate:ID, option:NAME, source:NAME, source:NAME.OPTION.
    `repeats` names the result that says how often a row of the output stands there (see plan/projection.py).
    `labels` are the options that describe the view (owners, tags, group, description). `not_wired` holds what the
    SQL says and this form cannot; planning refuses it after every real mistake.
    """

    view: str
    inputs: tuple[Input, ...]
    window: WindowKind | None
    where: Expression | None
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]
    having: Expression | None
    output: tuple[Named, ...]
    emit: EmitPolicy
    period: int | None
    allowed_lateness: int
    sink: str
    side_output: SideOutput
    null_event_time: str = "side_output"
    max_groups_per_window: int | None = None
    max_windows_per_group: int | None = None
    max_state_rows: int | None = None
    gap_fill: str | None = None
    partition: str = "day"
    repeats: str | None = None
    sql: str = field(default="", compare=False)
    file: str | None = field(default=None, compare=False)
    explicit_emit: bool = field(default=True, compare=False)
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    not_wired: tuple[NotWiredError, ...] = field(default=(), compare=False)

    @property
    def lateness(self) -> int:
        return self.emit.lateness(self.allowed_lateness)

    @property
    def policies(self) -> Mapping[str, ShardPolicy]:
        return {entry.source.name: entry.source.policy for entry in self.inputs}
