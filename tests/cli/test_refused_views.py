"""One view, or one file, that is wrong does not stop the others, and every mistake of the project is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laminar_dagster.errors import LaminarError
from tests.cli.told_epochs import laminar
from tests.processes import Laminar

SOURCE = """
CREATE SOURCE ev (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'files', format = 'json', path = 'landing');
"""
RIGHT = "CREATE MATERIALIZED VIEW {name} AS SELECT k, SUM(v) AS s FROM ev GROUP BY k EMIT CHANGES;"
WRONG = "CREATE MATERIALIZED VIEW wrong AS SELECT k, SUM(w) AS s FROM ev GROUP BY k EMIT CHANGES;"
OVER_WRONG = "CREATE MATERIALIZED VIEW over_wrong AS SELECT k, MAX(s) AS s FROM wrong GROUP BY k EMIT CHANGES;"
BY_A_RULE = "CREATE MATERIALIZED VIEW by_a_rule AS SELECT k, SUM(v) AS s FROM ev GROUP BY k EMIT FINAL;"
UNREADABLE = "CREATE MATERIALIZED VIEW half AS SELECT FROM WHERE;"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text(json.dumps({"k": "a", "v": 1, "ts": "2026-01-01T00:00:00Z"}))
    for name, text in {
        "a_source": "\ufeff" + SOURCE,
        "b_wrong": WRONG,
        "c_right": RIGHT.format(name="good"),
        "d_over": OVER_WRONG,
        "e_rule": BY_A_RULE,
        "f_half": UNREADABLE,
    }.items():
        (tmp_path / "sql").mkdir(exist_ok=True)
        (tmp_path / "sql" / f"{name}.sql").write_text(text, encoding="utf-8")
    (tmp_path / "sql" / "g_latin.sql").write_bytes("-- \u00e4".encode("latin-1"))
    return tmp_path


@pytest.mark.spark
def test_a_run_tells_every_mistake_and_runs_the_other_views(project: Path, connect_url: str) -> None:
    code, text = Laminar("run", "--project", str(project), LAMINAR_SPARK=connect_url).finish()
    assert code == 1
    assert "good: 1 epoch(s), 1 rows in" in text
    assert text.count("error: ") == 5
    for wanted in ("[LMR0102]", "[LMR0121]", "[LMR0715]", "b_wrong.sql:1", "f_half.sql:1"):
        assert wanted in text


def test_what_is_said_of_one_view_does_not_need_the_others(project: Path) -> None:
    assert laminar(project, "explain", "good").stdout.startswith("view good")
    with pytest.raises(LaminarError, match="LMR0121"):
        laminar(project, "explain", "over_wrong")
    listed = laminar(project, "metrics")
    assert (listed.exit_code, listed.stderr.count("error: ")) == (1, 5)


def test_the_doctor_tells_every_mistake(project: Path) -> None:
    text = laminar(project, "doctor").output
    for code in ("LMR0102", "LMR0121", "LMR0715"):
        assert f"[{code}]" in text
