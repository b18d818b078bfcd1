"""GAP FILL on the reference: against one batch query in DuckDB, and under any cut into epochs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.emit import CHANGES, FINAL, ON_WINDOW_CLOSE
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Column, RowError
from laminar_dagster.semantics.gap_fill import STEP, STEPS, after, before, filling
from laminar_dagster.semantics.query import AggregateCall
from laminar_dagster.semantics.reference import Reference
from laminar_dagster.semantics.time import DAY, SECOND
from laminar_dagster.semantics.types import DataType
from laminar_dagster.semantics.windows import Calendar, Tumble
from tests.laws.logs import edges
from tests.semantics.queries import row, run, short, view
from tests.semantics.test_laws import COMMITS, LATENESS, epochs_of, outcome

SIZE = 10 * SECOND
KINDS = st.sampled_from(["NULL", "LOCF", "LINEAR"])
MAX_GAPS = st.sampled_from([None, SIZE, 2 * SIZE])
DUCKDB = duckdb.connect(config={"threads": 1})
SCHEMA = pa.schema([("s0", pa.int64()), ("k", pa.string()), ("c", pa.int64()), ("v", pa.int64())])
FILLED_VALUE = {
    "NULL": "NULL",
    "LOCF": "{x}",
    "LINEAR": "round({x} + (next_{x} - {x}) * ((s1 - s0) / (next_s0 - s0)))",
}
ORACLE = """
WITH ends AS (
    SELECT *, lead(s0) OVER w AS next_s0, lead(c) OVER w AS next_c, lead(v) OVER w AS next_v FROM base
    WINDOW w AS (PARTITION BY k ORDER BY s0)),
gaps AS (
    SELECT *, unnest(generate_series(s0 + {size}, next_s0 - {size}, {size})) AS s1 FROM ends
    WHERE next_s0 IS NOT NULL AND next_s0 - s0 - {size} <= {limit})
SELECT s0, k, c, v FROM base
UNION ALL SELECT s1, k, ({c})::BIGINT, ({v})::BIGINT FROM gaps
"""


def oracle(closed: list[Any], kind: str, max_gap: int | None) -> Counter[tuple[Any, ...]]:
    """The windows that have rows, and the gaps between them, in one query that shares nothing with the reference."""
    rows = [{"s0": r["start"], "k": r["k"], "c": r["c"], "v": r["s"]} for r in closed]
    DUCKDB.register("base", pa.Table.from_pylist(rows, SCHEMA))
    values = {name: FILLED_VALUE[kind].format(x=name) for name in ("c", "v")}
    limit = max_gap if max_gap is not None else 1 << 60
    return Counter(DUCKDB.sql(ORACLE.format(size=SIZE, limit=limit, **values)).fetchall())


@given(COMMITS, edges, KINDS, MAX_GAPS, LATENESS)
def test_the_reference_fills_what_one_batch_query_over_the_closed_windows_fills(
    commits: list[Any], cuts: list[int], kind: str, max_gap: int | None, lateness: int
) -> None:
    plain = view(window=Tumble(SIZE), allowed_lateness=lateness)
    filled, _ = epochs_of(replace(plain, gap_fill=kind, max_gap=max_gap), commits, cuts)
    closed, _ = epochs_of(plain, commits, [])
    found = Counter((r["start"], r["k"], r["c"], r["s"]) for r in filled.table)
    assert found == oracle(closed.table, kind, max_gap)


@given(COMMITS, edges, KINDS, MAX_GAPS, st.sampled_from([ON_WINDOW_CLOSE, FINAL]), LATENESS)
def test_filled_rows_do_not_depend_on_the_cut_into_epochs(
    commits: list[Any], cuts: list[int], kind: str, max_gap: int | None, emit: Any, lateness: int
) -> None:
    window = Tumble(7 * SECOND, 3 * SECOND)
    query = view(window=window, emit=emit, allowed_lateness=lateness, gap_fill=kind, max_gap=max_gap)
    assert outcome(query, commits, cuts) == outcome(query, commits, [])


def test_filled_days_follow_the_calendar() -> None:
    query = view(window=Calendar("DAY", 1, "Europe/Berlin"), gap_fill="LOCF")
    day = DAY // SECOND
    march_28 = 20175 * day + 12 * 3600  # 2025; the clocks go forward on the 30th
    events = [row("A", 1, march_28), row("A", 2, march_28 + 3 * day), row("Z", 0, march_28 + 5 * day)]
    (result,) = run(query, [events])
    hours = [(end - start) // 3600 for start, end, *_ in short(result.rows)]
    assert hours == [24, 24, 23, 24]
    assert result.counts["filled_rows"] == 2


def test_a_group_that_was_retracted_is_no_end_of_a_gap() -> None:
    query = view(gap_fill="LOCF")
    events = [row("A", 1, 1), row("A", 5, 21), row("A", 5, 21, -1), row("A", 3, 41), row("Z", 0, 50)]
    (result,) = run(query, [events])
    assert [(start, s) for start, _, _, _, s in short(result.rows)] == [(0, 1), (10, 1), (20, 1), (30, 1), (40, 3)]


def line(type_: DataType, start: Any, end: Any, step: int, steps: int) -> Any:
    call = AggregateCall("a0", AGGREGATES["max"].kernel(type_), (Column("x", type_),), None, "MAX(x)")
    known = {before(call).name: start, after(call).name: end, STEP.name: step, STEPS.name: steps}
    return evaluate(filling("LINEAR", call), known)


@pytest.mark.parametrize(
    ("type_", "start", "end", "step", "steps", "expected"),
    [
        (t.BIGINT, 0, 1, 1, 2, 1),
        (t.BIGINT, 0, -1, 1, 2, -1),
        (t.BIGINT, 0, 5, 1, 4, 1),
        (t.INT, 7, 7, 3, 9, 7),
        (t.DOUBLE, 0.1, 0.3, 1, 3, 0.1 + (0.3 - 0.1) * (1 / 3)),
        (t.DOUBLE, None, 1.0, 1, 2, None),
        (DataType("FLOAT"), 0.0, 1.0, 1, 3, 0.3333333432674408),
        (t.decimal(4, 1), Decimal("0.0"), Decimal("0.5"), 1, 2, Decimal("0.3")),
        (t.decimal(4, 1), Decimal("0.0"), Decimal("-0.5"), 1, 2, Decimal("-0.3")),
    ],
)
def test_a_line_is_in_the_type_of_its_ends(
    type_: DataType, start: Any, end: Any, step: int, steps: int, expected: Any
) -> None:
    found = line(type_, start, end, step, steps)
    assert (found, type(found)) == (expected, type(expected))


def test_a_line_whose_rounding_leaves_the_type_has_no_value() -> None:
    with pytest.raises(RowError):
        line(t.BIGINT, 2**63 - 1, 2**63 - 1, 1, 2)


def test_filling_results_that_may_change_is_not_modelled() -> None:
    with pytest.raises(NotImplementedError):
        Reference(view(emit=CHANGES, gap_fill="NULL"))
