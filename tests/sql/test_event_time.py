"""Event time: the query, the configuration, the source's metadata, processing time; explain says who decided."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_view
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.expressions import Call, Column
from laminar_dagster.semantics.query import PROCESSING_TIME, Input, TimeStep
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.types import BIGINT, TIMESTAMP
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


def test_what_a_view_says_goes_before_what_its_source_declares() -> None:
    declared = SOURCE % (", WATERMARK FOR a AS a - INTERVAL '1' SECOND", "")
    options = TUMBLE.replace(";", " WITH (event_time = 'b', watermark_lag = '6 seconds');")
    clause = TUMBLE.replace("GROUP BY", "WATERMARK(b, INTERVAL '7' SECOND) GROUP BY")
    assert decided(declared + TUMBLE, VIEW_TABLE) == ("b", 4 * SECOND, TimeStep.CONFIGURATION)
    assert decided(declared + options, VIEW_TABLE) == ("b", 6 * SECOND, TimeStep.QUERY)
    assert decided(declared + clause, VIEW_TABLE) == ("b", 7 * SECOND, TimeStep.QUERY)
    assert decided(declared + TUMBLE.replace(";", " WATERMARK(b);")) == ("b", 0, TimeStep.QUERY)


def test_a_lag_that_the_view_says_holds_for_what_its_window_names() -> None:
    declared = SOURCE % (", WATERMARK FOR a AS a - INTERVAL '1' SECOND", "")
    named = COUNTED % "TUMBLE(ev, b, INTERVAL '1' MINUTE)"
    with pytest.raises(LaminarError, match="LMR0212"):
        plan_view(query(declared + named))
    for toml, view in (
        ("[views.out]\nwatermark_lag = '5 seconds'", named),
        ("", named.replace(";", " WITH (watermark_lag = '5 seconds');")),
    ):
        assert decided(declared + view, toml) == ("b", 5 * SECOND, TimeStep.QUERY)
        assert plan_view(query(declared + view, toml)).query.window is not None


def test_the_lag_of_a_source_is_not_lent_to_another_column_that_the_view_names() -> None:
    declared = SOURCE % (", WATERMARK FOR a AS a - INTERVAL '1' SECOND", "")
    with pytest.raises(LaminarError, match="LMR0212"):
        plan_view(query(declared + TUMBLE.replace(";", " WITH (event_time = 'b');")))


def test_a_window_over_another_time_than_the_watermark_of_the_query_is_refused() -> None:
    named = COUNTED % "TUMBLE(ev, a, INTERVAL '1' MINUTE)"
    with pytest.raises(LaminarError, match='Its watermark is for "b"'):
        plan_view(query(PLAIN + named.replace(";", " WATERMARK(b, INTERVAL '1' SECOND);")))


NUMBER = "CREATE SOURCE ev (k STRING, ts BIGINT%s) WITH (connector = 'memory'%s);"
MILLIS = Call("timestamp_millis", (Column("ts", BIGINT),), TIMESTAMP)
NUMBERED = COUNTED % "TUMBLE(ev, %s, INTERVAL '1' MINUTE)"


@pytest.mark.parametrize(
    "source",
    [
        NUMBER % (", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND", ", event_time_unit = 'ms'"),
        NUMBER % ("", ", event_time = 'ts', watermark_lag = '1 second', event_time_unit = 'ms'"),
        NUMBER % (", WATERMARK FOR timestamp_millis(ts) AS timestamp_millis(ts) - INTERVAL '1' SECOND", ""),
        NUMBER % (", at AS timestamp_millis(ts), WATERMARK FOR at AS at - INTERVAL '1' SECOND", ""),
        NUMBER % (", at TIMESTAMP AS timestamp_millis(ts), WATERMARK FOR AT AS at - INTERVAL '1' SECOND", ""),
    ],
)
def test_a_number_is_an_event_time_by_what_it_counts(source: str) -> None:
    for time in ("", "ts", "timestamp_millis(ts)"):
        view = (NUMBERED % time).replace("ev, ,", "ev,")
        entry = plan_view(query(source + view)).query.inputs[0]
        assert (entry.event_time, entry.source.event_time, entry.source.watermark_lag) == (MILLIS, MILLIS, SECOND)
    other = "CREATE SOURCE other (k STRING, t TIMESTAMP, WATERMARK FOR t) WITH (connector = 'memory');"
    both = (
        COUNTED
        % "TUMBLE((SELECT timestamp_millis(ts) AS t FROM ev UNION ALL SELECT t FROM other), INTERVAL '1' MINUTE)"
    )
    assert [entry.event_time for entry in query(source + other + both).inputs] == [MILLIS, Column("t", TIMESTAMP)]


def test_the_unit_may_be_the_views_own() -> None:
    view = (NUMBERED % "ts").replace(
        ";", " WITH (event_time = 'ts', event_time_unit = 'ms', watermark_lag = '0 seconds');"
    )
    assert plan_view(query(NUMBER % ("", "") + view)).query.inputs[0].event_time == MILLIS
    toml = "[views.out]\nevent_time = 'ts'\nevent_time_unit = 'ms'\nwatermark_lag = '0 seconds'"
    assert plan_view(query(NUMBER % ("", "") + NUMBERED % "ts", toml)).query.inputs[0].event_time == MILLIS


def test_the_same_number_under_another_unit_is_another_time() -> None:
    source = NUMBER % (", WATERMARK FOR timestamp_millis(ts)", "")
    with pytest.raises(LaminarError, match="LMR0212"):
        plan_view(query(source + NUMBERED % "timestamp_seconds(ts)"))


def test_what_only_a_declaration_computes_is_not_computed_in_vain() -> None:
    source = NUMBER % (", at AS timestamp_millis(ts), double AS ts * 2, WATERMARK FOR at", "")
    columns = [named.name for named in plan_view(query(source + NUMBERED % "at")).query.inputs[0].columns]
    assert columns == ["k", "ts"]


WINDOWED = "CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS n FROM ev %s GROUP BY k%s;"


@pytest.mark.parametrize(
    ("clause", "function"),
    [
        ("TUMBLING (SIZE INTERVAL '1' MINUTE)", "TUMBLE(ev, a, INTERVAL '1' MINUTE)"),
        ("TUMBLING (INTERVAL '1' MINUTE)", "TUMBLE(ev, a, INTERVAL '1' MINUTE)"),
        ("TUMBLE (1 MINUTE, OFFSET 5 SECONDS)", "TUMBLE(ev, a, INTERVAL '1' MINUTE, INTERVAL '5' SECOND)"),
        ("HOPPING (SIZE 1 HOUR, SLIDE 5 MINUTES)", "HOP(ev, a, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)"),
        ("HOPPING (ADVANCE BY 5 MINUTES, SIZE 1 HOUR)", "HOP(ev, a, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)"),
        ("CUMULATING (STEP 1 MINUTE, SIZE 1 HOUR)", "CUMULATE(ev, a, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)"),
        ("SESSION (GAP INTERVAL '30 seconds')", "SESSION(ev, a, INTERVAL '30' SECOND)"),
        ("SESSION (30 SECONDS)", "SESSION(ev, a, INTERVAL '30' SECOND)"),
    ],
)
def test_a_window_clause_is_a_window_of_from(clause: str, function: str) -> None:
    source = SOURCE % (", WATERMARK FOR a", "")
    in_from = query(source + (WINDOWED % ("", ", window_start, window_end")).replace("FROM ev", f"FROM {function}"))
    for written in (
        WINDOWED % (f"WINDOW {clause} ON a", ""),
        WINDOWED % ("", f" EMIT ON WATERMARK WINDOW {clause} ON a"),
        WINDOWED % (f"WINDOW {clause}", ", window_start, window_end"),
        WINDOWED % (f"WINDOW {clause} ON a WATERMARK(a)", ""),
    ):
        found = query(source + written)
        assert (found.window, found.keys, found.output) == (in_from.window, in_from.keys, in_from.output)
        assert found.inputs[0].event_time == in_from.inputs[0].event_time
        assert fingerprint(plan_view(found)) == fingerprint(plan_view(in_from))


def test_a_window_clause_needs_no_group_by() -> None:
    source = SOURCE % (", WATERMARK FOR a", "")
    minute = "WINDOW TUMBLING (SIZE 1 MINUTE) ON a"
    counted = query(f"{source}CREATE STREAM out AS SELECT window_start, COUNT(*) AS n FROM ev {minute};")
    assert (counted.is_grouped, counted.keys) == (True, ())
    rows = query(f"{source}CREATE STREAM out AS SELECT window_start, k FROM ev {minute} WHERE k > 'a';")
    assert (rows.is_grouped, rows.where is not None) == (False, True)


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


# --- what is written means what it says --------------------------------------------------------------------------


def test_a_window_over_a_timestamp_is_never_moved_to_another_time() -> None:
    for expression in ("a + INTERVAL '1' HOUR", "date_trunc('hour', a)"):
        source = SOURCE % (f", WATERMARK FOR {expression}", "")
        named = COUNTED % "TUMBLE(ev, a, INTERVAL '1' MINUTE)"
        assert first_input(source + named).event_time == Column("a", TIMESTAMP)
        with pytest.raises(LaminarError, match="LMR0212"):
            plan_view(query(source + named))


def test_a_number_that_a_source_computes_is_a_time_by_its_unit_too() -> None:
    source = NUMBER % (", b2 AS ts + 1, WATERMARK FOR b2", ", event_time_unit = 'ms'")
    entry = plan_view(query(source + NUMBERED % "b2")).query.inputs[0]
    assert entry.event_time == entry.source.event_time


def test_computed_columns_are_times_for_the_configuration_and_as_metadata() -> None:
    source = NUMBER % (", at AS timestamp_millis(ts)", "")
    lag = "watermark_lag = '1 second'"
    assert first_input(source + TUMBLE, f"[defaults]\nevent_time = 'at'\n{lag}").event_time == MILLIS
    assert first_input(NUMBER % (", received_at AS timestamp_millis(ts)", "") + TUMBLE).event_time == MILLIS


def test_a_unit_belongs_to_the_event_time_beside_it() -> None:
    numbers = "event_time = 'ts'\nevent_time_unit = 'ms'"
    source = "CREATE SOURCE ev (k STRING, ts BIGINT, a TIMESTAMP%s) WITH (connector = 'memory');"
    assert decided(source % ", WATERMARK FOR a" + TUMBLE, f"[sources.ev]\n{numbers}")[0] == "a"
    view = TUMBLE.replace(";", " WITH (event_time = 'a', watermark_lag = '1 second');")
    assert decided(source % "" + view, f"[views.out]\n{numbers}")[0] == "a"


@pytest.mark.parametrize(
    "options", ["event_time = 'a', watermark_lag = '1 second'", "watermark_lag = '1 second'", "event_time = 'b'"]
)
def test_a_query_with_two_words_on_its_time_is_refused(options: str) -> None:
    clause = TUMBLE.replace(";", f" WATERMARK(b) WITH ({options});")
    with pytest.raises(LaminarError, match="LMR0305"):
        query(PLAIN + clause)


def test_a_window_and_an_option_that_name_two_times_are_refused() -> None:
    view = (COUNTED % "TUMBLE(ev, a, INTERVAL '1' MINUTE)").replace(
        ";", " WITH (event_time = 'b', watermark_lag = '1 second');"
    )
    with pytest.raises(LaminarError, match="two different times"):
        query(PLAIN + view)


@pytest.mark.parametrize(
    "text",
    [
        "FROM ev GROUP BY k WINDOW TUMBLING (SIZE 1 MINUTE) ON a, received_at",
        "FROM ev WHERE k > 'a' WATERMARK(b) AND k > 'b' GROUP BY k",
        "FROM ev GROUP BY WATERMARK(b) k",
        "FROM ev WATERMARK(a) AS x GROUP BY k",
        "FROM ev GROUP BY k EMIT EVERY INTERVAL WATERMARK(b) '5' SECOND",
        "WATERMARK(b) FROM ev GROUP BY k",
        "FROM (SELECT * FROM ev WINDOW TUMBLING (SIZE 1 MINUTE) ON a) GROUP BY k",
        "FROM (SELECT * FROM ev WATERMARK(a)) GROUP BY k",
        "FROM ev GROUP BY k EMIT ON WATERMARK(b)",
        "FROM ev GROUP BY k EMIT ON WINDOW TUMBLING (SIZE 1 MINUTE) CLOSE",
        "FROM ev WINDOW TUMBLING (SIZE 99999999999999 DAY) ON a",
    ],
)
def test_a_clause_that_is_cut_into_another_is_refused(text: str) -> None:
    with pytest.raises(LaminarError) as refused:
        query(f"{PLAIN}CREATE STREAM out AS SELECT k, COUNT(*) AS n {text};")
    assert refused.value.where is not None


def test_columns_may_be_called_as_the_words_of_these_clauses() -> None:
    columns = "window STRING, late TIMESTAMP, emit TIMESTAMP, WATERMARK FOR late"
    source = f"CREATE SOURCE ev ({columns}) WITH (connector = 'memory');"
    passing = "CREATE STREAM out AS SELECT window FROM ev WHERE window IN ('x') AND 'x' = window AND (window > 'a');"
    assert query(source + passing).where is not None
    for column in ("late", "emit"):
        view = f"CREATE STREAM out AS SELECT COUNT(*) AS n FROM ev WINDOW TUMBLING (1 MINUTE) ON {column} EMIT CHANGES;"
        assert first_input(source + view).event_time == Column(column, TIMESTAMP)


@pytest.mark.parametrize(
    "declared",
    ["(a) AS a - INTERVAL '1' SECOND", "a AS (a - INTERVAL '1' SECOND)", "A AS (a) - INTERVAL '1' SECOND"],
)
def test_parentheses_change_nothing_in_a_watermark(declared: str) -> None:
    assert decided(SOURCE % (f", WATERMARK FOR {declared}", "") + TUMBLE) == ("a", SECOND, TimeStep.QUERY)


LAG = ", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"


@pytest.mark.parametrize(
    "toml",
    [
        "[sources.ev]\nevent_time_unit = 'ms'",
        "[sources.ev]\nevent_time = 'TS'\nevent_time_unit = 'ms'",
        "[defaults]\nevent_time_unit = 'ms'",
        "[transforms.sql]\nevent_time_unit = 'ms'",
        "[defaults]\nevent_time_unit = 's'\n[sources.ev]\nevent_time_unit = 'ms'",
    ],
)
def test_the_configuration_says_what_the_number_of_a_watermark_counts(toml: str) -> None:
    assert plan_view(query(NUMBER % (LAG, "") + NUMBERED % "ts", toml)).query.inputs[0].source.event_time == MILLIS


def test_a_default_unit_is_for_numbers_alone() -> None:
    unit = "[defaults]\nevent_time_unit = 'ms'\n"
    assert decided(SOURCE % (", WATERMARK FOR a", "") + TUMBLE, unit)[0] == "a"
    assert query(PLAIN + COUNTED % "TUMBLE(ev, a, INTERVAL '1' MINUTE)", unit).inputs[0].source.event_time is None
    named = unit + "event_time = 'ts'\nwatermark_lag = '1 second'"
    assert plan_view(query(NUMBER % ("", "") + NUMBERED % "ts", named)).query.inputs[0].event_time == MILLIS
    table = unit + "[views.out]\nevent_time = 'ts'\nwatermark_lag = '1 second'"
    assert plan_view(query(NUMBER % ("", "") + NUMBERED % "ts", table)).query.inputs[0].event_time == MILLIS
    assert decided(PLAIN + TUMBLE, unit + "[views.out]\nevent_time = 'a'\nwatermark_lag = '1 second'")[0] == "a"


def test_a_unit_that_a_source_says_of_a_timestamp_is_refused() -> None:
    with pytest.raises(LaminarError, match="LMR0205") as caught:
        query(SOURCE % (", WATERMARK FOR a", "") + TUMBLE, "[sources.ev]\nevent_time_unit = 'ms'")
    assert caught.value.hint == "Leave event_time_unit out."


def test_a_unit_of_a_view_without_its_event_time_is_refused_for_what_it_is() -> None:
    with pytest.raises(LaminarError, match="no event time is named beside it") as caught:
        query(NUMBER % (LAG, "") + NUMBERED % "ts", "[views.out]\nevent_time_unit = 'ms'")
    assert "[sources.NAME]" in str(caught.value.hint)


@pytest.mark.parametrize("unit", ["ns", "nanoseconds"])
def test_a_unit_that_no_timestamp_holds_says_how_it_becomes_one(unit: str) -> None:
    with pytest.raises(LaminarError, match="LMR0303") as caught:
        query(NUMBER % (LAG, f", event_time_unit = '{unit}'") + NUMBERED % "ts")
    assert "timestamp_micros(CAST(floor(ts / 1000) AS BIGINT))" in str(caught.value.hint)
    computed = NUMBER % (", at AS timestamp_micros(CAST(floor(ts / 1000) AS BIGINT)), WATERMARK FOR at", "")
    assert plan_view(query(computed + NUMBERED % "at"))


@pytest.mark.parametrize(("written", "unit"), [("millis", "ms"), ("Seconds", "s"), ("microseconds", "us")])
def test_a_unit_by_another_name_is_told_its_own(written: str, unit: str) -> None:
    with pytest.raises(LaminarError, match="LMR0303") as caught:
        query(NUMBER % (LAG, f", event_time_unit = '{written}'") + NUMBERED % "ts")
    assert caught.value.hint == f"Write '{unit}'."


@pytest.mark.parametrize(
    "key",
    ["DATE(ts)", "CAST(ts AS DATE)", "date_trunc('hour', ts)", "date_trunc('month', ts)", "date_trunc('week', ts)"],
)
def test_a_number_that_is_the_event_time_is_a_time_for_windows_by_the_calendar(key: str) -> None:
    source = NUMBER % (LAG, ", event_time_unit = 'ms'")
    view = f"CREATE MATERIALIZED VIEW out AS SELECT {key} AS d, COUNT(*) AS n FROM ev GROUP BY %s EMIT ON WINDOW CLOSE;"
    spelled = key.replace("ts", "timestamp_millis(ts)", 1)
    expected = query(source + view.replace(key, spelled) % spelled)
    assert expected.window is not None
    for group in (key, "d", "1"):
        found = query(source + view % group)
        assert (found.window, found.output, found.keys) == (expected.window, expected.output, expected.keys)


def test_a_date_of_a_number_that_is_no_event_time_says_how_it_becomes_one() -> None:
    source = "CREATE SOURCE ev (k STRING, ts BIGINT, a TIMESTAMP, WATERMARK FOR a) WITH (connector = 'memory');"
    for key in ("DATE(ts)", "CAST(ts AS DATE)", "date_trunc('hour', ts)"):
        view = f"CREATE MATERIALIZED VIEW out AS SELECT {key} AS d, COUNT(*) AS n FROM ev GROUP BY {key};"
        with pytest.raises(LaminarError, match="LMR0105") as caught:
            query(source + view)
        assert "timestamp_millis(ts)" in str(caught.value.hint)


def test_a_number_without_a_lag_is_told_where_to_say_it() -> None:
    source = NUMBER % ("", ", event_time = 'ts', event_time_unit = 'ms'")
    with pytest.raises(LaminarError, match='declares no watermark for "ts"') as caught:
        plan_view(query(source + NUMBERED % "ts"))
    assert caught.value.detail is None
    assert caught.value.hint == "Add watermark_lag = '5 seconds' to CREATE SOURCE ev, beside event_time."
    table = "[sources.ev]\nevent_time = 'ts'\nevent_time_unit = 'ms'"
    with pytest.raises(LaminarError, match='declares no watermark for "ts"') as caught:
        plan_view(query(NUMBER % ("", "") + NUMBERED % "ts", table))
    assert caught.value.hint == 'Add watermark_lag = "5 seconds" to [sources.ev] in laminar.toml, beside event_time.'


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("TO_TIMESTAMP_LTZ(ts, 3)", "timestamp_millis"),
        ("from_unixtime(ts)", "timestamp_seconds"),
        ("timestamp(ts)", "timestamp_millis"),
        ("to_timestamp_ntz(k)", "to_timestamp(…)"),
    ],
)
def test_a_function_of_another_engine_says_which_one_means_the_same_here(call: str, said: str) -> None:
    with pytest.raises(LaminarError, match="LMR0107") as caught:
        query(NUMBER % (f", at AS {call}, WATERMARK FOR at", "") + TUMBLE)
    assert said in str(caught.value.hint)


def test_a_computed_column_may_be_said_to_be_generated() -> None:
    source = NUMBER % (", at TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(ts)), WATERMARK FOR at", "")
    assert first_input(source + TUMBLE).event_time == MILLIS
