"""A column of a view may have any name: what Spark gives where there is no AS, and whatever a user writes."""

from __future__ import annotations

from typing import Any

import pytest

from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.plan.build import plan_script
from tests.laws.logs import NOON, Row
from tests.laws.queries import UPDATING, source

pytestmark = pytest.mark.spark

NAMES = (
    "how many", "sum(v)", "a.b", "x`y", 'he said "no"', "it's", "a;b", "größe", "\\n", "{x}", "${env:HOME}", "%s",
    "select", "SUM(v) FILTER (WHERE (v > 1))", "=", ",", "k0", "a0", "pane_start",
)  # fmt: skip
VIEW = """
CREATE MATERIALIZED VIEW out AS SELECT {bounds}k, {columns} FROM {window} GROUP BY {bounds}k EMIT {strategy};
"""


@pytest.mark.parametrize("strategy", [*UPDATING, "ON WINDOW CLOSE"])
def test_a_column_may_have_any_name(spark: Any, strategy: str) -> None:
    quoted = [f"`{name.replace('`', '``')}`" for name in NAMES]
    columns = ", ".join(f"SUM(v) + {number} AS {name}" for number, name in enumerate(quoted))
    window = "TUMBLE(ev, ts, INTERVAL '10' SECOND)"
    sql = source() + VIEW.format(columns=columns, bounds="window_start, window_end, ", window=window, strategy=strategy)
    runner = SparkRunner(lambda: spark)
    try:
        runner.open(sql)
        for seconds, value in ((0, 1), (1, 2), (40, 4)):
            runner.commit("ev", [row(seconds, value)])
            runner.tick(NOON + 10**9)
        found = runner.observe("out")
    finally:
        runner.close()
    (first,) = [data_columns(r) for r in found.table if r["window_start"] == NOON]
    assert [first[name] for name in NAMES] == [3 + number for number in range(len(NAMES))]
    if strategy != "ON WINDOW CLOSE":
        assert broken_laws(found.table, found.changes, unique=found.unique) == []


def row(seconds: int, value: int) -> Row:
    return {"k": "a", "v": value, "ts": NOON + seconds * 10**6}


def test_the_documents_queries_need_no_as() -> None:
    orders = "CREATE SOURCE orders (customer_id BIGINT, amount BIGINT, ts TIMESTAMP, WATERMARK FOR ts) "
    orders += "WITH (connector = 'memory');"
    (totals,) = plan_script(
        f"{orders} CREATE MATERIALIZED VIEW totals AS SELECT customer_id, SUM(amount) FROM orders "
        "GROUP BY customer_id EMIT CHANGES"
    )
    assert [named.name for named in totals.query.output] == ["customer_id", "sum(amount)"]
    (report,) = plan_script(
        f"{orders} CREATE MATERIALIZED VIEW report AS SELECT DATE(ts), COUNT(*) FROM orders "
        "GROUP BY DATE(ts) EMIT FINAL"
    )
    assert [named.name for named in report.query.output] == ["ts", "count(1)"]
