"""The rules as a table: mistakes come first, and every line of NOT_WIRED is reached by some SQL."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.plan.build import declared_columns_only, plan_script, plan_view
from laminar_dagster.plan.rules import NOT_WIRED, check
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import parse_script

EV = "CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory'%s);"
WINDOW = "FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end"
COUNTED = f"CREATE MATERIALIZED VIEW out AS SELECT window_start, COUNT(*) AS n {WINDOW} EMIT FINAL"
PLAIN = EV % ""
CHANGES = ", changes = 'cdf'"
CDF = EV % CHANGES
NOT_WIRED_SQL = [
    PLAIN + COUNTED.replace("EMIT FINAL", "GAP FILL NULL EMIT ON WATERMARK"),
    CDF + COUNTED.replace("EMIT FINAL", "GAP FILL NULL EMIT FINAL"),
]


@pytest.mark.parametrize("position", range(len(NOT_WIRED)), ids=lambda position: str(position))
def test_each_line_of_not_wired_is_found_in_some_sql(position: int) -> None:
    entry = NOT_WIRED[position]
    queries = resolve(parse_script(NOT_WIRED_SQL[position]), declared_columns_only)
    assert entry.found(queries[-1]) is not None
    found = [error for error in check(queries[-1]) if error.code == entry.code]
    assert found
    assert all(isinstance(error, NotWiredError) and error.where is not None for error in found)


def test_there_is_sql_for_each_line_of_not_wired() -> None:
    assert len(NOT_WIRED_SQL) == len(NOT_WIRED)


def test_mistakes_come_before_what_is_not_wired() -> None:
    select = "SELECT k, MEDIAN(v) AS m FROM ev GROUP BY k EMIT FINAL WITH (sink = 'upsert')"
    query = resolve(parse_script(f"{CDF} CREATE MATERIALIZED VIEW out AS {select}"), declared_columns_only)[0]
    wired = [isinstance(error, NotWiredError) for error in check(query)]
    assert wired == sorted(wired)
    assert wired[:2] == [False, False]
    with pytest.raises(LaminarError, match="retract"):
        plan_view(query)


TIMELESS = "CREATE SOURCE ev (k STRING, v STRING) WITH (connector = 'memory'%s);"
BY_TIME = ("FIRST(v)", "LAST(v)", "ARRAY_AGG(v)", "ARRAY_AGG(v ORDER BY k)", "STRING_AGG(v)", "LISTAGG(v, ',')")
BY_VALUE = ("MIN(v)", "ARRAY_AGG(DISTINCT v)", "COLLECT_SET(v)", "MODE(v)", "MIN_BY(v, k)", "COUNT(DISTINCT v)")


@pytest.mark.parametrize("call", BY_TIME)
def test_what_goes_by_event_time_is_refused_where_retractions_have_none(call: str) -> None:
    view = f"CREATE MATERIALIZED VIEW out AS SELECT k, {call} AS x FROM ev GROUP BY k"
    with pytest.raises(LaminarError, match="goes by event time") as refused:
        plan_script(TIMELESS % CHANGES + view)
    assert refused.value.code == "LMR0209"
    assert refused.value.where is not None
    assert plan_script(TIMELESS % "" + view)
    assert plan_script(CDF.replace("v BIGINT", "v STRING") + view)


@pytest.mark.parametrize("call", BY_VALUE)
def test_what_goes_by_value_needs_no_event_time(call: str) -> None:
    assert plan_script(f"{TIMELESS % CHANGES} CREATE MATERIALIZED VIEW out AS SELECT k, {call} AS x FROM ev GROUP BY k")


def test_a_view_with_nothing_wrong_becomes_a_plan() -> None:
    plan = plan_script(PLAIN + COUNTED)[0]
    assert list(check(plan.query)) == []
    assert plan.layout.accumulator_columns == ("a0_n",)
