"""What nothing bounds is said by explain, warned of or refused; what a run warns of, it says once."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.bounds import UNBOUNDED, cautions, unbounded
from laminar_dagster.plan.build import plan_script, plan_view
from laminar_dagster.plan.explain import explain
from laminar_dagster.semantics.query import Query

EV = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE SOURCE unmarked (k STRING, v BIGINT, ts TIMESTAMP) WITH (connector = 'memory');
"""
BARE = "CREATE SOURCE ev (k STRING, v BIGINT) WITH (connector = 'memory'%s);"
OUT = "CREATE MATERIALIZED VIEW out AS SELECT "
WINDOW = "FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, k"
GROWING = [
    f"{OUT}k, COUNT(*) AS n FROM ev GROUP BY k",
    f"{OUT}ARRAY_AGG(v) AS vs FROM ev",
    f"{OUT}window_start, COUNT(*) AS n {WINDOW} GAP FILL NULL EMIT FINAL",
    f"{OUT}window_start, COUNT(*) AS n {WINDOW.replace('ev', 'unmarked')} EMIT CHANGES",
]
BOUNDED = [
    f"{OUT}COUNT(*) AS n, SUM(v) AS s FROM ev",
    f"{OUT}k, v FROM ev",
    f"{OUT}window_start, ARRAY_AGG(v) AS n {WINDOW} EMIT CHANGES",
    f"{OUT}window_start, COUNT(*) AS n {WINDOW} GAP FILL NULL EMIT FINAL WITH (max_gap = '1 hour')",
    f"{OUT}k, COUNT(*) AS n FROM ev GROUP BY k WITH (max_state_rows = 5)",
]


def with_option(view: str, value: str) -> str:
    option = f"unbounded_state = '{value}'"
    return f"{EV} {view.removesuffix(')')}, {option});" if "WITH (" in view else f"{EV} {view} WITH ({option});"


def query(sql: str) -> Query:
    return plan_script(sql)[-1].query


@pytest.mark.parametrize(("view", "entry"), list(zip(GROWING, UNBOUNDED, strict=True)))
def test_a_state_that_nothing_bounds_is_said_warned_of_or_refused(view: str, entry: object) -> None:
    allowed = plan_script(f"{EV} {view};")[0]
    assert unbounded(allowed.query) == (entry,)
    assert "not bounded: " in explain(allowed)
    assert cautions(allowed.query) == ()
    warned = plan_script(with_option(view, "warn"))[0]
    assert [text.startswith("nothing bounds the state: ") for text in cautions(warned.query)] == [True]
    with pytest.raises(LaminarError, match="LMR0225") as refused:
        plan_script(with_option(view, "refuse"))
    assert refused.value.where is not None
    assert "unbounded_state = 'allow'" in (refused.value.hint or "")


def test_a_limit_on_groups_does_not_bound_what_an_aggregate_keeps_of_each() -> None:
    keeps_values = query(f"{EV}{OUT}k, ARRAY_AGG(v) AS vs FROM ev GROUP BY k WITH (max_state_rows = 5);")
    assert unbounded(keeps_values) == (UNBOUNDED[1],)


@pytest.mark.parametrize("view", BOUNDED)
def test_what_is_bounded_is_planned_also_where_the_rest_is_refused(view: str) -> None:
    plan = plan_script(with_option(view, "refuse"))[0]
    assert "not bounded" not in explain(plan)
    assert cautions(plan.query) == ()


def test_a_source_without_event_time_is_warned_of_once_per_view() -> None:
    both = "(SELECT k FROM ev UNION ALL SELECT k FROM other)"
    sources = BARE % "" + (BARE % "").replace("ev", "other")
    (caution,) = cautions(query(f"{sources}{OUT}k, COUNT(*) AS n FROM {both} GROUP BY k;"))
    assert 'no event time is known for "ev", "other"' in caution
    assert cautions(query(f"{EV}{OUT}k, COUNT(*) AS n FROM ev GROUP BY k;")) == ()


def test_a_view_that_is_read_is_warned_of_only_where_a_window_needs_its_time() -> None:
    up = f"{EV} CREATE MATERIALIZED VIEW up AS SELECT k, v FROM ev;"
    assert cautions(query(f"{up}{OUT}k, COUNT(*) AS n FROM up GROUP BY k;")) == ()
    window = "FROM TUMBLE(up, INTERVAL '1' MINUTE) GROUP BY window_start, window_end"
    assert len(cautions(query(f"{up}{OUT}window_start, COUNT(*) AS n {window};"))) == 1


CDF = ", changes = 'cdf'"


def test_no_window_over_processing_time_takes_rows_back() -> None:
    view = f"{OUT}window_start, COUNT(*) AS n FROM TUMBLE(ev, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;"
    assert plan_script(BARE % "" + view)
    with pytest.raises(LaminarError, match="a window goes by event time") as refused:
        plan_script(BARE % CDF + view)
    assert refused.value.code == "LMR0209"


def test_no_row_falls_back_that_may_be_taken_back() -> None:
    view = f"{OUT}window_start, COUNT(*) AS n {WINDOW} EMIT CHANGES WITH (on_null_event_time = 'fallback');"
    assert plan_view(query(EV + view)).query.null_event_time == "fallback"
    with pytest.raises(LaminarError, match="may have rows without one") as refused:
        plan_script(EV.replace("'memory'", "'memory'" + CDF) + view)
    assert refused.value.where is not None
    assert "on_null_event_time" in refused.value.where.render()
