"""laminar.toml's tables: each documented key has its effect, the SQL goes first, and a mistake shows its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_view
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.sinks import Saturation
from laminar_dagster.semantics.time import MINUTE, SECOND
from laminar_dagster.sql.configuration import DEFAULTABLE
from laminar_dagster.sql.options import TIME_OPTIONS, VIEW_OPTIONS
from laminar_dagster.sql.transforms import NAMES
from tests.sql.configured import configuration, explained, queries, query

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z_.]+)` \| (yes|no) \| `(.+?)` \|", PAGE, re.MULTILINE)
DOCUMENTED = {key: (default == "yes", example) for key, default, example in ROWS}

SOURCE = "CREATE SOURCE sales (region STRING, amount BIGINT, sold_at TIMESTAMP) WITH (connector = 'memory');"
DECLARED = SOURCE.replace("TIMESTAMP)", "TIMESTAMP, WATERMARK FOR sold_at)")
PER_MINUTE = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region GAP FILL NULL
"""
VIEW = PER_MINUTE + ";"
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT region, COUNT(*) AS n FROM sales GROUP BY region;"


def told(sql: str, toml: str) -> tuple[object, ...]:
    """All that a setting can change of a view."""
    found = query(sql, toml)
    return explained(sql, toml), found.labels, found.unbounded_state


# What has to stand beside an option so that it means something.
TO_TOPIC = 'side_output.late = "kafka:late"\n'
BESIDE = {
    "event_time_unit": 'event_time = "amount"\n',
    "side_output.brokers": TO_TOPIC + 'side_output.properties = "p"\n',
    "side_output.properties": TO_TOPIC + 'side_output.brokers = "b:9092"\n',
    "side_output.reinject_to": 'side_output.late = "reinject"\n',
    **{
        f"side_output.{name}": TO_TOPIC + 'side_output.brokers = "b:9092"\n'
        for name in ("on_saturation", "route_max_rows", "route_max_bytes", "route_timeout")
    },
}
WITHOUT = {"event_time_unit": '"s"', "side_output.brokers": '"b:9092"', "side_output.reinject_to": '"elsewhere"'}


def tables_of(key: str) -> list[str]:
    tables = ["views.per_minute"]
    if key in {option.name for option in TIME_OPTIONS}:
        tables.append("sources.sales")
    if DOCUMENTED[key][0]:
        tables.append("defaults")
    return tables


@pytest.mark.parametrize(("key", "table"), [(key, table) for key in DOCUMENTED for table in tables_of(key)])
def test_a_documented_key_has_its_effect_in_each_table_that_takes_it(key: str, table: str) -> None:
    beside = f"[{table}]\n{BESIDE.get(key, '')}"
    other = f"{beside}{key} = {WITHOUT[key]}" if key in WITHOUT else beside
    assert told(SOURCE + VIEW, f"{beside}{key} = {DOCUMENTED[key][1]}") != told(SOURCE + VIEW, other)


def test_a_route_and_its_originals_stand_beside_each_other() -> None:
    toml = "[defaults]\nside_output.late = 'table'\n\"side_output.late.include_original\" = false"
    side = query(SOURCE + VIEW, toml).side_output
    assert (side.keeps("late"), side.without_original) == (True, {"late"})


def test_the_page_has_every_option_and_says_which_can_be_a_default() -> None:
    assert set(DOCUMENTED) == {option.name for option in (*TIME_OPTIONS, *VIEW_OPTIONS)}
    assert {key for key, (default, _) in DOCUMENTED.items() if default} == {option.name for option in DEFAULTABLE}


def test_a_key_that_is_not_for_all_is_refused_as_a_default() -> None:
    for key, (default, example) in DOCUMENTED.items():
        if not default:
            with pytest.raises(LaminarError, match=f'unknown option "{key}" for a project'):
                configuration(f"[defaults]\n{key} = {example}")


# --- who goes first --------------------------------------------------------------------------------------------


def test_the_view_goes_before_the_source_before_the_defaults_and_its_sql_before_its_table() -> None:
    def lag(sql: str, toml: str) -> float | None:
        found = query(sql, toml).inputs[0].source.watermark_lag
        return None if found is None else found / SECOND

    source = SOURCE.replace("'memory'", "'memory', watermark_lag = '3 seconds'")
    view = f"{PER_MINUTE} WITH (watermark_lag = '5 seconds');"
    toml = "[defaults]\nwatermark_lag = '1 second'\n"
    assert lag(SOURCE + VIEW, toml) == 1
    toml += "[sources.sales]\nwatermark_lag = '2 seconds'\n"
    assert lag(SOURCE + VIEW, toml) == 2
    assert lag(source + VIEW, toml) == 3
    assert lag(DECLARED + VIEW, toml) == 0
    toml += "[views.per_minute]\nwatermark_lag = '4 seconds'\n"
    assert [lag(sql + VIEW, toml) for sql in (SOURCE, source, DECLARED)] == [4, 4, 4]
    assert [lag(sql + view, toml) for sql in (SOURCE, source, DECLARED)] == [5, 5, 5]


def test_clauses_go_before_options_of_the_configuration() -> None:
    toml = "[views.per_minute]\nallowed_lateness = '1 minute'\nside_output.late = 'metrics_only'"
    assert query(DECLARED + VIEW, toml).allowed_lateness == MINUTE
    clauses = f"{PER_MINUTE} ALLOW LATENESS INTERVAL '9' SECOND LATE DATA TO side_output;"
    found = query(DECLARED + clauses, toml)
    assert (found.allowed_lateness, found.side_output.keeps("late")) == (9 * SECOND, True)
    option = f"{PER_MINUTE} WITH (allowed_lateness = '8 seconds');"
    assert query(DECLARED + option, toml).allowed_lateness == 8 * SECOND


def test_a_view_that_names_itself_goes_before_the_defaults() -> None:
    toml = "[defaults]\nunbounded_state = 'refuse'\n[views.totals]\nunbounded_state = 'allow'"
    assert query(SOURCE + TOTALS, toml).unbounded_state == "allow"


def test_names_are_found_in_any_letter_case() -> None:
    toml = "[sources.SALES]\nwatermark_lag = '2 seconds'\n[views.Per_Minute]\nPartition = 'hour'"
    found = query(SOURCE + VIEW, toml)
    assert (found.inputs[0].source.watermark_lag, found.partition.unit) == (2 * SECOND, "hour")


def test_options_of_the_connector_may_stand_in_the_configuration() -> None:
    sql = SOURCE.replace("'memory'", "'files', format = 'json'") + VIEW
    with pytest.raises(LaminarError, match='needs the option "path"'):
        query(sql)
    assert query(sql, "[sources.sales]\npath = 'landing'").inputs[0].source.options["path"] == "landing"


# --- defaults --------------------------------------------------------------------------------------------------


def test_a_default_holds_only_where_it_means_something() -> None:
    toml = """
    [defaults]
    allowed_lateness = "1 minute"
    max_groups_per_window = 5
    max_windows_per_group = 5
    max_gap = "1 hour"
    event_time = "no_such_column"
    """
    found = queries(DECLARED + TOTALS + VIEW.replace("GAP FILL NULL", ""), toml)
    totals, per_minute = found
    assert (totals.allowed_lateness, totals.max_groups_per_window, totals.max_windows_per_group) == (0, None, None)
    assert (per_minute.allowed_lateness, per_minute.max_groups_per_window) == (MINUTE, 5)
    assert (totals.max_gap, per_minute.max_gap) == (None, None)
    assert plan_view(totals).query.view == "totals"


def test_what_a_view_is_told_by_name_must_mean_something() -> None:
    with pytest.raises(LaminarError, match="has no meaning without a window") as refused:
        plan_view(query(DECLARED + TOTALS, "[views.totals]\nallowed_lateness = '1 minute'"))
    assert refused.value.where is not None
    assert (refused.value.where.file, refused.value.where.line) == ("laminar.toml", 2)


def test_defaults_about_time_are_not_for_views_that_are_read() -> None:
    reader = "CREATE MATERIALIZED VIEW top AS SELECT window_start, n FROM per_minute;"
    found = queries(
        DECLARED + VIEW.replace("GAP FILL NULL", "EMIT FINAL") + reader, "[defaults]\nidle_timeout = '1 second'"
    )
    assert [q.inputs[0].source.idle_timeout for q in found] == [SECOND, None]


# --- the plan --------------------------------------------------------------------------------------------------


def test_the_same_option_in_the_sql_and_in_the_configuration_is_the_same_plan() -> None:
    view = VIEW.replace("GAP FILL NULL", "EMIT ON WINDOW CLOSE")
    in_sql = query(DECLARED + view.replace(";", "WITH (allowed_lateness = '1 minute', partition = 'hour');"))
    outside = query(
        DECLARED + view, "[defaults]\npartition = 'hour'\n[views.per_minute]\nallowed_lateness = '60 seconds'"
    )
    labelled = query(DECLARED + view, "[defaults]\nowners = 'a@b.c'\nunbounded_state = 'warn'")
    plain = query(DECLARED + view)
    assert fingerprint(plan_view(in_sql)) == fingerprint(plan_view(outside)) != fingerprint(plan_view(plain))
    assert fingerprint(plan_view(labelled)) == fingerprint(plan_view(plain))


# --- mistakes --------------------------------------------------------------------------------------------------

MISTAKES = [
    ("[views.per_minute]\nalowed_lateness = '5 s'", "LMR0301", 2, 'Did you mean "allowed_lateness"', "[views.per_min"),
    ("[sources.sales]\nidle_timout = '5 s'", "LMR0301", 2, 'Did you mean "idle_timeout"', "[sources.sales]"),
    ("[defaults]\nwatermark_lagg = '5 s'", "LMR0301", 2, 'Did you mean "watermark_lag"', "[defaults]"),
    ("[defaults]\nconnector = 'memory'", "LMR0301", 2, 'unknown option "connector"', "[defaults]"),
    ("[defaults]\n\nwatermark_lag = 'soon'", "LMR0006", 3, '"soon" is not an interval', "[defaults]"),
    ("[defaults]\nwatermark_lag = 5", "LMR0006", 2, "Write it as in '10 seconds'", "[defaults]"),
    ("[sources.sales]\nidle_timeout = '1 month'", "LMR0303", 2, "no fixed length", "[sources.sales]"),
    ("[views.per_minute]\npartition = 'dya'", "LMR0303", 2, 'Did you mean "day"', "[views.per_minute]"),
    ("[defaults]\nmax_state_rows = 0", "LMR0303", 2, "a whole number greater than zero", "[defaults]"),
    ("[defaults]\nmax_state_rows = true", "LMR0303", 2, "a whole number greater than zero", "[defaults]"),
    ("[defaults]\nmax_state_rows = 1.5", "LMR0312", 2, "a whole number", "[defaults]"),
    ("[views.per_minute]\nowners = ['a']", "LMR0312", 2, "one text with commas", "[views.per_minute]"),
    ("[defaults.side_output]\nlate = 'tabel'", "LMR0303", 2, 'Did you mean "table"', '"side_output.late" of'),
    ("[views.per_minut]\npartition = 'day'", "LMR0311", 1, 'Did you mean "per_minute"', "[views.per_minut]"),
    ("[sources.slaes]\npath = 'x'", "LMR0311", 1, 'Did you mean "sales"', "[sources.slaes]"),
    ("[sources.per_minute]\npath = 'x'", "LMR0311", 1, "Write [views.per_minute].", "[sources.per_minute]"),
    ("[views.per_minute]\n[views.Per_Minute]\nsink = 'upsert'", "LMR0302", 2, "Keep one", "Minute] is given"),
    ("[defaults]\npartition = 'day'\nPartition = 'day'", "LMR0302", 3, "Keep one", 'option "partition" of [defaults]'),
    ("[views]\nper_minute = 5", "LMR0312", 2, "Write [views.per_minute]", "must be a table"),
    ("sources = 5", "LMR0312", 1, "Write [sources.NAME]", "must be a table"),
    ("[sources.sales]\nevent_time = 'sold'", "LMR0102", 2, 'Did you mean "sold_at"', 'in source "sales"'),
    ("[views.per_minute]\nevent_time = 'amount'", "LMR0205", 2, "must be a TIMESTAMP", '"amount" is BIGINT'),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "code", "line", "hint", "table"), MISTAKES)
def test_a_mistake_is_shown_in_its_line_with_a_remedy(toml: str, code: str, line: int, hint: str, table: str) -> None:
    with pytest.raises(LaminarError) as refused:
        query(SOURCE + VIEW, toml)
    text = refused.value.render()
    assert refused.value.code == code
    assert refused.value.where is not None
    assert (refused.value.where.file, refused.value.where.line) == ("laminar.toml", line)
    assert hint in text
    assert table in text


def test_the_error_on_the_page_is_what_is_printed() -> None:
    shown = PAGE.split("```\nunknown option", 1)[1].split("\n```", 1)[0]
    toml = '[views.sales_per_minute]\nalowed_lateness = "5 minutes"'
    with pytest.raises(LaminarError) as refused:
        configuration(toml)
    assert refused.value.render() == f"unknown option{shown}"


def test_the_example_of_the_page_is_planned() -> None:
    toml = PAGE.split("### Options of sources and views", 1)[1].split("```toml\n", 1)[1].split("```", 1)[0]
    sql = SOURCE.replace("'memory'", "'delta'") + VIEW.replace("per_minute", "sales_per_minute").replace(
        "GAP FILL NULL", "EMIT ON WINDOW CLOSE"
    )
    plan = plan_view(query(sql, toml))
    entry = plan.query.inputs[0]
    assert (entry.source.watermark_column, entry.source.watermark_lag) == ("sold_at", MINUTE)
    assert (plan.query.allowed_lateness, entry.source.max_future_skew) == (5 * MINUTE, MINUTE)


@pytest.mark.parametrize(
    "toml",
    ["sources = {sales = {idle_timeout = 'soon'}}", "sources.sales.idle_timeout = 'soon'",
     "[ sources . 'sales' ]\nidle_timeout = 'soon' # not yet", '[sources.sales]\n"idle_timeout" = """soon"""'],
)  # fmt: skip
def test_a_mistake_is_found_however_the_table_is_written(toml: str) -> None:
    with pytest.raises(LaminarError, match='"soon" is not an interval') as refused:
        query(SOURCE + VIEW, toml)
    assert refused.value.where is not None
    assert "sources" in refused.value.where.render() or "idle_timeout" in refused.value.where.render()


def test_a_source_without_with_has_its_connector_from_its_table() -> None:
    bare = SOURCE.replace(" WITH (connector = 'memory')", "")
    found = query(bare + TOTALS, "[sources.sales]\nconnector = 'files'\npath = 'in'\nformat = 'json'").inputs[0].source
    assert (found.connector, found.options) == ("files", {"path": "in", "format": "json"})
    with pytest.raises(LaminarError, match='source "sales" has no connector') as refused:
        query(bare + TOTALS, "")
    assert "under [sources.sales]" in str(refused.value.hint)


# --- [transforms.sql] ------------------------------------------------------------------------------------------

# As the document on windows and side output writes it.
TRANSFORMS = """
[transforms.sql.side_output]
late.sink = "dlq_kafka"          # or "reinject", "metrics_only"
late.include_original = true
evicted.sink = "metrics_only"
error.sink = "dlq_kafka"
duplicate.sink = "metrics_only"
"""
BROKERS = "brokers = 'b:9092'\n"


def test_the_configuration_of_the_document_is_read_as_it_is_written() -> None:
    side = query(DECLARED + VIEW, TRANSFORMS + BROKERS).side_output
    assert side.routes == {
        "late": "kafka:dlq_kafka", "evicted": "metrics_only", "error": "kafka:dlq_kafka", "duplicate": "metrics_only",
    }  # fmt: skip
    assert not side.without_original
    assert {sink.options["topic"] for sink in side.sinks} == {"dlq_kafka"}


TOPIC = "side_output.late.sink = 'dlq_kafka'"
NO_BROKERS = [
    TRANSFORMS,
    f"[transforms.sql]\n{TOPIC}\n",
    f"[transforms]\nsql.{TOPIC}\n",
    "[transforms.sql.side_output.late]\nsink = 'dlq_kafka'\n",
    "[transforms.sql.side_output]\nlate = { sink = 'dlq_kafka' }\n",
    "[defaults]\nside_output.late = 'kafka:late'\n",
    "[defaults]\n'side_output.late' = 'kafka:late'\n",
    "[views.per_minute.side_output]\nlate = 'kafka:late'\n",
]


def pasted(toml: str, hint: str) -> str:
    """The configuration with the line of a hint below the header that the hint names."""
    found = re.fullmatch(r"Paste below (\[.*\]) in laminar\.toml: (.*)", hint)
    assert found is not None, hint
    lines = "\n".join(found.groups()) + "\n"
    return toml.replace(f"{found[1]}\n", lines) if f"{found[1]}\n" in toml else toml + lines


@pytest.mark.parametrize("toml", NO_BROKERS)
def test_a_route_without_brokers_says_the_line_to_paste_and_where(toml: str) -> None:
    with pytest.raises(LaminarError, match="LMR0310") as refused:
        query(DECLARED + VIEW, toml)
    side = query(DECLARED + VIEW, pasted(toml, str(refused.value.hint))).side_output
    assert {sink.options["brokers"] for sink in side.sinks} == {"host:9092"}


@pytest.mark.parametrize("toml", [re.sub("dlq_kafka|kafka:late", "reinject", toml) for toml in NO_BROKERS])
def test_a_route_without_a_directory_says_the_line_to_paste_and_where(toml: str) -> None:
    with pytest.raises(LaminarError, match="LMR0310") as refused:
        query(DECLARED + VIEW, toml)
    found = query(DECLARED + VIEW, pasted(toml, str(refused.value.hint))).side_output
    assert {sink.options["path"] for sink in found.sinks} == {"landing/again"}


def test_a_route_of_the_sql_says_the_option_to_add() -> None:
    view = f"{PER_MINUTE} WITH (side_output.late = 'kafka:late');"
    with pytest.raises(LaminarError, match="LMR0310") as refused:
        query(DECLARED + view)
    assert refused.value.hint == "Add side_output.brokers = 'host:9092' to WITH (…)."


def test_the_table_of_the_document_takes_all_that_is_said_of_routes() -> None:
    bounds = "on_saturation = 'fail'\nroute_max_rows = 10\nroute_max_bytes = 1000\nroute_timeout = '2 seconds'\n"
    side = query(DECLARED + VIEW, TRANSFORMS + BROKERS + bounds).side_output
    assert {sink.saturation for sink in side.sinks} == {Saturation("fail", 10, 1000, 2 * SECOND)}
    shared = {name for name in DOCUMENTED if name.startswith("side_output.") and DOCUMENTED[name][0]}
    assert shared <= set(NAMES.values())


@pytest.mark.parametrize(
    ("toml", "meant"),
    [
        ("[transforms.sql.side_output]\nside_output.brokers = 'b:9092'", "brokers"),
        ("[transforms.sql.side_output]\non_saturaton = 'drop'", "on_saturation"),
        ("[transforms.sql.side_output]\nlate = 'table'", "late.sink"),
        ("[transforms.sql.side_output.late]\nsnk = 'table'", "sink"),
        ("[transforms.sql]\nside_output.broker = 'b:9092'", "side_output.brokers"),
    ],
)
def test_a_name_that_is_nearly_right_is_told_as_its_table_takes_it(toml: str, meant: str) -> None:
    with pytest.raises(LaminarError, match="LMR0301") as refused:
        configuration(toml)
    assert refused.value.hint == f'Did you mean "{meant}"?'


def test_transforms_are_defaults_that_a_view_overrules() -> None:
    toml = "[transforms.sql]\nevent_time_field = 'sold_at'\nwatermark_lag = '7 seconds'\nallowed_lateness = '1 minute'"
    found = query(SOURCE + VIEW, toml)
    assert (found.inputs[0].source.watermark_column, found.inputs[0].source.watermark_lag) == ("sold_at", 7 * SECOND)
    assert found.allowed_lateness == MINUTE
    own = f"{PER_MINUTE} ALLOW LATENESS INTERVAL '9' SECOND WITH (side_output.late = 'table');"
    overruled = query(DECLARED + own, TRANSFORMS + BROKERS)
    assert (overruled.allowed_lateness, overruled.side_output.routes["late"]) == (9 * SECOND, "table")
    assert query(SOURCE + TOTALS, toml).allowed_lateness == 0


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[transforms.sql]\nlateness = '1 minute'", 'unknown option "lateness" for [transforms.sql]'),
        ("[transforms.sql.side_output]\nlost.sink = 'table'", 'unknown option "side_output.lost.sink"'),
        ("[transforms.sql.side_output]\nlate.sink = 'dql_kafka'", 'option "side_output.late" must be one of'),
        ("[transforms.rust]\nx = 1", 'unknown table "transforms.rust" in laminar.toml'),
        ("[transforms.sql]\nwatermark_lag = '1 second'\nWatermark_Lag = '2 seconds'", "is given twice"),
        ("[defaults]\nwatermark_lag = '1 second'\n[transforms.sql]\nwatermark_lag = '2 seconds'", "is given twice"),
    ],
)
def test_a_transform_that_says_nothing_known_is_refused(toml: str, said: str) -> None:
    with pytest.raises(LaminarError, match=re.escape(said)) as refused:
        query(SOURCE + VIEW, toml)
    assert refused.value.where is not None
