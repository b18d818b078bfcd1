"""Conditions and arguments that Spark folds to a constant: rows are counted and set aside all the same."""

from __future__ import annotations

from typing import Any

import pytest

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.time import SECOND
from tests.laws.agreement import as_table, aside
from tests.laws.logs import NOON

pytestmark = pytest.mark.spark

VIEW = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS SELECT window_start, k, SUM({argument}) AS s
FROM {window}(ev, ts, INTERVAL '10' SECOND) {where} GROUP BY window_start, window_end, k {having}
EMIT ON WINDOW CLOSE;
"""
FOLDED = {
    "nothing is kept": {"where": "WHERE 1 = 0"},
    "a contradiction": {"where": "WHERE k = 'a' AND k <> 'a'"},
    "all is kept": {"where": "WHERE 1 = 1"},
    "an argument that is NULL": {"argument": "CAST(NULL AS BIGINT)"},
    "a constant argument": {"argument": "1 + 1", "where": "WHERE 1 = 0"},
    "no result": {"having": "HAVING 1 = 0"},
}


@pytest.mark.parametrize("window", ["TUMBLE", "SESSION"])
@pytest.mark.parametrize("name", FOLDED)
def test_what_is_folded_stops_no_view_and_loses_no_row(spark: Any, name: str, window: str) -> None:
    sql = VIEW.format(**{"argument": "v", "where": "", "having": "", "window": window, **FOLDED[name]})
    shown = []
    for runner in (SparkRunner(lambda: spark), ReferenceRunner()):
        runner.open(sql)
        for seconds in ([1, 100], [2, 101, None], [3]):
            times = [None if second is None else NOON + second * SECOND for second in seconds]
            runner.commit("ev", [{"k": "a", "v": 1, "ts": time} for time in times])
            runner.tick(NOON)
        found = runner.observe("out")
        shown.append((as_table(found.table), aside(found)))
        runner.close()
    assert shown[0] == shown[1]
