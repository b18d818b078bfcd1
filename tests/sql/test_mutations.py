"""Whatever happens to the words of a valid script, the answer is a query or an error of this project."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.sql.dialect import tokenize
from tests.laws.examples import examples

CASES = Path(__file__).parents[1] / "conformance" / "cases"
RICH = """
CREATE SOURCE a (k STRING, v BIGINT, d DECIMAL(10,2), ok BOOLEAN, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (connector = 'delta', path = 'x', max_future_skew = 'none');
CREATE SOURCE b (k STRING, v INT, d DECIMAL(8,2), ok BOOLEAN, at TIMESTAMP, WATERMARK FOR at)
  WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
WITH both AS (SELECT * FROM a WHERE NOT ok UNION ALL SELECT k, v, d, ok, at FROM b)
SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, UPPER(u.k) || 'x' AS key, COUNT(*) AS n,
  SUM(CASE WHEN v > 1 THEN d ELSE 0.5 END) FILTER (WHERE k LIKE 'a%' OR v IN (1, 2)) AS s, AVG(CAST(v AS DOUBLE)) m
FROM both AS u WHERE v BETWEEN -3 AND 3 AND ts > '2026-01-01' AND k IS NOT NULL
GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), UPPER(u.k) HAVING n > 1
ALLOW LATENESS INTERVAL 10 SECONDS EMIT ON WINDOW CLOSE LATE DATA TO side_output
WITH (sink = 'append', side_output.error = 'table', max_state_rows = 5);
"""
SCRIPTS = [RICH, *sorted({json.loads(path.read_text())["sql"] for path in CASES.glob("*.json")})]
WORDS = sorted(
    {token.text for script in SCRIPTS for token in tokenize(script)} | {"'", "(", ")", "*", "1e400", "`x y`"}
)


def mutated(script: str, kind: str, position: int, word: str) -> str:
    tokens = tokenize(script)
    token = tokens[position % len(tokens)]
    piece = script[token.start : token.end + 1]
    replacement = {"delete": "", "duplicate": f"{piece} {piece}", "replace": word, "insert": f"{word} {piece}"}[kind]
    return f"{script[: token.start]} {replacement} {script[token.end + 1 :]}"


def refusal(script: str) -> LaminarError | None:
    try:
        plan_script(script)
    except LaminarError as error:
        return error
    return None


@examples(600)
@given(
    st.sampled_from(SCRIPTS),
    st.lists(
        st.tuples(
            st.sampled_from(["delete", "duplicate", "replace", "insert"]), st.integers(0, 400), st.sampled_from(WORDS)
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_any_mutation_of_a_valid_script_gives_a_plan_or_a_laminar_error(
    script: str, mutations: list[tuple[str, int, str]]
) -> None:
    for kind, position, word in mutations:
        try:
            script = mutated(script, kind, position, word)
        except LaminarError:
            return
    error = refusal(script)
    assert error is None or (error.where is not None and "^" in error.render())
