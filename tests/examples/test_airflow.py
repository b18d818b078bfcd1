"""The Airflow example names what Airflow documents, and the very commands in it do what they say.

Airflow is not installed: the file is read, not imported. Its commands are rendered as Airflow renders them, by Jinja,
and run by bash in a project.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest

from state_store import StoreReader

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "airflow" / "laminar_dag.py"
TREE = ast.parse(EXAMPLE.read_text(), EXAMPLE.name)

IMPORTED = {
    "__future__": {"annotations"},
    "datetime": {"timedelta"},
    "airflow.sdk": {"DAG"},
    "airflow.providers.standard.operators.bash": {"BashOperator"},
}
# The arguments that Airflow 3 documents, as far as the example needs them.
ARGUMENTS = {
    "DAG": {
        "dag_id", "description", "schedule", "start_date", "catchup", "max_active_runs", "dagrun_timeout",
        "default_args", "params", "tags",
    },
    "BashOperator": {"task_id", "bash_command", "cwd"},
}  # fmt: skip
SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, event_time TIMESTAMP,
    WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW sales_per_minute AS
SELECT window_start, window_end, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW sales_per_hour AS
SELECT window_start, window_end, region, SUM(total) AS total
FROM TUMBLE(sales_per_minute, window_start, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, region EMIT ON UPDATE;
"""
ON_TIME = ('{"region": "north", "amount": 2, "event_time": "2026-01-05T09:00:12Z"}\n'
           '{"region": "north", "amount": 3, "event_time": "2026-01-05T09:05:00Z"}\n')  # fmt: skip
LATE = '{"region": "north", "amount": 40, "event_time": "2026-01-05T09:00:30Z"}\n'


def calls(name: str) -> Iterator[ast.Call]:
    """Calls of a name, in the order of the file."""
    found = [node for node in ast.walk(TREE) if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name]
    yield from sorted(found, key=lambda call: call.lineno)


def constants() -> dict[str, Any]:
    assigned = [node for node in TREE.body if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}


def value(call: ast.Call, name: str) -> Any:
    """What an argument is, with the file's own constants."""
    (argument,) = [given.value for given in call.keywords if given.arg == name]
    return eval(compile(ast.Expression(argument), EXAMPLE.name, "eval"), constants())


def commands() -> list[str]:
    """The bash commands of both DAGs, rendered with the second one's own parameters."""
    params = value(list(calls("DAG"))[1], "params")
    return [jinja2.Template(value(call, "bash_command")).render(params=params) for call in calls("BashOperator")]


def test_it_imports_only_what_airflow_documents() -> None:
    named = [node for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom)]
    assert {node.module: {alias.name for alias in node.names} for node in named} == IMPORTED
    plain = [alias.name for node in ast.walk(TREE) if isinstance(node, ast.Import) for alias in node.names]
    assert plain == ["pendulum"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_it_gives_only_arguments_that_airflow_documents(name: str) -> None:
    given = {argument.arg for call in calls(name) for argument in call.keywords}
    assert given <= ARGUMENTS[name]
    assert not any(call.args for call in calls(name))


def test_ticks_do_not_overlap_and_missed_ones_are_not_made_up_for() -> None:
    tick, backfill = calls("DAG")
    assert (value(tick, "catchup"), value(tick, "max_active_runs")) == (False, 1)
    assert value(backfill, "schedule") is None


@pytest.mark.spark
def test_its_commands_tick_and_backfill_a_project(connect_url: str, tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "shop.sql").write_text(SQL)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.jsonl").write_text(ON_TIME)
    tick, preview, correct, roll_up = commands()[:2], commands()[2], commands()[3], commands()[4]
    printed = [run(command, tmp_path, connect_url) for command in tick]
    assert '"rows_in": 2' in printed[0]
    (tmp_path / "landing" / "2.jsonl").write_text(LATE)
    assert '"late": 1' in run(tick[0], tmp_path, connect_url)
    assert "42" in run(preview, tmp_path, connect_url)
    assert totals(tmp_path, "sales_per_minute") == [2]
    run(correct, tmp_path, connect_url)
    assert totals(tmp_path, "sales_per_minute") == [42]
    run(roll_up, tmp_path, connect_url)
    assert totals(tmp_path, "sales_per_hour") == [42]


def run(command: str, project: Path, spark: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "LAMINAR_SPARK": spark}
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def totals(project: Path, view: str) -> list[int]:
    totals: list[int] = StoreReader(project / "data" / view).read("output").column("total").to_pylist()
    return totals
