"""The harness itself: what it must notice in a runner that misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from laminar_dagster.conformance.cases import CaseError, case_from, engine_rows, load, source_schemas, to_json
from laminar_dagster.conformance.compare import compare_rows, compare_side_output, same
from laminar_dagster.conformance.harness import Observed, run_case
from laminar_dagster.conformance.laws import broken_laws
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.runners import run_cases
from laminar_dagster.conformance.scorecard import CaseResult, Scorecard, Status
from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.semantics.time import from_iso

SOURCE = (
    "CREATE SOURCE ev (k STRING, v BIGINT, d DECIMAL(9,2), day DATE, ts TIMESTAMP, WATERMARK FOR ts) "
    "WITH (connector = 'memory');"
)
VIEW = (
    "CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS c "
    "FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, k "
)
NOON = "2026-01-01T12:00:00Z"


def commit(*rows: Mapping[str, Any]) -> dict[str, Any]:
    return {"commit": {"source": "ev", "rows": list(rows)}}


def event(k: str, time: str) -> dict[str, Any]:
    return {"k": k, "v": 1, "ts": f"2026-01-01T{time}Z"}


def pipeline(emit: str = "EMIT ON WINDOW CLOSE", **changes: Any) -> dict[str, Any]:
    closed = {"window_start": NOON, "k": "A", "c": 1}
    return {
        "name": "a_case",
        "claim": "it holds",
        "tier": 1,
        "features": [],
        "sql": SOURCE + VIEW + emit + ";",
        "view": "out",
        "steps": [
            commit(event("A", "12:00:10")),
            {"tick": {}},
            {"expect": {"rows": [], "side_output": [], "watermark": "2026-01-01T12:00:10Z"}},
            commit(event("B", "12:01:00")),
            {"tick": {}},
            {"expect": {"rows": [closed]}},
        ],
        "expect_table": [closed],
        "split_invariant": True,
    } | changes


class Distorted(ReferenceRunner):
    """A reference whose answers are changed before the harness sees them."""

    def __init__(self, distort: Callable[[Observed], Observed]) -> None:
        super().__init__()
        self._distort = distort

    def observe(self, view: str) -> Observed:
        return self._distort(super().observe(view))


def result_of(data: Mapping[str, Any], distort: Callable[[Observed], Observed] = lambda o: o) -> CaseResult:
    return run_case(case_from(data), lambda: Distorted(distort))


# --- running --------------------------------------------------------------------------------------------------


def test_a_case_that_holds_passes() -> None:
    assert result_of(pipeline()).status is Status.PASSED


def test_a_row_that_nobody_listed_fails_and_is_shown() -> None:
    def with_one_more(seen: Observed) -> Observed:
        extra = {"window_start": from_iso(NOON), "k": "X", "c": 9}
        return replace(seen, rows=[*seen.rows, extra], table=[*seen.table, extra]) if seen.rows else seen

    result = result_of(pipeline(), with_one_more)
    assert result.status is Status.FAILED
    assert "step 6, rows:\n  unexpected {window_start: 2026-01-01T12:00:00Z, k: X, c: 9}" in result.detail


def test_a_missing_row_and_a_wrong_watermark_are_shown() -> None:
    result = result_of(pipeline(), lambda seen: replace(seen, rows=[], table=[], watermark=None))
    assert "watermark: none, and not 2026-01-01T12:00:10Z" in result.detail
    assert "missing    {window_start: 2026-01-01T12:00:00Z, k: A, c: 1}" in result.detail


def test_an_entry_of_the_side_output_that_nobody_listed_fails() -> None:
    entry = {"kind": "late", "reason": "x", "row": {"k": "A"}}
    result = result_of(pipeline(), lambda seen: replace(seen, side_output=[entry]))
    assert "side_output" in result.detail


def test_the_second_pass_takes_all_commits_in_one_tick() -> None:
    ticks: list[int] = []

    class Counting(ReferenceRunner):
        def tick(self, now: int | None) -> None:
            ticks.append(len(self._waiting))
            super().tick(now)

    run_case(case_from(pipeline()), Counting)
    assert ticks == [1, 1, 2]
    ticks.clear()
    run_case(case_from(pipeline()), Counting, as_written=False)
    assert ticks == [2]


def test_a_table_that_depends_on_the_cut_fails_in_one_tick() -> None:
    late = {"window_start": NOON, "k": "A", "c": 2}
    data = pipeline("EMIT FINAL", steps=[commit(event("A", "12:00:10")), {"tick": {}}], expect_table=[late])
    assert result_of(data).status is Status.FAILED


def test_a_clause_that_is_not_wired_is_a_refusal_of_the_runner() -> None:
    class Unwired(ReferenceRunner):
        def open(self, sql: str) -> None:
            raise NotWiredError("LMR0901", "HOP cannot run yet")

    result = run_case(case_from(pipeline()), Unwired)
    assert (result.status, result.detail) == (Status.REFUSED, "HOP cannot run yet")


def test_a_runner_that_breaks_is_an_error_and_is_closed_all_the_same() -> None:
    closed: list[bool] = []

    class Broken(ReferenceRunner):
        def tick(self, now: int | None) -> None:
            raise RuntimeError("out of paper")

        def close(self) -> None:
            closed.append(True)

    result = run_case(case_from(pipeline()), Broken)
    assert (result.status, result.detail) == (Status.ERROR, "RuntimeError: out of paper")
    assert closed == [True]


def refusal(*contains: str) -> dict[str, Any]:
    return {"name": "no", "claim": "", "sql": "SELECT", "expect_error": {"contains": list(contains)}}


def test_a_refusal_must_say_what_the_case_wants_letter_case_aside() -> None:
    class Refusing(ReferenceRunner):
        def open(self, sql: str) -> None:
            raise LaminarError("LMR0001", "no such thing", hint="Use ANOTHER thing.")

    assert run_case(case_from(refusal("another", "LMR0001")), Refusing).status is Status.PASSED
    assert "does not say 'window'" in run_case(case_from(refusal("window")), Refusing).detail


def test_a_refusal_that_is_planned_all_the_same_fails() -> None:
    data = refusal("x") | {"sql": SOURCE + VIEW + "EMIT FINAL;"}
    assert result_of(data).status is Status.FAILED


# --- laws -----------------------------------------------------------------------------------------------------


def change(op: str, k: str, epoch: int = 1, weight: int | None = None) -> dict[str, Any]:
    real = 1 if op.startswith("+") else -1
    return {"k": k, "_op": op, "_weight": real if weight is None else weight, "_epoch": epoch, "_seq": 0}


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (["a"], []),
        ([], [change("+I", "a")]),
        (["a", "a"], [change("+I", "a"), change("+I", "a")]),
        (["a"], [change("+I", "a", weight=-1), change("+I", "a"), change("+I", "a")]),
        (["b"], [change("+I", "a"), change("+U", "b"), change("-U", "a")]),
        (["b"], [change("+I", "a"), change("-U", "a"), change("+U", "b", epoch=2)]),
    ],
    ids=["not summed", "not in the table", "twice", "wrong weight", "new first", "torn pair"],
)
def test_a_broken_law_is_noticed(table: list[str], changes: Sequence[Mapping[str, Any]]) -> None:
    assert broken_laws([{"k": k} for k in table], changes, unique=True)


def test_a_lawful_changelog_is_left_alone() -> None:
    changes = [change("+I", "a"), change("-U", "a", 2), change("+U", "b", 2), change("-D", "b", 3)]
    assert broken_laws([], changes, unique=True) == []


# --- comparing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        (NOON, from_iso(NOON)),
        ("2026-01-01T12:00:00.000000Z", from_iso(NOON)),
        ("2026-01-01T13:00:00+01:00", from_iso(NOON)),
        ("1970-01-03", 2),
        ("0.30", Decimal("0.3")),
        (None, None),
        (1, 1),
        (1.5, 1.5),
        (True, True),
    ],
)
def test_values_that_are_the_same(expected: Any, observed: Any) -> None:
    assert same(expected, observed)


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        (NOON, from_iso(NOON) + 1),
        ("0.30", Decimal("0.31")),
        ("a", Decimal(1)),
        (None, 0),
        (0, None),
        (1, True),
        (9223372036854775807, 9223372036854775807.0),
        (0.3, 0.1 + 0.2),
    ],
)
def test_values_that_are_not(expected: Any, observed: Any) -> None:
    assert not same(expected, observed)


def test_doubles_may_differ_by_as_much_as_the_case_allows_and_integers_may_not() -> None:
    assert same(0.3, 0.1 + 0.2, approx=1e-9)
    assert not same(3, 4, approx=10.0)


def test_duplicates_count_and_only_listed_columns_are_compared() -> None:
    observed = [{"k": "A", "n": 1}, {"k": "A", "n": 2}]
    assert not compare_rows("rows", [{"k": "A"}, {"k": "A"}], observed)
    assert compare_rows("rows", [{"k": "A"}], observed).unexpected
    assert compare_rows("rows", [{"k": "A"}] * 3, observed).missing
    assert compare_rows("rows", [{"absent": None}], [{"k": "A"}])


def test_side_output_is_matched_by_row_first_and_then_by_count() -> None:
    entries = [{"kind": "error", "reason": r, "row": {"k": k}} for r, k in (("a", "1"), ("b", "2"), ("b", "3"))]
    expected = [{"kind": "error", "count": 2}, {"kind": "error", "reason": "b", "rows": [{"k": "2"}]}]
    assert not compare_side_output(expected, entries, None)
    assert compare_side_output(expected[:1], entries, None).unexpected


# --- files and scores -----------------------------------------------------------------------------------------


def test_values_become_the_engines_and_come_back() -> None:
    schema = source_schemas(SOURCE)["ev"]
    row = {"k": "A", "v": 7, "d": "1.20", "day": "1970-01-03", "ts": NOON, "_weight": -1}
    (held,) = engine_rows([row], schema)
    assert held == {"k": "A", "v": 7, "d": Decimal("1.20"), "day": 2, "ts": from_iso(NOON), "_weight": -1}
    assert {name: to_json(held[name], type_) for name, type_ in schema.items()} | {"_weight": -1} == row


@pytest.mark.parametrize(
    "change",
    [{"stepz": []}, {"steps": [{"tock": {}}]}, {"steps": [{"expect": {"row": []}}]}, {"steps": [{"commit": {}}]}],
)
def test_a_case_that_breaks_the_format_is_refused(change: Mapping[str, Any]) -> None:
    with pytest.raises(CaseError):
        case_from(pipeline(**change))


def test_a_row_with_an_unknown_column_is_refused() -> None:
    with pytest.raises(CaseError, match="kk"):
        engine_rows([{"kk": 1}], source_schemas(SOURCE)["ev"])


def test_a_directory_of_cases_gives_a_scorecard(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(pipeline(name="good")))
    (tmp_path / "wrong.json").write_text(json.dumps(pipeline(name="wrong", expect_table=[])))
    (tmp_path / "torn.json").write_text("{")
    seen: list[str] = []
    card = run_cases([tmp_path], "reference", on_result=lambda result: seen.append(result.name))
    assert seen == ["good", "torn", "wrong"]
    assert (card.passed, card.failed, card.refused, card.exit_code) == (1, 2, 0, 1)
    statuses = {case["name"]: case["status"] for case in card.as_json()["cases"]}
    assert statuses == {"good": "passed", "torn": "error", "wrong": "failed"}
    assert "1 passed, 2 failed, 0 refused" in card.as_text()


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="nowhere"):
        run_cases([tmp_path / "nowhere"], "reference")


def test_refusals_alone_do_not_fail_a_run() -> None:
    assert Scorecard((CaseResult("x", Status.REFUSED, "", 0.0),)).exit_code == 0


def test_loading_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(CaseError, match=r"x\.json"):
        load(path)
