"""`window_id` is a hash of the plan and the window: the same in every run, another in every other plan."""

from __future__ import annotations

from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.functions.windows import window_id
from laminar_dagster.semantics.time import MINUTE

EV = "CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');"
VIEW = """CREATE MATERIALIZED VIEW out AS SELECT window_id, COUNT(*) AS n
FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT FINAL;"""


def planned(view: str = VIEW) -> Plan:
    return plan_script(EV + view)[-1]


def ids(plan: Plan, start: int = 0, end: int = MINUTE) -> object:
    return evaluate(plan.query.output[0].expression, {"window_start": start, "window_end": end})


def test_the_id_is_a_hash_of_the_fingerprint_that_explain_shows_and_the_bounds() -> None:
    assert ids(planned()) == window_id(fingerprint(planned()), 0, MINUTE)


def test_the_id_is_the_same_however_the_sql_is_written() -> None:
    assert ids(planned(VIEW.replace("window_id,", "window_id  ,\n"))) == ids(planned())


def test_another_plan_or_another_bound_has_another_id() -> None:
    other = planned(VIEW.replace("FINAL", "ON WINDOW CLOSE"))
    assert len({ids(planned()), ids(other), ids(planned(), MINUTE, 2 * MINUTE), ids(planned(), 0, 2 * MINUTE)}) == 4


def test_the_id_may_be_compared_ordered_by_and_be_part_of_an_expression() -> None:
    view = VIEW.replace("EMIT", "HAVING window_id <> '' EMIT").replace("window_id,", "CONCAT('w', window_id) AS id,")
    assert str(ids(planned(view))).startswith("w")
    assert len(str(ids(planned(view)))) == 17
    numbered = """CREATE MATERIALIZED VIEW out AS SELECT window_id, v FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY window_id, v) <= 2 EMIT FINAL;"""
    assert ids(planned(numbered)) == window_id(fingerprint(planned(numbered)), 0, MINUTE)
