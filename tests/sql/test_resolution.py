"""What names, types and windows come to, where a golden text would not show why."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import declared_columns_only
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.emit import CHANGES, FINAL, ON_WATERMARK, ON_WINDOW_CLOSE
from laminar_dagster.semantics.expressions import Column, Literal
from laminar_dagster.semantics.query import Field, Query
from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, SECOND
from laminar_dagster.semantics.windows import Calendar, Tumble
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import SourceStatement, parse_script

EV = (
    "CREATE SOURCE ev (k STRING, v BIGINT, d DECIMAL(10,2), ts TIMESTAMP, WATERMARK FOR ts) "
    "WITH (connector = 'memory');"
)
TUMBLE = "FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end"


def query(select: str, sources: str = EV) -> Query:
    return resolve(parse_script(f"{sources} CREATE MATERIALIZED VIEW out AS {select}"), declared_columns_only)[-1]


def output_type(expression: str) -> str:
    return str(query(f"SELECT {expression} AS x {TUMBLE}, v, d, k EMIT FINAL").output[0].type)


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("v + 1", "BIGINT"),
        ("v / 2", "DOUBLE"),
        ("d * 2", "DECIMAL(12,2)"),
        ("d / 3", "DECIMAL(14,6)"),
        ("d + 0.005", "DECIMAL(12,3)"),
        ("SUM(d)", "DECIMAL(20,2)"),
        ("AVG(v)", "DOUBLE"),
        ("5", "INT"),
        ("5000000000", "BIGINT"),
        ("-9223372036854775808", "BIGINT"),
        ("1.50", "DECIMAL(3,2)"),
        ("1e3", "DOUBLE"),
        ("5L", "BIGINT"),
        ("CAST(v AS FLOAT) * 2", "FLOAT"),
        ("CAST(v AS FLOAT) * d", "DOUBLE"),
        ("COALESCE(k, 'x')", "STRING"),
        ("CASE WHEN v > 1 THEN v ELSE 1.5 END", "DECIMAL(21,1)"),
        ("LENGTH(k) > 3", "BOOLEAN"),
        ("window_end - INTERVAL '1' HOUR", "TIMESTAMP"),
        ("DATE(window_start)", "DATE"),
    ],
)
def test_types_follow_spark(expression: str, type_: str) -> None:
    assert output_type(expression) == type_


@pytest.mark.parametrize(
    ("window", "kind"),
    [
        ("TUMBLE(ts, INTERVAL '1' MINUTE)", Tumble(MINUTE)),
        ("TUMBLE(ts, INTERVAL '1' MINUTE, INTERVAL '70' SECOND)", Tumble(MINUTE, 10 * SECOND)),
        ("time_bucket(INTERVAL 15 MINUTES, ts)", Tumble(15 * MINUTE)),
        ("DATE(ts)", Tumble(DAY)),
        ("CAST(ts AS DATE)", Tumble(DAY)),
        ("date_trunc('hour', ts)", Tumble(HOUR)),
        ("date_trunc('week', ts)", Tumble(7 * DAY, 4 * DAY)),
        ("date_trunc('quarter', ts)", Calendar("MONTH", 3, "UTC")),
        ("TUMBLE(ts, INTERVAL '1' DAY, TIME ZONE 'UTC')", Tumble(DAY)),
        ("TUMBLE(ts, INTERVAL '1' WEEK, TIME ZONE 'UTC')", Tumble(7 * DAY, 4 * DAY)),
        ("TUMBLE(ts, INTERVAL '2' DAY, TIME ZONE 'Asia/Tokyo')", Calendar("DAY", 2, "Asia/Tokyo")),
        ("TUMBLE(ts, INTERVAL '1' YEAR)", Calendar("MONTH", 12, "UTC")),
    ],
)
def test_a_group_by_item_becomes_the_window_that_it_means(window: str, kind: object) -> None:
    found = query(f"SELECT COUNT(*) AS n FROM ev GROUP BY {window}")
    assert (found.window, found.keys) == (kind, ())


def test_a_date_of_a_column_that_is_no_event_time_is_a_key() -> None:
    source = "CREATE SOURCE ev (ts TIMESTAMP, other TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');"
    found = query("SELECT DATE(other) AS d, COUNT(*) AS n FROM ev GROUP BY DATE(other)", source)
    assert found.window is None
    assert len(found.keys) == 1


def test_a_date_beside_an_explicit_window_is_a_key() -> None:
    found = query(f"SELECT DATE(ts) AS d, COUNT(*) AS n {TUMBLE}, DATE(ts)")
    assert found.window == Tumble(MINUTE)
    assert len(found.keys) == 1


def test_equal_aggregates_share_one_accumulator() -> None:
    found = query(
        f"SELECT SUM(v) AS a, SUM(ev.V) + 1 AS b, COUNT(*) AS c, COUNT(1) AS d {TUMBLE} HAVING SUM(v) > 1 AND b > 2"
    )
    assert [call.id for call in found.aggregates] == ["a0", "a1"]


def test_an_aggregate_with_another_filter_is_another_one() -> None:
    found = query(f"SELECT SUM(v) AS a, SUM(v) FILTER (WHERE v > 1) AS b {TUMBLE}")
    assert len(found.aggregates) == 2


def test_columns_are_found_whatever_their_letter_case() -> None:
    assert query(f"SELECT WINDOW_START, K, COUNT(*) AS n {TUMBLE}, EV.k").keys[0].expression == Column("k", t.STRING)


@pytest.mark.parametrize(
    ("clauses", "policy", "sink"),
    [
        ("", ON_WATERMARK, "upsert"),
        ("WITH (sink = 'append')", ON_WINDOW_CLOSE, "append"),
        ("WITH (sink = 'changelog')", CHANGES, "changelog"),
        ("EMIT FINAL", FINAL, "append"),
        ("EMIT AFTER WATERMARK", ON_WATERMARK, "upsert"),
        ("EMIT FINAL WITH (sink = 'upsert')", FINAL, "upsert"),
    ],
)
def test_the_strategy_follows_from_emit_then_the_sink_then_the_window(clauses: str, policy: object, sink: str) -> None:
    found = query(f"SELECT COUNT(*) AS n {TUMBLE} {clauses}")
    assert (found.emit, found.sink) == (policy, sink)


def test_the_schema_is_asked_for_only_where_columns_are_left_out_and_the_source_is_read() -> None:
    asked = []

    def schema_of(source: SourceStatement) -> tuple[Field, ...]:
        asked.append(source.name)
        return (Field("ts", t.TIMESTAMP),)

    read = "CREATE SOURCE a (WATERMARK FOR ts) WITH (connector = 'delta', path = 'a');"
    sources = f"{read} CREATE SOURCE b WITH (connector = 'memory');"
    script = parse_script(
        f"{EV} {sources} CREATE MATERIALIZED VIEW out AS SELECT COUNT(*) AS n FROM a GROUP BY DATE(ts)"
    )
    found = resolve(script, schema_of)[0]
    assert asked == ["a"]
    assert found.inputs[0].source.columns == (Field("ts", t.TIMESTAMP),)


def test_views_come_in_the_order_in_which_they_depend() -> None:
    text = (
        f"{EV} CREATE MATERIALIZED VIEW second AS SELECT SUM(n) AS n "
        "FROM TUMBLE(first, window_start, INTERVAL '1' HOUR) GROUP BY window_start; "
        f"CREATE MATERIALIZED VIEW first AS SELECT window_start, COUNT(*) AS n {TUMBLE};"
    )
    first, second = resolve(parse_script(text), declared_columns_only)
    assert (first.view, second.view) == ("first", "second")
    assert second.inputs[0].source.options == {"view": "first", "window_start": "window_start", "changes": "changelog"}


def test_a_union_maps_each_branch_to_its_own_columns() -> None:
    sources = f"{EV} CREATE SOURCE b (x INT, at TIMESTAMP, WATERMARK FOR at) WITH (connector = 'memory');"
    rows = "SELECT v, ts FROM ev WHERE v > 1 UNION ALL SELECT x, at FROM b"
    select = f"SELECT SUM(v) AS s FROM ({rows}) GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    left, right = query(select, sources).inputs
    assert (left.where is None, right.where is None) == (False, True)
    assert right.event_time == Column("at", t.TIMESTAMP)
    assert [str(named.type) for named in right.columns] == ["BIGINT", "TIMESTAMP"]


def test_a_watermark_lag_in_the_options_is_a_watermark() -> None:
    source = (
        "CREATE SOURCE ev (ts TIMESTAMP) WITH (connector = 'memory', event_time = 'ts', watermark_lag = '5 seconds');"
    )
    found = query("SELECT COUNT(*) AS n FROM ev GROUP BY DATE(ts) EMIT FINAL", source)
    assert found.inputs[0].source.watermark_lag == 5 * SECOND
    assert found.window == Tumble(DAY)


def test_the_first_mistake_that_is_found_is_the_users_not_ours() -> None:
    with pytest.raises(LaminarError, match="amout"):
        query(
            "SELECT STDDEV(amout) AS x FROM HOP(ev, ts, INTERVAL '1' SECOND, INTERVAL '2' SECOND) "
            "GROUP BY window_start EMIT CHANGES"
        )


@pytest.mark.parametrize(
    ("written", "meant"), [("'it''s'", "it's"), (r"'it\'s'", "it's"), ('"it\'s"', "it's"), ("''", "")]
)
def test_a_quote_inside_of_a_text_is_doubled_or_escaped(written: str, meant: str) -> None:
    found = query(f"SELECT {written} AS x {TUMBLE}").output[0].expression
    assert isinstance(found, Literal)
    assert found.value == meant
