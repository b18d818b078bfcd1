"""What a view can be watched by: one table of metrics, and their values out of the epoch log. No Spark.

The command line's table, JSON, OpenMetrics text, OpenTelemetry and docs/reference/metrics.md all follow from METRICS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar_dagster.engine.clock_report import standings
from laminar_dagster.engine.in_process_sql import connection, parquet, text
from laminar_dagster.engine.open_windows import open_sessions
from laminar_dagster.engine.same_query import require_same_query
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.alignment import Standing
from laminar_dagster.semantics.windows import Session
from state_store import CommitRow, StoreReader
from state_store.format import PARTIALS
from state_store.positions import SinkPositions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COUNTER, GAUGE = "counter", "gauge"
VIEW, SHARD, STEP, ROUTE = "view", "shard", "step", "route"
PREFIX = "laminar_"
MICROS = 1_000_000

Number = int | float


@dataclass(frozen=True)
class Facts:
    """What the epoch log says of a view: its last commit, and the sums over all of them.

    `open_windows`: how many hold rows and are not closed; of sessions, over all keys.
    """

    commit: CommitRow
    epochs: int
    counts: Mapping[str, int]
    seconds: Mapping[str, float]
    standings: tuple[Standing, ...]
    open_windows: int | None
    route_drops: Mapping[str, int]


Values = Mapping[str, Number | None]
ALONE = ""


@dataclass(frozen=True)
class Metric:
    """A row of the table. `values` has one for each value of `label`, or one that is ALONE; None is not known yet.
    A name ends with its unit, as OpenMetrics wants it."""

    name: str
    kind: str
    unit: str | None
    help: str
    origin: str
    values: Callable[[Facts], Values]
    label: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        return (VIEW,) if self.label is None else (VIEW, self.label)

    @property
    def series(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


@dataclass(frozen=True)
class Sample:
    metric: Metric
    labels: Mapping[str, str]
    value: Number


def _counted(name: str, unit: str, key: str, help_: str, *, always: bool = True) -> Metric:
    """The sum of a count over all epochs: 0 where none has it, or nothing at all if that could be a lie."""

    def values(facts: Facts) -> Values:
        return {ALONE: facts.counts.get(key, 0 if always else None)}

    return Metric(PREFIX + name, COUNTER, unit, help_, f"`counts.{key}`, summed", values)


def _gauge(name: str, unit: str | None, origin: str, help_: str, value: Callable[[Facts], Number | None]) -> Metric:
    return Metric(PREFIX + name, GAUGE, unit, help_, origin, lambda facts: {ALONE: value(facts)})


def _of_shards(name: str, unit: str | None, help_: str, value: Callable[[Facts, Standing], Number | None]) -> Metric:
    def values(facts: Facts) -> Values:
        return {standing.shard: value(facts, standing) for standing in facts.standings}

    return Metric(PREFIX + name, GAUGE, unit, help_, "`shards`", values, SHARD)


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / MICROS


def _lag(facts: Facts, watermark: int | None) -> float | None:
    return None if watermark is None else (facts.commit.processing_time - watermark) / MICROS


METRICS = (
    Metric(PREFIX + "epochs", COUNTER, "epochs", "Epochs committed.", "`commit` rows, counted",
           lambda facts: {ALONE: facts.epochs}),
    _gauge("last_epoch", None, "`epoch`", "The number of the last epoch.", lambda facts: facts.commit.epoch),
    _gauge("last_epoch_timestamp_seconds", "seconds", "`written_at`", "When the last epoch was committed.",
           lambda facts: _seconds(facts.commit.written_at)),
    Metric(PREFIX + "epoch_step_seconds", COUNTER, "seconds", "Time that the steps of epochs took.",
           "`seconds`, summed", lambda facts: dict(facts.seconds), STEP),
    Metric(PREFIX + "last_epoch_step_seconds", GAUGE, "seconds", "Time that the steps of the last epoch took.",
           "`seconds`", lambda facts: dict(facts.commit.seconds), STEP),
    _gauge("watermark_timestamp_seconds", "seconds", "`watermark`", "How far event time has come.",
           lambda facts: _seconds(facts.commit.watermark)),
    _gauge("watermark_lag_seconds", "seconds", "`processing_time` - `watermark`",
           "How far event time was behind the clock in the last epoch.",
           lambda facts: _lag(facts, facts.commit.watermark)),
    _of_shards("shard_watermark_timestamp_seconds", "seconds", "How far event time has come in a shard.",
               lambda _, standing: _seconds(standing.watermark)),
    _of_shards("shard_watermark_lag_seconds", "seconds",
               "How far a shard's event time was behind the clock in the last epoch.",
               lambda facts, standing: _lag(facts, standing.watermark)),
    _of_shards("shard_active_timestamp_seconds", "seconds", "When a shard last brought rows.",
               lambda _, standing: _seconds(standing.active_at)),
    _of_shards("shard_idle", None, "1 if a shard was idle in the last epoch, and did not count.",
               lambda _, standing: int(standing.is_idle)),
    _of_shards("shard_holds_watermark", None, "1 if a shard holds the view's watermark back.",
               lambda _, standing: int(standing.holds_back)),
    _counted("source_commits", "commits", "commits", "Commits of sources taken."),
    _counted("input_rows", "rows", "rows_in", "Rows read: aggregated, filtered or set aside."),
    _counted("aggregated_rows", "rows", "aggregated", "Rows that entered a window or group, or passed through."),
    _counted("filtered_rows", "rows", "filtered", "Rows that WHERE left out."),
    _counted("between_windows_rows", "rows", "between_windows",
             "Rows in the gaps of a HOP whose slide is longer than its size.", always=False),
    _counted("late_rows", "rows", "late", "Rows that came after all of their windows had closed."),
    _counted("partially_late_rows", "rows", "partially_late_rows",
             "Rows that some of their windows took and others did not; they count as aggregated."),
    _counted("error_rows", "rows", "error", "Rows set aside because they, or a value of theirs, cannot be used."),
    _counted("evicted_rows", "rows", "evicted", "Rows set aside because a quota was reached."),
    _counted("duplicate_rows", "rows", "duplicate", "Rows set aside because they had come before."),
    _counted("side_output_dropped_rows", "rows", "side_output_dropped",
             "Rows set aside that a limit of the side output did not let in."),
    Metric(PREFIX + "route_dropped_rows", COUNTER, "rows",
           "Rows set aside that a route of the side output could not take; the table has them.",
           "the positions of routes", lambda facts: dict(facts.route_drops), ROUTE),
    _counted("processing_time_fallback_rows", "rows", "processing_time_fallback_rows",
             "Rows with processing time, as nothing names an event time for their source."),
    _counted("null_event_time_rows", "rows", "null_event_time_rows",
             "Rows with processing time, as their event time is NULL."),
    _counted("pre_epoch_rows", "rows", "pre_epoch_rows", "Rows with an event time before 1970."),
    _counted("skipped_offsets", "offsets", "skipped_offsets", "Messages that had expired before they could be read."),
    _counted("touched_groups", "groups", "groups_touched", "Partials that rows were folded into."),
    _counted("output_rows", "rows", "rows_out", "Rows emitted; of a view that corrects itself, changes."),
    _counted("filled_rows", "rows", "filled_rows", "Rows emitted that stand for empty windows."),
    _counted("failed_groups", "groups", "result_errors", "Groups whose result has no value."),
    _counted("opened_windows", "windows", "windows_opened",
             "Windows that got their first row. Not of sessions, which merge.", always=False),
    _counted("closed_windows", "windows", "windows_closed", "Windows that closed, of sessions over all keys."),
    _counted("sessions_closed_by_timer_windows", "windows", "sessions_closed_by_timer",
             "Sessions that closed in an epoch without rows.", always=False),
    _counted("sessions_closed_by_watermark_windows", "windows", "sessions_closed_by_watermark",
             "Sessions that closed in an epoch that brought rows.", always=False),
    _counted("due_timers", "timers", "due_timers", "Timers of sessions that the watermark reached.", always=False),
    _counted("stale_timers", "timers", "stale_timers",
             "Timers of sessions that the watermark reached and that had moved on.", always=False),
    _gauge("open_windows", "windows", "`counts.windows_open`, of sessions the table `partials`",
           "Windows open after the last epoch, of sessions over all keys.", lambda facts: facts.open_windows),
    _gauge("open_fragments", "fragments", "`counts.open_fragments`",
           "Parts of open sessions in the state after the last epoch.",
           lambda facts: facts.commit.counts.get("open_fragments")),
)  # fmt: skip


def samples_of(plan: Plan, reader: StoreReader) -> list[Sample]:
    """The metrics of a view as of its last epoch; none before the first. LMR0405 where another query made them."""
    facts = facts_of(plan, reader) if reader.exists else None
    view = plan.query.view
    return [] if facts is None else [sample for metric in METRICS for sample in _samples(metric, view, facts)]


def facts_of(plan: Plan, reader: StoreReader) -> Facts | None:
    commit = reader.commit()
    if commit is None:
        return None
    require_same_query(plan, commit, commit)
    paths = reader.epochs.absolute(reader.epochs.files())
    commits = f"{parquet(paths)} WHERE kind = 'commit' AND epoch <= {commit.epoch}"
    with connection() as db:
        epochs = db.sql(f"SELECT count(*) FROM {commits}").fetchone()
        counts, seconds = _sums(db, commits, "counts", "BIGINT"), _sums(db, commits, "seconds", "DOUBLE")
    whole = {name: int(total) for name, total in counts.items()}
    told = standings(plan.query, commit)
    open_now, drops = _open_windows(plan, reader, commit), _route_drops(plan, reader)
    return Facts(commit, epochs[0] if epochs else 0, whole, seconds, told, open_now, drops)


def _route_drops(plan: Plan, reader: StoreReader) -> dict[str, int]:
    positions = SinkPositions(reader.root)
    found = {sink.name: positions.read(sink.name) for sink in plan.query.side_output.sinks}
    return {name: 0 if position is None else position.dropped for name, position in found.items()}


def _open_windows(plan: Plan, reader: StoreReader, commit: CommitRow) -> int | None:
    if not isinstance(plan.query.window, Session):
        return commit.counts.get("windows_open")
    return open_sessions(plan, reader.table(PARTIALS).absolute(reader.files(PARTIALS, commit)))


def _sums(db: DuckDBPyConnection, commits: str, part: str, type_: str) -> dict[str, float]:
    """The numbers in a part of the commit rows' bodies, summed by name. Some ten thousand epochs take a moment."""
    structure = text(f'"MAP(VARCHAR, {type_})"')
    entries = f"map_entries(from_json(body -> '$.{part}', {structure}))"
    found = db.sql(
        f"SELECT e.key, sum(e.value) FROM (SELECT unnest({entries}) AS e FROM {commits}) GROUP BY ALL ORDER BY ALL"
    )
    return {name: round(total, 6) for name, total in found.fetchall()}


def _samples(metric: Metric, view: str, facts: Facts) -> Iterable[Sample]:
    for named, value in metric.values(facts).items():
        own = {} if metric.label is None else {metric.label: named}
        if value is not None:
            yield Sample(metric, {VIEW: view, **own}, value)


def by_metric(samples: Iterable[Sample]) -> dict[Metric, list[Sample]]:
    """Samples of several views, each metric's together, in the order of the table."""
    found: dict[Metric, list[Sample]] = {metric: [] for metric in METRICS}
    for sample in samples:
        found[sample.metric].append(sample)
    return {metric: mine for metric, mine in found.items() if mine}
