"""A project's laminar.toml: what it says reaches the plans, and what it cannot say is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.semantics.time import MINUTE

SQL = """
CREATE SOURCE sales (n BIGINT, at TIMESTAMP) WITH (connector = 'files', path = 'landing', format = 'json');
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT FINAL;
"""


def project(root: Path, toml: str) -> Project:
    (root / "sql").mkdir(exist_ok=True)
    (root / "sql" / "views.sql").write_text(SQL)
    (root / "laminar.toml").write_text(toml)
    return Project.find(root)


def test_tables_of_the_file_reach_the_plans(tmp_path: Path) -> None:
    toml = 'data = "out"\n[sources.sales]\nevent_time = "at"\nwatermark_lag = "1 minute"\n'
    found = project(tmp_path, toml)
    source = found.plan("per_minute").query.inputs[0].source
    assert (source.watermark_column, source.watermark_lag) == ("at", MINUTE)
    assert found.data == tmp_path / "out"
    elsewhere = project(tmp_path, toml.replace("sources.sales", "views.per_minute"))
    assert fingerprint(elsewhere.plan("per_minute")) == fingerprint(found.plan("per_minute"))


def test_a_key_that_is_a_value_and_a_table_is_refused_with_the_way_to_write_it(tmp_path: Path) -> None:
    toml = '[defaults]\nside_output.late = "table"\nside_output.late.include_original = false\n'
    with pytest.raises(LaminarError, match="not valid TOML") as refused:
        project(tmp_path, toml)
    assert '"side_output.late.include_original" = false' in str(refused.value.hint)


@pytest.mark.parametrize(
    ("toml", "code", "hint"),
    [
        ("[view.per_minute]\npartition = 'day'", "LMR0704", 'Did you mean "views"?'),
        ("[default]\npartition = 'day'", "LMR0704", 'Did you mean "defaults"?'),
        ("watermark_lag = '5 seconds'", "LMR0704", "write it below [defaults], [sources.NAME] or [views.NAME]"),
        ("dta = 'x'", "LMR0704", 'Did you mean "data"?'),
        ("[data]\nx = 5", "LMR0705", "must be a string"),
        ("spark_unreachable = 'weit'", "LMR0705", 'Did you mean "wait"?'),
        ("[defaults]\npartition = 'dya'", "LMR0303", 'Did you mean "day"?'),
    ],
)
def test_what_the_file_cannot_say_is_refused(tmp_path: Path, toml: str, code: str, hint: str) -> None:
    with pytest.raises(LaminarError) as refused:
        project(tmp_path, toml)
    assert refused.value.code == code
    assert "laminar.toml" in refused.value.render()
    assert hint in refused.value.render()


def test_a_view_that_is_not_there_is_refused_when_views_are_planned(tmp_path: Path) -> None:
    found = project(tmp_path, "[views.per_minut]\npartition = 'day'")
    with pytest.raises(LaminarError, match='Did you mean "per_minute"'):
        found.plans()


def test_the_environment_beats_the_file_on_what_to_do_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = project(tmp_path, "spark_unreachable = 'in_process'")
    assert found.spark_settings().unreachable == "in_process"
    monkeypatch.setenv("LAMINAR_SPARK_UNREACHABLE", "fail")
    assert found.spark_settings().unreachable == "fail"


def test_kafka_in_the_file_asks_for_its_jars(tmp_path: Path) -> None:
    assert project(tmp_path, "").bundles() == ("delta",)
    assert project(tmp_path, '[defaults]\nside_output.late = "kafka:late"').bundles() == ("delta", "kafka")
