"""Row numbers: the reference gives what DuckDB gives over the rows of each window, ties told apart the same way."""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.semantics.time import MINUTE
from tests.laws.examples import examples
from tests.laws.logs import NOON, Row, after_noon, rows

SQL = """
CREATE SOURCE ev (k STRING, v BIGINT, x DOUBLE, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, v, n
FROM (
    SELECT window_start, k, v,
        ROW_NUMBER() OVER (PARTITION BY window_start, k ORDER BY x {direction} NULLS {nulls}, v) AS n
    FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE)
)
WHERE n <= {limit}
EMIT ON WINDOW CLOSE;
"""
ORACLE = """
SELECT ts - ts % 60000000 AS window_start, k, v,
    row_number() OVER (PARTITION BY ts - ts % 60000000, k ORDER BY x {direction} NULLS {nulls}, v NULLS FIRST) AS n
FROM ev QUALIFY n <= {limit}
"""
drawn_rows = rows(after_noon(0, 179), values=(1, 2, None), x=st.sampled_from([0.5, -1.0, 1.5, None]))
DUCKDB = duckdb.connect(config={"threads": 1})
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("ts", pa.int64())])


@examples(60)
@given(
    drawn=st.lists(drawn_rows, min_size=1, max_size=12),
    limit=st.integers(1, 3),
    direction=st.sampled_from(["ASC", "DESC"]),
    nulls=st.sampled_from(["FIRST", "LAST"]),
)
def test_the_first_rows_are_those_that_duckdb_numbers_first(
    drawn: list[Row], limit: int, direction: str, nulls: str
) -> None:
    form = {"limit": limit, "direction": direction, "nulls": nulls}
    runner = ReferenceRunner()
    runner.open(SQL.format(**form))
    runner.commit("ev", drawn)
    runner.commit("ev", [{"k": "end", "v": 0, "x": 0.0, "ts": NOON + 3 * MINUTE}])
    runner.tick(None)
    found = Counter(tuple(row[c] for c in ("window_start", "k", "v", "n")) for row in runner.observe("out").table)
    DUCKDB.register("ev", pa.Table.from_pylist(drawn, SCHEMA))
    assert found == Counter(DUCKDB.sql(ORACLE.format(**form)).fetchall())
