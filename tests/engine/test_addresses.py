"""An address in the place of a path is refused by its name: it would be a folder called `s3:`, here."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar_dagster.accumulators import WindowAccumulators
from laminar_dagster.changes import subscribe
from laminar_dagster.engine import connect_server
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import open_view
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration import LaminarResource, laminar_definitions
from laminar_dagster.plan.build import plan_script
from tests.cli.told_epochs import laminar

SOURCE = """
CREATE SOURCE sales (n BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = '%s', path = '%s'%s);
"""
FILES = SOURCE % ("files", "landing", ", format = 'json'")
VIEW = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT ON WINDOW CLOSE%s;
"""
S3 = "s3://bucket/tables"
ADDRESSES = (S3, "s3a://b/x", "hdfs:/x", "abfss://c@a.dfs.core.windows.net/x", "file:///tmp/x", "FILE:/tmp/x")
SINK = "CREATE SINK out FROM per_minute WITH (connector = '%s', path = 's3://bucket/out', %s);"
IN_SQL = {
    "a source of files": SOURCE % ("files", S3, ", format = 'json'") + VIEW % "",
    "a source of Delta": SOURCE % ("delta", S3, "") + VIEW % "",
    "a sink of files": FILES + VIEW % "" + SINK % ("files", "format = 'json'"),
    "a sink of Delta": FILES + VIEW % "" + SINK % ("delta", "mode = 'append'"),
    "rows that are injected again": FILES + VIEW % f" WITH (side_output.reinject_to = '{S3}')",
}


@pytest.fixture(autouse=True)
def nothing_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not [path.name for path in tmp_path.rglob("*") if path.name.endswith(":")]


def a_project(root: Path, toml: str = "", sql: str = FILES + VIEW % "") -> Path:
    (root / "sql").mkdir()
    (root / "sql" / "views.sql").write_text(sql)
    (root / "laminar.toml").write_text(toml)
    return root


def refusal(error: pytest.ExceptionInfo[LaminarError]) -> str:
    assert error.value.code == "LMR0015"
    return error.value.render()


@pytest.mark.parametrize("what", IN_SQL)
def test_in_sql_it_is_refused_at_its_place_when_the_view_is_planned(tmp_path: Path, what: str) -> None:
    root = a_project(tmp_path, sql=IN_SQL[what])
    with pytest.raises(LaminarError) as error:
        laminar(root, "explain", "per_minute")
    assert "--> sql/views.sql:" in refusal(error)
    assert "s3://bucket" in str(error.value.where and error.value.where.render())


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("setting", ["data", "sql", "[sources.sales]\npath"])
def test_in_laminar_toml_it_is_refused_at_its_place(tmp_path: Path, setting: str, address: str) -> None:
    sql = (FILES + VIEW % "").replace("path = 'landing', ", "")
    if setting.startswith("["):
        sql = sql.replace(", path = 'landing'", "")
    root = a_project(tmp_path, f'# a project\n{setting} = "{address}"\n', sql)
    with pytest.raises(LaminarError) as error:
        laminar(root, "explain", "per_minute")
    told = [refusal(error)]
    if setting.startswith("["):
        run = laminar(root, "run")
        assert run.exit_code == 1
        told.append(run.stderr)
    line = 3 if setting.startswith("[") else 2
    assert all(f"--> laminar.toml:{line}:" in text and address in text for text in told)


def test_on_the_command_line_and_in_the_environment_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = a_project(tmp_path)
    with pytest.raises(LaminarError) as error:
        laminar(root, "run", "--data", S3)
    assert "the data directory is an address" in refusal(error)
    with pytest.raises(LaminarError) as error:
        Project.find(Path(S3))
    assert "the project is an address" in refusal(error)
    monkeypatch.setenv("LAMINAR_HOME", S3)
    with pytest.raises(LaminarError) as error:
        connect_server.state_directory()
    assert "LAMINAR_HOME is an address" in refusal(error)


def test_from_python_and_dagster_it_is_refused(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    plan = plan_script(FILES + VIEW % "")[0]
    for project, data in ((root, Path(S3)), (Path(S3), root / "data")):
        with (
            pytest.raises(LaminarError) as error,
            open_view(plan, None, project=project, data=data),  # type: ignore[arg-type]
        ):
            pass
        refusal(error)
    with pytest.raises(LaminarError) as error:
        subscribe(f"{S3}/per_minute")
    refusal(error)
    memory = FILES.replace("'files'", "'memory'").replace(", path = 'landing', format = 'json'", "")
    with pytest.raises(LaminarError) as error:
        WindowAccumulators(memory + VIEW % "", S3)
    refusal(error)
    with pytest.raises(LaminarError) as error:
        LaminarResource(data_dir=S3).located(Project.find(root))
    assert "data_dir is an address" in refusal(error)
    with pytest.raises(LaminarError) as error:
        laminar_definitions(S3)
    refusal(error)


@pytest.mark.parametrize("path", ["landing/a:/b", "./s3:/b", "c:", "a:b", "/mnt/s3:/b"])
def test_a_path_with_a_colon_is_a_path(path: str) -> None:
    (plan,) = plan_script(SOURCE % ("files", path, ", format = 'json'") + VIEW % "")
    assert plan.query.inputs[0].source.options["path"] == path
