"""How text is cut into statements and clauses, with every place kept."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.emit import ON_WINDOW_CLOSE
from laminar_dagster.sql.intervals import read_interval
from laminar_dagster.sql.statements import parse_script

SOURCE = "CREATE SOURCE ev (k STRING, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory')"
VIEW = (
    "CREATE MATERIALIZED VIEW out AS SELECT window_start FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start"
)


def test_several_statements_stand_in_one_file_and_the_last_semicolon_may_be_missing() -> None:
    script = parse_script(f"{SOURCE};\n\n;{VIEW} EMIT FINAL")
    assert ([s.name for s in script.sources], [v.name for v in script.views]) == (["ev"], ["out"])


def test_an_empty_file_has_no_statements() -> None:
    assert parse_script("-- nothing here\n").views == ()


def test_comments_and_a_semicolon_in_quotes_are_no_ends() -> None:
    script = parse_script(f"-- a; b\n{VIEW} /* EMIT CHANGES; */ EMIT FINAL WITH (description = 'a; b')")
    assert script.views[0].clauses.options["description"].value == "a; b"


def test_clauses_may_come_in_any_order() -> None:
    tail = "WITH (sink = 'append') EMIT ON WINDOW CLOSE LATE DATA TO side_output ALLOW LATENESS INTERVAL '1' MINUTE"
    clauses = parse_script(f"{VIEW} {tail}").views[0].clauses
    assert clauses.emission is not None
    assert clauses.emission.policy is ON_WINDOW_CLOSE
    assert clauses.lateness is not None
    assert read_interval(clauses.lateness).micros == 60_000_000
    assert clauses.late_data == "side_output"


@pytest.mark.parametrize("name", ["emit", "allow", "late", "gap"])
def test_a_clause_word_may_also_be_a_column_name(name: str) -> None:
    script = parse_script(
        f"CREATE MATERIALIZED VIEW out AS SELECT k AS {name}, MAX(v) AS x FROM ev GROUP BY {name} EMIT FINAL"
    )
    assert script.views[0].clauses.emission is not None


def test_the_columns_may_be_left_out_while_the_watermark_stays() -> None:
    source = parse_script(
        "CREATE SOURCE ev (WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) WITH (connector = 'memory')"
    ).sources[0]
    assert source.columns == ()
    assert source.watermark is not None
    assert source.watermark.lag is not None


def test_a_place_is_an_offset_into_the_file() -> None:
    text = f"-- é\n{SOURCE};\nCREATE MATERIALIZED VIEW `out` AS SELECT x FROM ev"
    view = parse_script(text, "a.sql").views[0]
    assert text[view.where.start : view.where.end] == "`out`"
    assert view.where.line == 3


def test_scripts_of_several_files_are_added() -> None:
    both = parse_script(SOURCE, "a.sql") + parse_script(f"{VIEW} EMIT FINAL", "b.sql")
    assert both.views[0].where.file == "b.sql"


def test_a_query_in_parentheses_keeps_its_clauses() -> None:
    text = VIEW.replace("SELECT", "(SELECT", 1)
    assert parse_script(f"{text}) EMIT FINAL").views[0].clauses.emission is not None


@pytest.mark.parametrize(
    "text",
    ["CREATE", "CREATE SOURCE", "CREATE SOURCE ev (", "CREATE MATERIALIZED VIEW out AS", "SELECT 1", VIEW + " EMIT"],
)
def test_text_that_ends_too_early_is_refused_at_its_end(text: str) -> None:
    with pytest.raises(LaminarError) as caught:
        parse_script(text)
    assert caught.value.where is not None
