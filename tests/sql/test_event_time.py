"""Event time: the query, the configuration, the source's metadata, processing time; explain says who decided."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_view
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.judging import PROCESSING_TIME
from laminar_dagster.semantics.query import Input, TimeStep
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.types import TIMESTAMP
from tests.sql.configured import explained, query

COLUMNS = "k STRING, a TIMESTAMP, b TIMESTAMP, received_at TIMESTAMP, `@timestamp` TIMESTAMP"
SOURCE = f"CREATE SOURCE ev ({COLUMNS}%s) WITH (connector = 'memory'%s);"
PLAIN = SOURCE % ("", "")
COUNTED = (
    "CREATE MATERIALIZED VIEW out AS SELECT window_start, COUNT(*) AS n FROM %s GROUP BY window_start, window_end;"
)
TUMBLE = COUNTED % "TUMBLE(ev, INTERVAL '1' MINUTE)"
BARE = "CREATE SOURCE ev (k STRING, a TIMESTAMP) WITH (connector = 'memory');"
UNWINDOWED = "CREATE MATERIALIZED VIEW out AS SELECT k, FIRST(k) AS f FROM ev GROUP BY k;"


def first_input(sql: str, toml: str = "") -> Input:
    return query(sql, toml).inputs[0]


def decided(sql: str, toml: str = "") -> tuple[str | None, int | None, TimeStep]:
    entry = first_input(sql, toml)
    column = entry.event_time.name if isinstance(entry.event_time, Column) else None
    return column, entry.source.watermark_lag, entry.time_step


CONFIGURED = """
[defaults]
event_time = "b"
watermark_lag = "3 seconds"
"""
SOURCE_TABLE = "[sources.ev]\nevent_time = 'a'"
VIEW_TABLE = "[views.out]\nevent_time = 'b'\nwatermark_lag = '4 seconds'"


@pytest.mark.parametrize("view", [TUMBLE, UNWINDOWED])
def test_each_step_gives_way_to_the_one_before(view: str) -> None:
    declared = SOURCE % (", WATERMARK FOR a AS a - INTERVAL '1' SECOND", "")
    optional = SOURCE % ("", ", event_time = 'a', watermark_lag = '2 seconds'")
    assert decided(declared + view, CONFIGURED) == ("a", SECOND, TimeStep.QUERY)
    assert decided(optional + view, CONFIGURED) == ("a", 2 * SECOND, TimeStep.QUERY)
    assert decided(PLAIN + view, CONFIGURED + SOURCE_TABLE) == ("a", 3 * SECOND, TimeStep.CONFIGURATION)
    assert decided(PLAIN + view, SOURCE_TABLE + "\n" + VIEW_TABLE) == ("b", 4 * SECOND, TimeStep.CONFIGURATION)
    assert decided(PLAIN + view, CONFIGURED) == ("b", 3 * SECOND, TimeStep.CONFIGURATION)
    assert decided(PLAIN + view) == ("@timestamp", 0, TimeStep.METADATA)
    assert decided(PLAIN.replace(", `@timestamp` TIMESTAMP", "") + view) == ("received_at", 0, TimeStep.METADATA)
    assert decided(BARE + view) == (None, None, TimeStep.PROCESSING_TIME)


def test_metadata_must_be_a_timestamp() -> None:
    source = BARE.replace("a TIMESTAMP", "received_at STRING")
    assert decided(source + TUMBLE) == (None, None, TimeStep.PROCESSING_TIME)
    assert first_input(source + TUMBLE).event_time == PROCESSING_TIME


def test_a_configured_lag_holds_for_metadata_and_for_what_the_query_names() -> None:
    lag = "[sources.ev]\nwatermark_lag = '9 seconds'"
    assert decided(PLAIN + TUMBLE, lag) == ("@timestamp", 9 * SECOND, TimeStep.METADATA)
    named = COUNTED % "TUMBLE(ev, b, INTERVAL '1' MINUTE)"
    assert decided(PLAIN + named, f"{lag}\nevent_time = 'a'") == ("b", 9 * SECOND, TimeStep.QUERY)
    assert first_input(PLAIN + named, f"{lag}\nevent_time = 'a'").source.watermark_column is None
    assert plan_view(query(PLAIN + named, lag)).query.view == "out"


def test_metadata_lends_no_watermark_to_another_column() -> None:
    named = COUNTED % "TUMBLE(ev, b, INTERVAL '1' MINUTE)"
    assert decided(PLAIN + named) == ("b", None, TimeStep.QUERY)
    with pytest.raises(LaminarError, match="LMR0212"):
        plan_view(query(PLAIN + named))


def test_an_event_time_without_a_watermark_is_refused_wherever_it_was_said() -> None:
    for toml in ("[sources.ev]\nevent_time = 'a'", "[views.out]\nevent_time = 'a'", "[defaults]\nevent_time = 'a'"):
        with pytest.raises(LaminarError, match="LMR0212") as refused:
            plan_view(query(PLAIN + TUMBLE, toml))
        table = toml.split("\n")[0]
        assert refused.value.hint == f'Add watermark_lag = "5 seconds" to {table} in laminar.toml, beside event_time.'


@pytest.mark.parametrize("source", [PLAIN, BARE])
def test_windows_over_metadata_and_processing_time_can_wait(source: str) -> None:
    for strategy in ("ON WATERMARK", "ON WINDOW CLOSE", "FINAL", "CHANGES"):
        assert plan_view(query(source + TUMBLE.replace(";", f" EMIT {strategy};"))).query.window is not None


def test_every_window_may_leave_its_time_out() -> None:
    lengths = "INTERVAL '1' MINUTE, INTERVAL '5' MINUTE"
    for window in (f"HOP(ev, {lengths})", f"CUMULATE(ev, {lengths})", "SESSION(ev, INTERVAL '30' SECOND)"):
        assert decided(PLAIN + COUNTED % window)[0] == "@timestamp"
    grouped = "CREATE MATERIALIZED VIEW out AS SELECT TUMBLE_START(INTERVAL '1' MINUTE) AS s, COUNT(*) AS n FROM ev"
    assert decided(f"{PLAIN}{grouped} GROUP BY TUMBLE(INTERVAL '1' MINUTE);")[0] == "@timestamp"
    both = COUNTED % "TUMBLE((SELECT k FROM ev UNION ALL SELECT k FROM other), INTERVAL '1' MINUTE)"
    inputs = query(PLAIN + BARE.replace("ev", "other") + both).inputs
    assert [entry.time_step for entry in inputs] == [TimeStep.METADATA, TimeStep.PROCESSING_TIME]


def test_a_day_of_the_event_time_is_a_window_whoever_named_it() -> None:
    by_day = "CREATE MATERIALIZED VIEW out AS SELECT DATE(%s) AS day, COUNT(*) AS n FROM ev GROUP BY DATE(%s);"
    assert query(PLAIN + by_day.replace("%s", "received_at")).window is None
    assert query(PLAIN + by_day.replace("%s", "`@timestamp`")).window is not None
    assert query(PLAIN + by_day.replace("%s", "a"), "[sources.ev]\nevent_time = 'a'").window is not None
    assert query(PLAIN + by_day.replace("%s", "a"), "[views.out]\nevent_time = 'a'").window is not None


def test_a_view_names_a_column_of_its_from() -> None:
    renamed = COUNTED % "TUMBLE((SELECT k, a AS t FROM ev), INTERVAL '1' MINUTE)"
    assert decided(PLAIN + renamed, "[views.out]\nevent_time = 't'")[0] == "a"


def test_a_view_that_is_read_has_no_metadata() -> None:
    passing = "CREATE MATERIALIZED VIEW up AS SELECT k, received_at FROM ev;"
    reader = COUNTED % "TUMBLE(up, INTERVAL '1' MINUTE)"
    assert decided(PLAIN + passing + reader) == (None, None, TimeStep.PROCESSING_TIME)


KAFKA = "CREATE SOURCE ev (k STRING%s) WITH (connector = 'kafka', brokers = 'b:1', topic = 't', format = 'json');"


def test_a_message_has_a_time_whether_or_not_a_column_asks_for_it() -> None:
    asked = KAFKA % ", sent TIMESTAMP METADATA FROM 'timestamp'"
    assert decided(asked + TUMBLE) == ("sent", 0, TimeStep.METADATA)
    unasked = first_input(KAFKA % "" + TUMBLE)
    assert unasked.event_time == Column("@timestamp", TIMESTAMP)
    assert [field.name for field in unasked.source.columns] == ["k"]
    assert unasked.source.options["metadata.@timestamp"] == "timestamp"
    inside = KAFKA % ", `@timestamp` TIMESTAMP, sent TIMESTAMP METADATA FROM 'timestamp'"
    assert decided(inside + TUMBLE)[0] == "@timestamp"
    assert "metadata.@timestamp" not in first_input(inside + TUMBLE).source.options


@pytest.mark.parametrize(
    ("toml", "source", "shown"),
    [
        ("", SOURCE % (", WATERMARK FOR a", ""), "event time: a, as the SQL says"),
        ("[defaults]\nevent_time = 'b'", PLAIN, "event time: b, as [defaults] in laminar.toml says"),
        (SOURCE_TABLE, PLAIN, "event time: a, as [sources.ev] in laminar.toml says"),
        (VIEW_TABLE, PLAIN, "event time: b, as [views.out] in laminar.toml says"),
        ("", PLAIN, "event time: @timestamp, source metadata, as neither the query nor the configuration names one"),
        ("", BARE, "event time: processing time, as neither the query nor the configuration names one, and the source"),
    ],
)
def test_explain_says_which_step_decided(toml: str, source: str, shown: str) -> None:
    assert shown in explained(source + TUMBLE, toml)
