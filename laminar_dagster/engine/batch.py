"""Reads an epoch's commits: one frame over all inputs, and what each commit says about event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laminar_dagster.engine.arrival import PLACE_IN_FILE, SOURCE, with_arrival
from laminar_dagster.engine.column_names import held_as_named, over_held
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.sources.commits import SourceCommit, SourceFile
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.text_lines import DETAIL, FAULT, RAW
from laminar_dagster.engine.unique_columns import unique_columns
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.bounds import falls_back
from laminar_dagster.plan.plan import WEIGHT_COLUMN
from laminar_dagster.semantics.expressions import Column, Expression
from laminar_dagster.semantics.judging import FALLBACK
from laminar_dagster.semantics.query import PROCESSING_TIME, Field, Input, Query
from laminar_dagster.semantics.spark_sql import error_sql, first_reason, quoted, value_sql
from laminar_dagster.semantics.time import REACH
from laminar_dagster.semantics.watermark import CommitTimes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JSON_OPTIONS = "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")"
AS_JSON = f"to_json(struct({{columns}}), {JSON_OPTIONS})"
TIME = "_t"
# The event time as the row states it; `TIME` is NULL where no window can have it.
STATED = "_stated"
TIMELESS = "_timeless"

# A file up to this size is not split (spark.sql.files.openCostInBytes).
SMALLEST_SPLIT = 4 * 1024 * 1024


@dataclass(frozen=True)
class Times:
    """How many rows a commit has, and the event times of those that count: readable and not future-dated.

    `beyond` are rows whose time is out of reach. `fallback` is the time that rows take which have none, where there
    are such.
    """

    rows: int
    low: int | None
    high: int | None
    nulls: int
    future: int
    broken: int = 0
    beyond: int = 0
    fallback: int | None = None

    @property
    def earliest(self) -> int | None:
        return min((time for time in (self.low, self.fallback) if time is not None), default=None)

    @property
    def latest(self) -> int | None:
        return max((time for time in (self.high, self.fallback) if time is not None), default=None)


# Two sources may read one file: their rows are told apart.
ByFile = dict[tuple[str, str], Times]


@dataclass(frozen=True)
class Batch:
    """An epoch's rows. `frame` has the inputs' common columns and the engine's own, which begin with `_`."""

    commits: tuple[SourceCommit, ...]
    times: tuple[Times, ...]
    frame: DataFrame | None
    inputs: tuple[Input, ...]
    text: bool
    can_fail: bool

    @property
    def rows(self) -> int:
        return sum(times.rows for times in self.times)

    @property
    def is_one_split(self) -> bool:
        """Whether Spark reads all of it in one task, however many rows there are."""
        files = [file for commit in self.commits for file in commit.files]
        return len(files) == 1 and files[0].size <= SMALLEST_SPLIT

    @property
    def commit_times(self) -> list[CommitTimes]:
        return [
            CommitTimes(commit.shard, self._moved_to(commit, times), bool(commit.files))
            for commit, times in zip(self.commits, self.times, strict=True)
        ]

    def _moved_to(self, commit: SourceCommit, times: Times) -> int | None:
        entry = next(entry for entry in self.inputs if entry.source.name == commit.source)
        return entry.moved_to(commit.watermark, times.high)

    @property
    def spotless(self) -> bool:
        """No row can be malformed, without a time that windows can have, or future-dated."""
        timeless = any(times.nulls and times.fallback is None for times in self.times)
        return not self.text and not timeless and not any(times.future or times.beyond for times in self.times)

    def fallbacks(self, query: Query) -> dict[str, int]:
        """How many rows have processing time: for want of an event time in their source, or in themselves."""
        timeless = {entry.source.name for entry in query.inputs if falls_back(query, entry)}
        commits = zip(self.commits, self.times, strict=True)
        rows = sum(times.rows - times.broken for commit, times in commits if commit.source in timeless)
        nulls = sum(times.nulls for times in self.times)
        return {
            **({"processing_time_fallback_rows": rows} if timeless else {}),
            **({"null_event_time_rows": nulls} if query.null_event_time == FALLBACK else {}),
        }

    def release(self) -> None:
        if self.text and self.frame is not None:
            self.frame.unpersist()


def read(runtime: Runtime, commits: Sequence[SourceCommit], now: int) -> Batch:
    """Everything the epoch takes, with the event-time bounds of each commit."""
    with_rows = [commit for commit in commits if commit.files]
    if not with_rows:
        nothing = tuple(Times(0, None, None, 0, 0) for _ in commits)
        return Batch(tuple(commits), nothing, None, runtime.plan.query.inputs, text=False, can_fail=False)
    inputs = [i for i in runtime.plan.query.inputs if any(c.source == i.source.name for c in with_rows)]
    parts = [_input_frame(runtime, entry, with_rows, now) for entry in inputs]
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part, allowMissingColumns=runtime.plan.query.finds_duplicates)
    if runtime.plan.query.goes_by_arrival:
        frame = with_arrival(runtime, with_rows, frame)
    if runtime.selection is not None:
        frame = runtime.selection(frame)
    text = any(_is_text(entry) for entry in inputs)
    if text:
        frame = frame.persist()
    times = _times(runtime, commits, frame, now)
    if runtime.plan.query.null_event_time == FALLBACK:
        times = tuple(replace(found, fallback=now if found.nulls else None) for found in times)
    return Batch(
        tuple(commits), times, frame, runtime.plan.query.inputs, text, can_fail=any(_failure(entry) for entry in inputs)
    )


def _is_text(entry: Input) -> bool:
    """Whether rows are made of text, which may be broken."""
    connector, form = entry.source.connector, entry.source.options.get("format")
    return connector == "kafka" or (connector == "files" and form != "parquet")


def _input_frame(runtime: Runtime, entry: Input, commits: Sequence[SourceCommit], now: int) -> DataFrame:
    connector = runtime.connectors[entry.source.name]
    mine = [commit for commit in commits if commit.source == entry.source.name]
    frame = connector.frame(runtime.spark, mine)
    own = f"{now}L" if entry.event_time == PROCESSING_TIME else f"unix_micros({_held_value(entry.event_time)})"
    stated = f"coalesce({own}, {now}L)" if runtime.plan.query.null_event_time == FALLBACK else own
    time = _in_reach(runtime.plan.query, entry, stated)
    skew = entry.source.max_future_skew
    future = "false" if skew is None else f"coalesce({stated} > {now + skew}, false)"
    where = "true" if entry.where is None else f"coalesce({_held_value(entry.where)}, false)"
    text = _is_text(entry)
    weighted = runtime.plan.query.takes_retractions
    return frame.selectExpr(
        *(f"{_held_value(column.expression)} AS {quoted(column.name)}" for column in entry.columns),
        f"{time} AS {TIME}",
        f"{stated} AS {STATED}",
        f"{own} IS NULL AS {TIMELESS}",
        f"{future} AS _future",
        f"{where} AS _kept",
        f"{_failure(entry) or 'CAST(NULL AS STRING)'} AS _error",
        f"{FAULT + ' IS NOT NULL' if text else 'false'} AS _bad",
        *(f"{name if text else 'CAST(NULL AS STRING)'} AS {name}" for name in (FAULT, DETAIL)),
        f"{_original(connector.fields(), text)} AS _original",
        f"'{entry.source.name}' AS {SOURCE}",
        *([f"{WEIGHT_COLUMN if entry.source.takes_retractions else '1L'} AS {WEIGHT_COLUMN}"] if weighted else []),
        *unique_columns(runtime.plan.query, entry, time, AS_JSON),
        *(PLACE_IN_FILE if runtime.plan.query.goes_by_arrival else ()),
        FILE,
    )


def _in_reach(query: Query, entry: Input, time: str) -> str:
    """NULL where sums and differences of times could leave the range of their numbers."""
    if not query.reckons_with_times or entry.event_time == PROCESSING_TIME:
        return time
    return f"CASE WHEN {time} >= -{REACH}L AND {time} < {REACH}L THEN {time} END"


def _held_value(expression: Expression) -> str:
    return value_sql(over_held(expression))


def _original(fields: Sequence[Field], text: bool) -> str:
    """The text as it came, NULL where a message has none; where there is no text, the columns."""
    return RAW if text else AS_JSON.format(columns=", ".join(held_as_named(field.name) for field in fields))


def _failure(entry: Input) -> str | None:
    """Why a row of this input has no value in one of the columns that the query reads, if it can fail at all."""
    computed = [column.expression for column in entry.columns if not isinstance(column.expression, Column)]
    expressions = [over_held(expression) for expression in computed]
    reasons = [reason for e in expressions if (reason := error_sql(e))]
    if entry.where is None:
        return first_reason(reasons)
    own = error_sql(over_held(entry.where))
    guarded = [f"CASE WHEN {_held_value(entry.where)} THEN {reason} END" for reason in reasons]
    return first_reason([*([own] if own else []), *guarded])


def _times(runtime: Runtime, commits: Sequence[SourceCommit], frame: DataFrame, now: int) -> tuple[Times, ...]:
    if runtime.selection is None and all(_footers_tell(runtime, commit, now) for commit in commits):
        return tuple(_from_footers(commit) for commit in commits)
    by_file = _measured(runtime, frame)
    unknown = by_file.keys() - {(commit.source, file.url) for commit in commits for file in commit.files}
    if unknown:
        raise _unknown_files(url for _, url in unknown)
    return tuple(_from_measure(commit, by_file) for commit in commits)


def _unknown_files(found: Iterable[str]) -> LaminarError:
    return LaminarError(
        "LMR0406",
        "rows come from files that this epoch did not ask for",
        detail="Spark names them: " + ", ".join(sorted(found)[:3]),
        hint="This is a defect of laminar: please report it, with the names. Until then, rename the source's files.",
        committed="Nothing of this epoch is committed; all earlier epochs stand.",
    )


def reads_the_watermark_column(entry: Input) -> bool:
    """Whether the bounds in a file's footer are those of the event time itself."""
    return isinstance(entry.event_time, Column) and entry.event_time.name == entry.source.watermark_column


def _footers_tell(runtime: Runtime, commit: SourceCommit, now: int) -> bool:
    entry = next(i for i in runtime.plan.query.inputs if i.source.name == commit.source)
    plain = reads_the_watermark_column(entry)
    skew = entry.source.max_future_skew
    limit = REACH - 1 if skew is None else min(now + skew, REACH - 1)
    return plain and all(file.knows_its_times and _lies_between(file, -REACH, limit) for file in commit.files)


def _lies_between(file: SourceFile, low: int, high: int) -> bool:
    return file.low is None or file.high is None or (file.low >= low and file.high <= high)


def _from_footers(commit: SourceCommit) -> Times:
    rows = sum(file.rows or 0 for file in commit.files)
    lows = [file.low for file in commit.files if file.low is not None]
    highs = [file.high for file in commit.files if file.high is not None]
    nulls = sum(file.nulls or 0 for file in commit.files)
    return Times(rows, min(lows, default=None), max(highs, default=None), nulls, 0)


def _measured(runtime: Runtime, frame: DataFrame) -> ByFile:
    """One pass over the event time, where the footers do not tell: text files, future-dated rows."""
    readable = f"CASE WHEN NOT _bad AND NOT _future AND NOT {TIMELESS} THEN {TIME} END"
    beyond = f"{TIME} IS NULL AND NOT {TIMELESS} AND NOT _bad AND NOT _future"
    measures = {
        "rows": "count(*)",
        "low": f"min({readable})",
        "high": f"max({readable})",
        "nulls": f"count_if({TIMELESS} AND NOT _bad)",
        "future": "count_if(_future)",
        "broken": "count_if(_bad)",
        "beyond": f"count_if({beyond})",
    }
    rows = runtime.aggregated(frame, [SOURCE, FILE], measures).collect()
    return {(row[SOURCE], row[FILE]): Times(**{name: row[name] for name in measures}) for row in rows}


def _from_measure(commit: SourceCommit, by_file: ByFile) -> Times:
    places = [(commit.source, file.url) for file in commit.files]
    found = [by_file[place] for place in places if place in by_file]
    lows = [times.low for times in found if times.low is not None]
    highs = [times.high for times in found if times.high is not None]
    rows = sum(times.rows for times in found)
    return Times(
        rows,
        min(lows, default=None),
        max(highs, default=None),
        nulls=sum(times.nulls for times in found),
        future=sum(times.future for times in found),
        broken=sum(times.broken for times in found),
        beyond=sum(times.beyond for times in found),
    )
