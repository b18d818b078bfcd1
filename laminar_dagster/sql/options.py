"""The options of sources, views and sinks, as tables: what each is called, what it may say, and who takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from zoneinfo import available_timezones

from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.semantics.emit import SINKS
from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS
from laminar_dagster.semantics.sinks import DROP, FAIL, WAIT
from laminar_dagster.semantics.time import MINUTE
from laminar_dagster.sql.clauses import OptionValue
from laminar_dagster.sql.intervals import IntervalText, fixed
from laminar_dagster.sql.local_paths import require_local

Reader = Callable[[str, OptionValue], Any]


@dataclass(frozen=True)
class Option:
    """`default`: whether a project may say it for all. `needs`: the clause without which it means nothing."""

    name: str
    read: Reader
    summary: str
    required: bool = False
    only_for: str | None = None
    default: bool = False
    needs: str | None = None


# What a number may count since 1970, and the function that makes a time of it.
TIME_UNITS = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}
_UNIT_WORDS = {"s": "sec", "ms": "mil", "us": "mic"}


# --- what a value may be -------------------------------------------------------------------------------------


def _bad(name: str, option: OptionValue, expected: str, hint: str | None = None) -> LaminarError:
    return LaminarError(
        "LMR0303", f'option "{name}" must be {expected}, not "{option.value}"', where=option.where, hint=hint
    )


def text(name: str, option: OptionValue) -> str:
    if not option.value.strip():
        raise _bad(name, option, "some text")
    return option.value


def path(name: str, option: OptionValue) -> str:
    require_local(f'option "{name}"', option.value, option.where)
    return text(name, option)


def character(name: str, option: OptionValue) -> str:
    if option.value != "\\t" and (len(option.value) != 1 or option.value in "\r\n"):
        raise _bad(name, option, "one character", "A tab is written '\\t'.")
    return option.value


def duration(name: str, option: OptionValue) -> int:
    written = IntervalText(option.value, None, option.where, in_option=True)
    length = fixed(written, f'option "{name}"', "LMR0303")
    if length < 0:
        raise _bad(name, option, "a length of time that is not negative", "Write it as in '10 seconds'.")
    return length


def positive_duration(name: str, option: OptionValue) -> int:
    length = duration(name, option)
    if length == 0:
        raise _bad(name, option, "a length of time longer than zero", "Write it as in '10 seconds'.")
    return length


def freshness(name: str, option: OptionValue) -> str:
    """As it is written: only Dagster, which shows it, needs the length. It looks once a minute."""
    if positive_duration(name, option) < MINUTE:
        raise _bad(name, option, "a minute or longer", "Write it as in '10 minutes'.")
    return option.value


def duration_or_none(name: str, option: OptionValue) -> int | None:
    return None if option.value.lower() == "none" else duration(name, option)


def count(name: str, option: OptionValue) -> int:
    if not option.value.isdigit() or int(option.value) < 1:
        raise _bad(name, option, "a whole number greater than zero")
    return int(option.value)


def flag(name: str, option: OptionValue) -> str:
    if option.value.lower() not in ("true", "false"):
        raise _bad(name, option, "true or false")
    return option.value.lower()


def one_of(*choices: str) -> Reader:
    def read(name: str, option: OptionValue) -> str:
        value = option.value.lower()
        if value not in choices:
            raise _bad(name, option, f"one of {', '.join(choices)}", did_you_mean(value, choices))
        return value

    return read


def time_unit(name: str, option: OptionValue) -> str:
    """A TIMESTAMP holds microseconds: what counts something shorter has to say what becomes of the rest."""
    value = option.value.lower()
    if value in TIME_UNITS:
        return value
    own = next((unit for unit, word in _UNIT_WORDS.items() if value.startswith(word)), None)
    if own is not None:
        hint = f"Write '{own}'."
    elif value.startswith("n"):
        hint = "Compute a column instead: t AS timestamp_micros(CAST(floor(ts / 1000) AS BIGINT))."
    else:
        hint = "A number counts seconds, milliseconds or microseconds since 1970 UTC."
    raise _bad(name, option, f"one of {', '.join(TIME_UNITS)}", hint)


def day(name: str, option: OptionValue) -> str:
    try:
        return date.fromisoformat(option.value).isoformat()
    except ValueError:
        raise _bad(name, option, "a day", "Write it as in '2026-01-31'.") from None


def zone(name: str, option: OptionValue) -> str:
    if option.value not in available_timezones():
        hint = did_you_mean(option.value, available_timezones(), "Zones are named as in 'Europe/Berlin'.")
        raise _bad(name, option, "a time zone", hint)
    return option.value


ROUTES = ("table", "metrics_only", "reinject", "kafka:topic")


def route(name: str, option: OptionValue) -> str:
    value = option.value
    if value.lower() in ROUTES[:3]:
        return value.lower()
    if value.lower().startswith("kafka:") and len(value) > len("kafka:"):
        return value
    raise _bad(name, option, f"one of {', '.join(ROUTES)}", did_you_mean(value, ROUTES))


# --- sources -------------------------------------------------------------------------------------------------

TIME_OPTIONS = (
    Option(
        "idle_timeout",
        duration,
        "processing time without rows after which the source no longer holds time back",
        default=True,
    ),
    Option(
        "max_future_skew", duration_or_none, "how far ahead of processing time a row may be, or 'none'", default=True
    ),
    Option("watermark_lag", duration, "the watermark's lag, in place of WATERMARK FOR", default=True),
    Option("event_time", text, "the event-time column, in place of WATERMARK FOR", default=True),
    Option("event_time_unit", time_unit, "what an event time that is a number counts since 1970", default=True),
)
COMMON_SOURCE_OPTIONS = (
    Option("connector", text, "where the rows come from"),
    *TIME_OPTIONS,
    Option("unique_key", text, "the columns by which no two rows are alike, as in 'sale_id'"),
    Option("unique_within", positive_duration, "how long, in event time, a key is remembered"),
)
_CHANGES = Option("changes", one_of("append", "cdf"), "'cdf' reads the change data feed, with retractions")
_CLIENT = Option("properties", path, "a file with settings of Kafka's client, such as security")
CONNECTORS: Mapping[str, tuple[Option, ...]] = {
    "delta": (
        Option("path", path, "the Delta table's directory", required=True),
        Option("on_rewrite", one_of("fail", "ignore"), "what a version that deletes or rewrites rows does to the run"),
        _CHANGES,
    ),
    "files": (
        Option("path", path, "the directory that files arrive in", required=True),
        Option("format", one_of("json", "csv", "parquet"), "what the files hold", required=True),
        Option("header", flag, "CSV: whether the first line names the columns", only_for="csv"),
        Option("delimiter", character, "CSV: what stands between two values", only_for="csv"),
        Option("quote", character, "CSV: what a value is quoted with", only_for="csv"),
        Option("null_value", text, "CSV: the text that means NULL", only_for="csv"),
        Option("pattern", text, "which file names to take, as in '*.json'"),
        Option("order", one_of("modified", "name"), "which of the new files comes first"),
    ),
    "kafka": (
        Option("brokers", text, "the brokers, as in 'host:9092'", required=True),
        Option("topic", text, "the topic", required=True),
        Option("format", one_of("json", "text"), "what a message holds", required=True),
        Option("starting", one_of("earliest", "latest"), "where a view begins; earliest is the default"),
        Option(
            "on_data_loss", one_of("fail", "skip"), "what messages that expired before they were read do to the run"
        ),
        _CLIENT,
    ),
    "memory": (_CHANGES,),
}

# --- views ---------------------------------------------------------------------------------------------------

LIMITS = ("max_groups_per_window", "max_windows_per_group", "max_state_rows")
LABELS = ("owners", "tags", "group", "description", "partition_start", "freshness")
SHARED_LABELS = ("owners", "tags", "group")
VIEW_OPTIONS = (
    Option("sink", one_of(*SINKS), "what the table of results is: append, upsert or changelog"),
    Option("partition", one_of("hour", "day", "week", "month"), "the width of the results' partitions", default=True),
    Option(
        "partition_time_zone", zone, "whose days, weeks and months the partitions are, as 'Europe/Berlin'", default=True
    ),
    Option(
        "allowed_lateness",
        duration,
        "how long after its end a window takes rows, as ALLOW LATENESS",
        default=True,
        needs="window",
    ),
    *(
        Option(f"side_output.{kind}", route, f"where rows of kind {kind} go: {', '.join(ROUTES)}", default=True)
        for kind in SIDE_OUTPUT_KINDS
    ),
    *(
        Option(f"side_output.{kind}.include_original", flag, f"whether {kind} rows are kept as they came", default=True)
        for kind in SIDE_OUTPUT_KINDS
    ),
    Option("side_output.max_rows_per_epoch", count, "how many rows of each kind an epoch keeps", default=True),
    Option("side_output.brokers", text, "the brokers of 'kafka:topic'; by default those of a source", default=True),
    Option("side_output.properties", path, "a file with settings of Kafka's client, for 'kafka:topic'", default=True),
    Option(
        "side_output.on_saturation",
        one_of(DROP, WAIT, FAIL),
        "what becomes of rows that a route does not take: drop (they stay in the table), wait or fail",
        default=True,
    ),
    Option("side_output.route_max_rows", count, "how many rows of an epoch a route takes", default=True),
    Option("side_output.route_max_bytes", count, "how many bytes of an epoch a route takes", default=True),
    Option("side_output.route_timeout", positive_duration, "how long a route may take for an epoch", default=True),
    Option("side_output.reinject_to", path, "the directory that 'reinject' writes JSON lines to", default=True),
    Option(
        "on_null_event_time",
        one_of("side_output", "fallback"),
        "what happens to a row without an event time",
        default=True,
    ),
    Option("max_groups_per_window", count, "how many groups a window may have", default=True, needs="window"),
    Option("max_windows_per_group", count, "how many open windows a group may have", default=True, needs="window"),
    Option("max_state_rows", count, "how many rows the state may have", default=True),
    Option(
        "max_gap",
        duration,
        "GAP FILL: the longest stretch without rows that is filled",
        default=True,
        needs="gap_fill",
    ),
    Option(
        "unbounded_state",
        one_of("allow", "warn", "refuse"),
        "what happens to a view whose state nothing bounds",
        default=True,
    ),
    *(Option(label, text, "shown in Dagster", default=label in SHARED_LABELS) for label in LABELS[:4]),
    Option("partition_start", day, "the day at which Dagster's partitions begin", default=True),
    Option("freshness", freshness, "how old the last tick may be before Dagster says so", default=True),
)

# --- sinks ---------------------------------------------------------------------------------------------------

_KEY = Option("key", text, "the columns that tell results apart, as in 'window_start, region'")
SINK_CONNECTORS: Mapping[str, tuple[Option, ...]] = {
    "files": (
        Option("path", path, "the directory that gets one file for each epoch with changes", required=True),
        Option("format", one_of("parquet", "json", "debezium"), "what the files hold", required=True),
        Option("mode", one_of("append", "changelog"), "new rows alone (the default), or every change (of Debezium)"),
    ),
    "delta": (
        Option("path", path, "the Delta table's directory", required=True),
        Option(
            "mode",
            one_of("append", "upsert", "changelog"),
            "what the table holds: new rows, the newest row of each key, or every change",
            required=True,
        ),
        _KEY,
    ),
    "kafka": (
        Option("brokers", text, "the brokers, as in 'host:9092'", required=True),
        Option("topic", text, "the topic", required=True),
        Option("format", one_of("json", "debezium"), "what a message holds; json is the default"),
        Option(
            "mode",
            one_of("append", "upsert", "changelog"),
            "JSON: new rows alone (the default), the newest row of each key, or every change (the default of Debezium)",
        ),
        _CLIENT,
        _KEY,
    ),
}
SINK_CONNECTOR = Option("connector", text, "where the changes go")


def read(options: Mapping[str, OptionValue], known: Iterable[Option], owner: str) -> dict[str, Any]:
    """The options' values by name; an unknown name or a bad value is refused."""
    by_name = {option.name: option for option in known}
    values: dict[str, Any] = {}
    for name, given in options.items():
        if name not in by_name:
            raise LaminarError(
                "LMR0301", f'unknown option "{name}" for {owner}', where=given.name_where,
                detail=given.table and f"in {given.table}", hint=did_you_mean(name, by_name),
            )  # fmt: skip
        values[name] = _value(by_name[name], given)
    return values


def _value(option: Option, given: OptionValue) -> Any:
    try:
        return option.read(option.name, given)
    except LaminarError as problem:
        if given.table is None:
            raise
        raise LaminarError(
            problem.code, problem.problem, where=problem.where, hint=problem.hint,
            detail=f'"{option.name}" of {given.table}: {option.summary}',
        ) from None  # fmt: skip
