"""A view as data: what its SQL says, resolved and typed, before anything about storage is decided."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from laminar_dagster.errors import Span
from laminar_dagster.semantics.aggregates import Kernel, Ordering
from laminar_dagster.semantics.emit import EmitPolicy
from laminar_dagster.semantics.expressions import Column, Expression, Literal, Named, columns_of, follows_from, shifted
from laminar_dagster.semantics.partitions import Partitioning
from laminar_dagster.semantics.sinks import DeclaredSink
from laminar_dagster.semantics.types import TIMESTAMP, DataType
from laminar_dagster.semantics.watermark import DEFAULT_FUTURE_SKEW, ShardPolicy
from laminar_dagster.semantics.windows import WindowKind

WINDOW_START = "window_start"
WINDOW_END = "window_end"
VIEW_CONNECTOR = "view"
# What a row's number is called among the columns that the output is over; no column of a view may be called so.
RANK = "row_number()"
# No column may have this character in its name; the engine has it in names of its own.
UNUSABLE_IN_NAMES = "\x01"
# What every changelog has beside the data, and what the table of results has; no column of a view may be called so.
OF_CHANGELOGS = ("_op", "_weight", "_epoch", "_seq", "_event_time", "_emitted_at")
_OF_RESULTS = re.compile(r"_partition|_epochs|_window_(start|end)|_k\d+", re.IGNORECASE)
# The event time of a query whose source declares none.
PROCESSING_TIME = Literal(None, TIMESTAMP)


def stands_beside_data(name: str) -> bool:
    """Whether a column of a view's tables is none of the view's own."""
    return name.lower() in OF_CHANGELOGS or _OF_RESULTS.fullmatch(name) is not None


@dataclass(frozen=True)
class Field:
    name: str
    type: DataType


# Who says what a time is, besides a table of the configuration: the SQL of a source, its metadata, the options of a
# view, or WATERMARK(…) in its query.
IN_SQL = "SQL"
IN_METADATA = "metadata"
IN_VIEW = "WITH (…) of the view"
IN_QUERY = "WATERMARK(…) of the query"


class TimeStep(Enum):
    """Who decided what a row's event time is, first to last."""

    QUERY = "query"
    CONFIGURATION = "configuration"
    METADATA = "source metadata"
    PROCESSING_TIME = "processing time"


@dataclass(frozen=True)
class Uniqueness:
    """A source's word that no key comes again within a length of event time; a row that does is a duplicate."""

    columns: tuple[str, ...]
    within: int


@dataclass(frozen=True)
class Source:
    """A declared source. `columns` is empty as long as the schema is the table's own and not read yet.

    `event_time` is the time that its watermark is of, and `computed` are columns that its declaration adds, both over
    `columns`.
    `hands_on` is of a view that is read: of which columns its watermark tells, and by how much they stay behind it.
    `said` tells of each option about time who said it: the SQL, a table of the configuration, or the metadata.
    """

    name: str
    connector: str
    columns: tuple[Field, ...]
    options: Mapping[str, str]
    event_time: Expression | None = None
    watermark_lag: int | None = None
    idle_timeout: int | None = None
    max_future_skew: int | None = DEFAULT_FUTURE_SKEW
    unique: Uniqueness | None = None
    computed: tuple[Named, ...] = ()
    hands_on: Mapping[str, int] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that a query sees: those that are read, and those that are computed."""
        return (*self.columns, *(Field(named.name, named.type) for named in self.computed))

    @property
    def watermark_column(self) -> str | None:
        """The column that holds the event time as it is, if one does."""
        return self.event_time.name if isinstance(self.event_time, Column) else None

    @property
    def policy(self) -> ShardPolicy:
        return ShardPolicy(self.watermark_lag or 0, self.idle_timeout, self.max_future_skew)

    @property
    def takes_retractions(self) -> bool:
        return self.options.get("changes", "append") != "append"


@dataclass(frozen=True)
class Input:
    """One branch of FROM: a source, the rows it keeps, and the columns it hands on under common names."""

    source: Source
    columns: tuple[Named, ...]
    where: Expression | None
    event_time: Expression
    time_step: TimeStep = field(default=TimeStep.QUERY, compare=False)

    def handed_on(self, watermark: int | None) -> int | None:
        """The event time up to which nothing can come any more, where the source is a view that tells; else None."""
        found = shifted(self.event_time)
        if watermark is None or self.source.event_time is not None or found is None:
            return None
        column, shift = found
        behind = self.source.hands_on.get(column.name)
        return None if behind is None else watermark - behind + shift + (self.source.watermark_lag or 0)

    @property
    def has_watermark(self) -> bool:
        """Whether anything says how far the event time has come: processing time, a declaration, or a view upstream."""
        source, used = self.source, columns_of(self.event_time)
        if self.event_time == PROCESSING_TIME:
            return True
        if source.event_time is not None:
            return follows_from(self.event_time, source.event_time) and source.watermark_lag is not None
        return source.watermark_lag is not None or (len(used) == 1 and used <= source.hands_on.keys())

    def moved_to(self, watermark: int | None, latest: int | None) -> int | None:
        """The time that moves the shard's watermark: what a view that is read hands on, else that of the latest row."""
        if not self.has_watermark:
            return None
        return self.handed_on(watermark) if self.handed_on(0) is not None else latest

    @property
    def policy(self) -> ShardPolicy:
        """What the source says of time. The clock moves no watermark where there is none."""
        return self.source.policy if self.has_watermark else replace(self.source.policy, idle_timeout=None)


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


SIDE_OUTPUT_KINDS = ("late", "evicted", "error", "duplicate")
TABLE, METRICS_ONLY, REINJECT, KAFKA_ROUTE = "table", "metrics_only", "reinject", "kafka:"


@dataclass(frozen=True)
class SideOutput:
    """Where rows that were set aside go, by kind: `table`, `metrics_only`, `reinject` or `kafka:topic`.

    `without_original` are the kinds whose entries leave the row itself out. `max_rows` is how many rows of each kind an
    epoch keeps. `sinks` are the routes that lead out of the store; what they deliver is in the table, too.
    """

    routes: Mapping[str, str] = field(default_factory=dict)
    without_original: frozenset[str] = frozenset()
    max_rows: int | None = None
    sinks: tuple[DeclaredSink, ...] = field(default=(), compare=False)

    def keeps(self, kind: str) -> bool:
        return self.routes.get(kind, TABLE) != METRICS_ONLY


@dataclass(frozen=True)
class Ranking:
    """ROW_NUMBER() over parts of a window: which rows number 1 to `limit` are, and which of these `where` keeps.

    Over the same columns as the query's output. Rows that the order leaves equal stand in the order of their values
    (see semantics/ranking.py), so that the numbers follow from the rows alone.
    """

    partition: tuple[Expression, ...]
    order: tuple[tuple[Expression, Ordering], ...]
    limit: int | None = None
    where: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.partition, *(key for key, _ in self.order), *([] if self.where is None else [self.where]))


@dataclass(frozen=True)
class Query:
    """A view's meaning.

    `where`, keys and aggregate arguments are over the inputs' common columns. `having` and `output` are over
    the keys (`k0`, `k1`, … by position), the window's bounds (`window_start`, `window_end`, TIMESTAMPs) and the
    results (`a0`, `a1`, …); `ranking` numbers what passed `having`. Of a query that does not group they are over the
    columns themselves. `places` says where in the SQL a part stands: emit, sink, window, lateness, gap_fill, ranking,
    late_data, having, input:NAME, aggregate:ID, option:NAME, source:NAME, source:NAME.OPTION.
    `is_grouped`: rows become groups; otherwise each row is a result of its own, at its window's close, or at once.
    `repeats` names the result that says how often a row of the output stands there (see plan/projection.py).
    `live` names the result that says how many rows of a group retractions have left (see plan/weighting.py).
    `labels` are the options that only Dagster shows (owners, tags, group, description, partition_start, freshness).
    `sinks` are those that CREATE SINK declares for it, and `emit_for` is the one that decided `emit`, where the view's
    own SQL does not say it.
    `unbounded_state` is what to do about a state that nothing bounds: allow, warn or refuse.
    `derived` are the columns that the SQL gives no name.
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
    max_gap: int | None = None
    partition: Partitioning = field(default_factory=Partitioning)
    is_grouped: bool = True
    repeats: str | None = None
    live: str | None = None
    ranking: Ranking | None = None
    sql: str = field(default="", compare=False)
    file: str | None = field(default=None, compare=False)
    explicit_emit: bool = field(default=True, compare=False)
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    sinks: tuple[DeclaredSink, ...] = field(default=(), compare=False)
    emit_for: str | None = field(default=None, compare=False)
    unbounded_state: str = field(default="allow", compare=False)
    derived: tuple[str, ...] = field(default=(), compare=False)

    @property
    def lateness(self) -> int:
        return self.emit.lateness(self.allowed_lateness)

    @property
    def has_changelog(self) -> bool:
        """Whether what leaves the view is also written as a changelog."""
        return not self.emit.append_only or self.sink == "changelog"

    @property
    def takes_retractions(self) -> bool:
        return any(entry.source.takes_retractions for entry in self.inputs)

    @property
    def delivered_to(self) -> tuple[DeclaredSink, ...]:
        """Everything outside of the store that gets something of the view: its sinks, and routes of its side output."""
        return (*self.sinks, *self.side_output.sinks)

    @property
    def finds_duplicates(self) -> bool:
        return any(entry.source.unique is not None for entry in self.inputs)

    @property
    def reckons_with_times(self) -> bool:
        """Whether a row's event time is added to and subtracted from, and so must be in reach of such sums."""
        return self.window is not None or self.finds_duplicates

    @property
    def passes_rows(self) -> bool:
        """Whether each row is a result of its own at once, as there is neither a group nor a window to wait for."""
        return self.window is None and not self.is_grouped

    @property
    def only_appends(self) -> bool:
        """Whether nothing that was shown is ever taken back."""
        return self.emit.append_only or (self.passes_rows and not self.takes_retractions)

    @property
    def waits_for_close(self) -> bool:
        """Whether results appear when a window closes and never before, whatever the strategy."""
        if self.passes_rows:
            return False
        return self.emit.append_only or not self.is_grouped or self.repeats is not None or self.ranking is not None

    @property
    def tells_results_apart(self) -> bool:
        """Whether a result is known by its group and window; rows that are results of their own are not."""
        return self.is_grouped and self.repeats is None and self.ranking is None

    @property
    def has_watermark(self) -> bool:
        """Whether its windows close: each of its inputs says how far its time has come."""
        return self.window is not None and all(entry.has_watermark for entry in self.inputs)

    @property
    def views_read(self) -> tuple[str, ...]:
        """The views that stand in FROM."""
        sources = (entry.source for entry in self.inputs)
        return tuple(source.options["view"] for source in sources if source.connector == VIEW_CONNECTOR)

    @property
    def goes_by_arrival(self) -> bool:
        """Whether the order in which rows of one event time came matters."""
        return any(call.kernel.goes_by_arrival for call in self.aggregates)

    @property
    def policies(self) -> Mapping[str, ShardPolicy]:
        return {entry.source.name: entry.policy for entry in self.inputs}
