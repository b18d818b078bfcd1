"""Sets rows aside: malformed, without a time, future-dated, late, or with an expression that has no value.

A row is judged against the watermark before its own commit. Where the commits' bounds show that no row can be
set aside, nothing is checked at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar_dagster.engine.arrival import SOURCE
from laminar_dagster.engine.batch import JSON_OPTIONS, STATED, TIME, Batch
from laminar_dagster.engine.counting import Counting
from laminar_dagster.engine.duplicates import COMMIT, DUPLICATE, with_duplicates
from laminar_dagster.engine.evicting import REASONS, evicting
from laminar_dagster.engine.inline import inline_table
from laminar_dagster.engine.partials import HIDDEN, shares_panes
from laminar_dagster.engine.runtime import Runtime
from laminar_dagster.engine.session_lateness import LATE_SESSION, with_session_lateness
from laminar_dagster.engine.side_output import as_planned, dropped, original_of, side_output_columns, within_limit
from laminar_dagster.engine.sources.commits import MESSAGES
from laminar_dagster.engine.sources.parquet import FILE
from laminar_dagster.engine.sources.text_lines import DETAIL, FAULT
from laminar_dagster.engine.window_sql import first_end_sql, fixed_window, last_end_sql, last_start_sql
from laminar_dagster.engine.writing import write_frame
from laminar_dagster.semantics.judging import DUPLICATE_KEY, FUTURE_TIMESTAMP, NULL_EVENT_TIME, TIME_OUT_OF_RANGE
from laminar_dagster.semantics.query import Query, SideOutput
from laminar_dagster.semantics.quotas import limits_of
from laminar_dagster.semantics.spark_sql import error_sql, first_reason, quoted, value_sql
from laminar_dagster.semantics.types import BIGINT, STRING
from laminar_dagster.semantics.watermark import Progress
from laminar_dagster.semantics.windows import Session, first_window, has_gaps
from state_store import DataFile, PlanRow
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATE = "allowed_lateness_exceeded"
FILTERED, BETWEEN = "_filtered", "_between"
# Of what kind an entry of the side output is, by its reason; NULL where a row is not set aside.
KIND = f"""CASE WHEN _reason IN ('{FILTERED}', '{BETWEEN}') THEN NULL WHEN _reason = '{LATE}' THEN 'late'
                WHEN _reason = '{DUPLICATE_KEY}' THEN 'duplicate' WHEN _reason IN ({REASONS}) THEN 'evicted'
                WHEN _reason IS NOT NULL THEN 'error' END"""
# A range of messages names its partition; everything else is a shard as a whole.
SHARD = f"CASE WHEN {FILE} LIKE '{MESSAGES}%' THEN concat(_source, '/', split_part({FILE}, '/', 2)) ELSE _source END"


@dataclass(frozen=True)
class Judged:
    """The rows that enter windows, those that were judged, and how many of each fate (once the frame has run)."""

    kept: DataFrame
    judged: DataFrame | None
    counting: Counting

    def counts(self) -> dict[str, int]:
        return self.counting.numbers()


def set_aside(
    runtime: Runtime,
    batch: Batch,
    progress: Progress,
    pinned: Sequence[DataFile],
    seen: Sequence[DataFile] = (),
    *,
    evicts: bool = False,
) -> Judged:
    """Judge the epoch's rows; `pinned` are the files of the state before it, `seen` those of the keys remembered.

    `evicts`: the view's limits may be reached.
    """
    query = runtime.plan.query
    assert batch.frame is not None
    can_be_late = _can_be_late(query, batch, progress)
    frame = _with_watermark(runtime, batch, progress) if can_be_late or query.finds_duplicates else batch.frame
    if query.finds_duplicates:
        frame = with_duplicates(runtime, frame, batch.rows, seen)
    if shares_panes(query):
        frame = frame.selectExpr("*", f"{_hidden(runtime, can_be_late)} AS {HIDDEN}")
    if can_be_late and isinstance(query.window, Session):
        without_key = _verdict(query, batch, None, _key_failures(query) if runtime.plan.session_keys else [])
        sound = frame.selectExpr("*", f"{without_key} AS _unsound")
        frame = with_session_lateness(runtime, sound, pinned)
    reason = _reason(query, batch, _late_sql(query) if can_be_late else None)
    ancient = {"pre_epoch_rows": f"count_if({TIME} < 0)"} if any((t.low or 0) < 0 for t in batch.times) else {}
    if reason is None and not evicts:
        where = [] if query.where is None else [f"coalesce({value_sql(query.where)}, false)"]
        return _counted(runtime, frame.filter(" AND ".join(["_kept", *where])), None, {"kept": "count(*)", **ancient})
    judged = frame.selectExpr("*", f"{reason or _verdict(query, batch, None)} AS _reason")
    judged = evicting(runtime, batch, judged, pinned) if evicts else judged
    counts = {
        "rows_in": "count(*)",
        "filtered": f"count_if(_reason = '{FILTERED}')",
        **{kind: f"count_if({KIND} = '{kind}')" for kind in _kinds(query)},
        **({"between_windows": f"count_if(_reason = '{BETWEEN}')"} if has_gaps(query.window) else {}),
        **ancient,
    }
    if can_be_late and shares_panes(query):
        counts["partially_late_rows"] = f"count_if(_reason IS NULL AND {_partially_late(query)})"
    return _counted(runtime, judged, judged, counts)


def _kinds(query: Query) -> tuple[str, ...]:
    possible = {"duplicate": query.finds_duplicates, "evicted": bool(limits_of(query))}
    return ("late", "error", *(kind for kind, can_be in possible.items() if can_be))


def _counted(runtime: Runtime, frame: DataFrame, judged: DataFrame | None, counts: dict[str, str]) -> Judged:
    """Count in passing: the numbers are there when the frame has been written."""
    counting = Counting(runtime.spark, frame, f"fates_{runtime.epoch}", counts)
    kept = counting.frame if judged is None else counting.frame.filter("_reason IS NULL")
    return Judged(kept, judged, counting)


def _partially_late(query: Query) -> str:
    return f"coalesce({first_end_sql(fixed_window(query), TIME)} + {query.lateness} <= _watermark, false)"


def _hidden(runtime: Runtime, can_be_late: bool) -> str:
    """Up to which end a row's windows must not see it: those closed by an earlier commit of this very epoch.

    Windows that were closed before the epoch are never emitted again, and need no such mark.
    """
    query, before = runtime.plan.query, runtime.clocks.watermark
    if not can_be_late:
        return "CAST(NULL AS BIGINT)"
    moved = "true" if before is None else f"_watermark > {before}L"
    return f"CASE WHEN {_partially_late(query)} AND {moved} THEN _watermark - {query.lateness}L END"


def _can_be_late(query: Query, batch: Batch, progress: Progress) -> bool:
    """Whether some commit reaches back into a window that was closed before it."""
    if query.window is None:
        return False
    return any(
        before is not None
        and times.earliest is not None
        and first_window(query.window, times.earliest).end + query.lateness <= before
        for times, before in zip(batch.times, progress.before_commit, strict=True)
    )


def _with_watermark(runtime: Runtime, batch: Batch, progress: Progress) -> DataFrame:
    """Each row with the watermark before its commit, as `_watermark`; and the commit's place, where it matters."""
    assert batch.frame is not None
    in_order = runtime.plan.query.finds_duplicates
    told = [
        (commit.source, file.url, before, place if in_order else 0)
        for place, (commit, before) in enumerate(zip(batch.commits, progress.before_commit, strict=True))
        for file in commit.files
    ]
    values = {(before, place) for *_, before, place in told}
    if len(values) == 1:
        before, place = values.pop()
        return batch.frame.selectExpr("*", f"{_bigint(before)} AS _watermark", f"{place}L AS {COMMIT}")
    columns = {SOURCE: STRING, FILE: STRING, "_watermark": BIGINT, COMMIT: BIGINT}
    return batch.frame.join(inline_table(runtime.spark, columns, told), [SOURCE, FILE])


def _late_sql(query: Query) -> str:
    """Whether no window of a row can take it any more."""
    if isinstance(query.window, Session):
        return LATE_SESSION
    return f"{last_end_sql(fixed_window(query), TIME)} + {query.lateness} <= _watermark"


def _reason(query: Query, batch: Batch, late: str | None) -> str | None:
    """Why a row is set aside (NULL: it is not), or None where the bounds show that none can be."""
    sound = batch.spotless and not batch.can_fail and not _failures(query) and not _where_can_fail(query)
    sound = sound and not query.finds_duplicates and not has_gaps(query.window)
    return None if sound and late is None else _verdict(query, batch, late)


def _verdict(query: Query, batch: Batch, late: str | None, failures: list[str] | None = None) -> str:
    """Why a row is set aside, in the order that docs/reference/semantics.md gives."""
    tests: list[str] = []
    if query.finds_duplicates:
        tests.append(f"CASE WHEN {DUPLICATE} THEN '{DUPLICATE_KEY}' END")
    if batch.can_fail:
        tests.append("_error")
    tests.append(f"CASE WHEN NOT _kept THEN '{FILTERED}' END")
    if query.where is not None:
        own = error_sql(query.where)
        tests += [own] if own else []
        tests.append(f"CASE WHEN NOT coalesce({value_sql(query.where)}, false) THEN '{FILTERED}' END")
    if has_gaps(query.window):
        tests.append(f"CASE WHEN {last_end_sql(fixed_window(query), TIME)} <= {TIME} THEN '{BETWEEN}' END")
    if late is not None:
        tests.append(f"CASE WHEN {late} THEN '{LATE}' END")
    tests += _failures(query) if failures is None else failures
    return f"""CASE WHEN _bad THEN {FAULT} WHEN {STATED} IS NULL THEN '{NULL_EVENT_TIME}'
                    WHEN _future THEN '{FUTURE_TIMESTAMP}' WHEN {TIME} IS NULL THEN '{TIME_OUT_OF_RANGE}'
                    ELSE {first_reason(tests)} END"""


def _where_can_fail(query: Query) -> bool:
    return query.where is not None and error_sql(query.where) is not None


def _key_failures(query: Query) -> list[str]:
    return [reason for key in query.keys if (reason := error_sql(key.expression))]


def _failures(query: Query) -> list[str]:
    """How a key, an aggregate's argument or its filter can fail; of a row that passes through, what is selected."""
    found: list[str | None] = [*_key_failures(query)]
    if query.passes_rows:
        found += [error_sql(named.expression) for named in query.output]
    for call in query.aggregates:
        guard = None if call.filter is None else value_sql(call.filter)
        found.append(None if call.filter is None else error_sql(call.filter))
        own = first_reason([reason for argument in call.arguments if (reason := error_sql(argument))])
        found.append(own if own is None or guard is None else f"CASE WHEN {guard} THEN {own} END")
    return [reason for reason in found if reason is not None]


def write_side_output(
    runtime: Runtime, judged: Judged, planned: PlanRow, counts: Mapping[str, int], watermark: int | None
) -> list[DataFile]:
    """The rows set aside, as files of the side output; a job that runs only when there are any."""
    query, side = runtime.plan.query, as_planned(runtime.plan.query.side_output, planned)
    kinds = [kind for kind in _kinds(query) if counts.get(kind) and side.keeps(kind)]
    if judged.judged is None or not kinds:
        return []
    wanted = ", ".join(f"'{kind}'" for kind in kinds)
    chosen = judged.judged.selectExpr("*", f"{KIND} AS _kind").filter(f"_kind IN ({wanted})")
    if side.max_rows is not None and dropped(side, counts):
        chosen = within_limit(chosen, side.max_rows)
    before = _bigint(watermark)
    if "_watermark" in chosen.columns:
        before = f"coalesce(_watermark, {before})"
    entries = chosen.selectExpr(*_entry_columns(runtime, side, planned.processing_time, before))
    return write_frame(runtime, f.SIDE_OUTPUT, entries, rows=sum(counts[kind] for kind in kinds))


def _entry_columns(runtime: Runtime, side: SideOutput, now: int, watermark: str) -> list[str]:
    query = runtime.plan.query
    keys = ", ".join(f"{value_sql(key.expression)} AS {quoted(key.name)}" for key in query.keys)
    start, end = (f"timestamp_micros({bound})" for bound in _window_of_row(query))
    return side_output_columns(
        runtime,
        kind="_kind",
        reason="_reason",
        event_time=f"timestamp_micros({STATED})",
        processing_time=f"timestamp_micros({now})",
        watermark=f"timestamp_micros({watermark})",
        window_start=f"CASE WHEN NOT _bad THEN {start} END",
        window_end=f"CASE WHEN NOT _bad THEN {end} END",
        group_key=f"CASE WHEN NOT _bad THEN to_json(struct({keys}), {JSON_OPTIONS}) END" if keys else None,
        original_event=original_of(side),
        error_detail=DETAIL,
        shard=SHARD,
        source="_source",
        source_file=FILE,
    )


def _bigint(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"{value}L"


def _window_of_row(query: Query) -> tuple[str, str]:
    """The bounds that an entry shows: of the last window to close of those the row is in."""
    if query.window is None:
        return "CAST(NULL AS BIGINT)", "CAST(NULL AS BIGINT)"
    if isinstance(query.window, Session):
        return TIME, f"({TIME} + {query.window.gap}L)"
    return last_start_sql(fixed_window(query), TIME), last_end_sql(fixed_window(query), TIME)
