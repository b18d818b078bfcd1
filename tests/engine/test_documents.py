"""The SQL of the documents that this project follows, letter by letter, run on Spark; rows compared.

What a document leaves out, its sources, stands before it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.memory import MemoryConnector
from laminar_dagster.plan.build import plan_view
from laminar_dagster.semantics.time import HOUR, SECOND, from_datetime
from state_store import StoreReader
from state_store import format as f
from tests.sql.configured import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Rows = list[dict[str, Any]]


class Documented:
    """A view of a document over a source in memory."""

    def __init__(self, spark: SparkSession, root: Path, sql: str, toml: str = "") -> None:
        self.plan = plan_view(query(sql, toml))
        self.spark, self.root = spark, root
        self.source = MemoryConnector(self.plan.query.inputs[0].source, root)

    def write(self, *rows: dict[str, Any]) -> None:
        self.source.append(rows, self.source.backlog(0))

    def tick(self) -> Rows:
        """A tick; gives the view's table."""
        options = RunOptions(now=lambda: from_datetime(NOON) + HOUR)
        run_view(self.plan, self.spark, project=self.root, data=self.root / "data", options=options)
        return self.read(f.OUTPUT)

    def read(self, table: str) -> Rows:
        reader = StoreReader(self.root / "data" / self.plan.query.view)
        found: Rows = reader.read(table, reader.commit()).to_pylist()
        return found


def at(seconds: float) -> int:
    return from_datetime(NOON) + int(seconds * SECOND)


def test_f011b_sales_per_minute_has_no_duplicates_for_a_sink_that_appends(spark: SparkSession, tmp_path: Path) -> None:
    view = Documented(spark, tmp_path, """
        CREATE SOURCE sales (amount BIGINT, event_time TIMESTAMP, WATERMARK FOR event_time) WITH (connector = 'memory');
-- Kafka sink (append-only) - use EMIT ON WINDOW CLOSE
CREATE MATERIALIZED VIEW sales_per_minute AS
SELECT
    window_start,
    SUM(amount) as total
FROM TUMBLE(sales, event_time, INTERVAL '1 minute')
GROUP BY window_start
EMIT ON WINDOW CLOSE;  -- No duplicates to Kafka
    """)  # fmt: skip
    view.write({"amount": 5, "event_time": at(1)}, {"amount": 7, "event_time": at(59)})
    assert view.tick() == []
    view.write({"amount": 1, "event_time": at(60)})
    assert [(row["window_start"], row["total"]) for row in view.tick()] == [(NOON, 12)]
    view.write({"amount": 100, "event_time": at(2)})
    assert [(row["window_start"], row["total"]) for row in view.tick()] == [(NOON, 12)]


def test_f011b_customer_totals_outputs_insertions_and_pairs(spark: SparkSession, tmp_path: Path) -> None:
    view = Documented(spark, tmp_path, """
        CREATE SOURCE orders (customer_id STRING, amount BIGINT) WITH (connector = 'memory', changes = 'cdf');
-- CDC pipeline - use EMIT CHANGES
CREATE MATERIALIZED VIEW customer_totals AS
SELECT
    customer_id,
    SUM(amount) as total
FROM orders
GROUP BY customer_id
EMIT CHANGES;  -- Outputs +I/-D/+U/-U records
    """)  # fmt: skip
    view.write({"customer_id": "a", "amount": 5}, {"customer_id": "b", "amount": 1})
    view.tick()
    view.write({"customer_id": "a", "amount": 2}, {"customer_id": "b", "amount": 1, "_weight": -1})
    assert [(row["customer_id"], row["total"]) for row in view.tick()] == [("a", 7)]
    changes = sorted(view.read(f.CHANGELOG), key=lambda row: (row["_epoch"], row["customer_id"], row["_seq"]))
    assert [(row["_op"], row["_weight"], row["customer_id"], row["total"]) for row in changes] == [
        ("+I", 1, "a", 5), ("+I", 1, "b", 1), ("-U", -1, "a", 5), ("+U", 1, "a", 7), ("-D", -1, "b", 1),
    ]  # fmt: skip


def test_f011b_daily_report_has_only_final_exact_numbers(spark: SparkSession, tmp_path: Path) -> None:
    view = Documented(spark, tmp_path, """
        CREATE SOURCE orders (amount DECIMAL(9, 2), event_time TIMESTAMP, WATERMARK FOR event_time)
        WITH (connector = 'memory', max_future_skew = 'none');
-- BI report - use EMIT FINAL
CREATE MATERIALIZED VIEW daily_report AS
SELECT
    DATE(event_time) as day,
    COUNT(*) as order_count,
    SUM(amount) as revenue
FROM orders
GROUP BY DATE(event_time)
EMIT FINAL;  -- Only final, exact numbers
    """)  # fmt: skip
    view.write({"amount": "1.10", "event_time": at(0)}, {"amount": "2.20", "event_time": at(1)})
    assert view.tick() == []
    view.write({"amount": "9.99", "event_time": at(13 * 3600)})
    expected = [(NOON.date(), 2, "3.30")]
    assert [(row["day"], row["order_count"], str(row["revenue"])) for row in view.tick()] == expected
    view.write({"amount": "100.00", "event_time": at(2)})
    assert [(row["day"], row["order_count"], str(row["revenue"])) for row in view.tick()] == expected
    assert [entry["kind"] for entry in view.read(f.SIDE_OUTPUT)] == ["late"]


def test_f011b_the_statements_of_its_parser_tests_run(spark: SparkSession, tmp_path: Path) -> None:
    totals = Documented(spark, tmp_path / "totals", """
        CREATE SOURCE orders (customer_id STRING, amount BIGINT) WITH (connector = 'memory');
        CREATE MATERIALIZED VIEW totals AS
        SELECT customer_id, SUM(amount)
        FROM orders
        GROUP BY customer_id
        EMIT CHANGES
    """)  # fmt: skip
    totals.write({"customer_id": "a", "amount": 5}, {"customer_id": "a", "amount": 2})
    assert [(row["customer_id"], row["sum(amount)"]) for row in totals.tick()] == [("a", 7)]
    report = Documented(spark, tmp_path / "report", """
        CREATE SOURCE events (ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory', max_future_skew = 'none');
        CREATE MATERIALIZED VIEW report AS
        SELECT DATE(ts), COUNT(*)
        FROM events
        GROUP BY DATE(ts)
        EMIT FINAL
    """)  # fmt: skip
    report.write({"ts": at(0)}, {"ts": at(86_400)})
    (row,) = report.tick()
    assert [value for name, value in row.items() if not name.startswith("_")] == [NOON.date(), 1]


def test_f017e_the_watermark_closes_a_session_of_milliseconds(spark: SparkSession, tmp_path: Path) -> None:
    sql = """
CREATE SOURCE events (ts BIGINT, value INT);

        CREATE STREAM sessions AS
        SELECT
            SESSION_START(ts, INTERVAL '1' SECOND) as start,
            SESSION_END(ts, INTERVAL '1' SECOND) as end,
            SUM(value) as total
        FROM events
        GROUP BY SESSION(ts, INTERVAL '1' SECOND)
        EMIT ON WINDOW CLOSE
    """
    toml = (
        "[sources.events]\nconnector = 'memory'\nevent_time = 'ts'\nevent_time_unit = 'ms'\nwatermark_lag = '0 seconds'"
    )
    view = Documented(spark, tmp_path, sql, toml)
    view.write({"ts": 0, "value": 10}, {"ts": 500, "value": 20})
    assert view.tick() == []
    view.write({"ts": 3000, "value": 100})
    (row,) = view.tick()
    assert (row["start"].timestamp(), row["end"].timestamp(), row["total"]) == (0, 1.5, 30)
