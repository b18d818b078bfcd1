"""BIGINT totals in two halves, sum(x >> 32) and sum(x & 0xffffffff).

Neither can overflow below 2^31 rows of one epoch, the total is exact however the rows were cut into partials, and all
arithmetic stays on primitive longs. A merge carries what the low halves have above 32 bits over to the high ones, so
that a group may have any number of rows. With weights the low half may be negative: shifted and masked it gives the
same total.
"""

from __future__ import annotations

from laminar_dagster.semantics.aggregates.kernel import PartialColumn

_CARRIED = "sum({hi} + shiftright({lo}, 32))"
_LEFT = "sum({lo} & 4294967295L)"
HALVES = (
    PartialColumn("hi", "sum(shiftright({x}, 32))", _CARRIED),
    PartialColumn("lo", "sum({x} & 4294967295L)", _LEFT),
)
WEIGHED_HALVES = (
    PartialColumn("hi", "sum(shiftright({x}, 32) * {w})", _CARRIED),
    PartialColumn("lo", "sum(({x} & 4294967295L) * {w})", _LEFT),
)
SET_HALVES = {
    "hi": "aggregate({set}, 0L, (a, e) -> a + shiftright(e, 32))",
    "lo": "aggregate({set}, 0L, (a, e) -> a + (e & 4294967295L))",
}
_HIGH = "({hi} + shiftright({lo}, 32))"
BIGINT_TOTAL = f"(shiftleft({_HIGH}, 32) | ({{lo}} & 4294967295L))"
BIGINT_OVERFLOW = f"({_HIGH} > 2147483647L OR {_HIGH} < -2147483648L)"
BIGINT_AS_DOUBLE = "CAST(CAST({hi} AS DECIMAL(20,0)) * 4294967296BD + CAST({lo} AS DECIMAL(20,0)) AS DOUBLE)"
