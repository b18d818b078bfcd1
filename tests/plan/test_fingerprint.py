"""The fingerprint follows the meaning, not the spelling."""

from __future__ import annotations

import itertools

import pytest

from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.fingerprint import fingerprint, settings_fingerprint

SOURCE = (
    "CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) "
    "WITH (connector = 'memory');"
)
VIEW = (
    "CREATE MATERIALIZED VIEW out AS SELECT window_start, k, SUM(v) AS s FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) "
    "WHERE v > 0 GROUP BY window_start, k EMIT ON WINDOW CLOSE"
)


def of(text: str) -> str:
    return fingerprint(plan_script(text)[-1])


SAME = {
    "formatting and comments": SOURCE + VIEW.replace(" FROM", " -- here\n\n   FROM /* there */"),
    "letter case": SOURCE + VIEW.replace("SUM(v)", "sum(V)"),
    "another spelling of the interval": SOURCE.replace("'10' SECOND", "'10 seconds'")
    + VIEW.replace("'1' MINUTE", "60 SECONDS"),
    "the window in GROUP BY": SOURCE
    + VIEW.replace("TUMBLE(ev, ts, INTERVAL '1' MINUTE)", "ev").replace(
        "BY window_start, k", "BY k, TUMBLE(ts, INTERVAL '1' MINUTE)"
    ),
    "the standard form": SOURCE
    + VIEW.replace(
        "TUMBLE(ev, ts, INTERVAL '1' MINUTE)", "TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    ),
    "an alias for the table": SOURCE + VIEW.replace("WHERE v", "AS e WHERE e.v"),
    "a column that the view does not read": SOURCE.replace("(k", "(unread DOUBLE, k") + VIEW,
    "the default sink written out": SOURCE + VIEW + " WITH (sink = 'append')",
    "a description": SOURCE + VIEW + " WITH (description = 'x', owners = 'y')",
    "a common table expression": SOURCE
    + VIEW.replace("AS SELECT", "AS WITH e AS (SELECT * FROM ev) SELECT").replace("TUMBLE(ev", "TUMBLE(e"),
}
OTHER = {
    "another lag": SOURCE.replace("'10'", "'11'") + VIEW,
    "another window": SOURCE + VIEW.replace("'1' MINUTE", "'2' MINUTE"),
    "another filter": SOURCE + VIEW.replace("v > 0", "v > 1"),
    "another aggregate": SOURCE + VIEW.replace("SUM(v)", "MAX(v)"),
    "another name": SOURCE + VIEW.replace("AS s", "AS t"),
    "another strategy": SOURCE + VIEW.replace("ON WINDOW CLOSE", "FINAL"),
    "another lateness": SOURCE + VIEW.replace("EMIT", "ALLOW LATENESS INTERVAL '1' SECOND EMIT"),
    "having": SOURCE + VIEW.replace("EMIT", "HAVING COUNT(*) > 1 EMIT"),
    "another type of an argument": SOURCE.replace("v BIGINT", "v DOUBLE") + VIEW,
    "gap fill": SOURCE + VIEW.replace("EMIT", "GAP FILL LOCF EMIT"),
    "another gap fill": SOURCE + VIEW.replace("EMIT", "GAP FILL NULL EMIT"),
    "a longest gap": SOURCE + VIEW.replace("EMIT", "GAP FILL LOCF EMIT") + " WITH (max_gap = '1 hour')",
    "another partition": SOURCE + VIEW + " WITH (partition = 'hour')",
}
SETTINGS = {
    "an idle timeout": SOURCE.replace("'memory'", "'memory', idle_timeout = '1 minute'") + VIEW,
    "another guard": SOURCE.replace("'memory'", "'memory', max_future_skew = '1 hour'") + VIEW,
    "another route": SOURCE + VIEW + " WITH (side_output.late = 'metrics_only')",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_the_same_meaning_has_the_same_fingerprint(text: str) -> None:
    assert of(text) == of(SOURCE + VIEW)


def test_different_meanings_have_different_fingerprints() -> None:
    found = {name: of(text) for name, text in {**OTHER, "plain": SOURCE + VIEW}.items()}
    assert [pair for pair in itertools.combinations(found, 2) if found[pair[0]] == found[pair[1]]] == []


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_setting_leaves_the_meaning_of_the_state_as_it_is(text: str) -> None:
    assert of(text) == of(SOURCE + VIEW)


def test_different_settings_have_different_fingerprints() -> None:
    found = {settings_fingerprint(plan_script(text)[-1]) for text in (*SETTINGS.values(), SOURCE + VIEW)}
    assert len(found) == len(SETTINGS) + 1


def test_the_fingerprint_is_the_same_in_every_process_and_release() -> None:
    assert of(SOURCE + VIEW) == "2ab0b7ca04b2a752"


def test_rows_that_pass_through_are_others_if_a_subquery_computes_others() -> None:
    passing = SOURCE + "CREATE STREAM out AS SELECT x FROM (SELECT v * %s AS x, v AS unread FROM ev);"
    assert of(passing % 2) != of(passing % 3)
    assert of(passing % 2) == of((passing % 2).replace("v AS unread", "v + 1 AS unread"))
