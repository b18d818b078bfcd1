"""Which source columns a view's columns are made of."""

from __future__ import annotations

import pytest

from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.lineage import column_lineage

SOURCES = """
CREATE SOURCE sales (id BIGINT, k0 STRING, amount BIGINT, paid BOOLEAN, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'memory');
CREATE SOURCE refunds (id BIGINT, k0 STRING, given_back BIGINT, at2 TIMESTAMP, WATERMARK FOR at2)
WITH (connector = 'memory');
"""
CASES = {
    "keys, aggregates and bounds": (
        ("SELECT window_start, k0 AS region, SUM(amount) FILTER (WHERE paid) + 1 AS total, COUNT(*) AS n "
        "FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, k0"),
        {
            "window_start": (("sales", "at"),),
            "region": (("sales", "k0"),),
            "total": (("sales", "amount"), ("sales", "paid")),
            "n": (),
        },
    ),
    "a union, under common names": (
        ("SELECT window_end, SUM(v) AS total FROM TUMBLE((SELECT amount AS v, at AS t FROM sales UNION ALL "
        "SELECT given_back * -1 AS v, at2 AS t FROM refunds), t, INTERVAL '1' MINUTE) "
        "GROUP BY window_start, window_end"),
        {
            "window_end": (("refunds", "at2"), ("sales", "at")),
            "total": (("refunds", "given_back"), ("sales", "amount")),
        },
    ),
    "rows that pass through": ("SELECT id, amount + id AS both FROM sales", {
        "id": (("sales", "id"),),
        "both": (("sales", "amount"), ("sales", "id")),
    }),
    "a rank": (
        ("SELECT k0, amount, place FROM (SELECT k0, amount, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY amount DESC) AS place FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)) WHERE place <= 2"),
        {
            "k0": (("sales", "k0"),),
            "amount": (("sales", "amount"),),
            "place": (("sales", "amount"), ("sales", "at")),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_column_follows_from(name: str) -> None:
    select, expected = CASES[name]
    (plan,) = plan_script(f"{SOURCES} CREATE MATERIALIZED VIEW v AS {select};")
    assert column_lineage(plan) == expected
