"""`laminar dev` starts Dagster and Spark, keeps Spark up, and leaves no process behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
import yaml
from typer.testing import CliRunner

from laminar_dagster.cli import dev
from laminar_dagster.cli.app import app
from laminar_dagster.engine import connect_server, session
from laminar_dagster.engine.ports import free_port
from laminar_dagster.engine.session import SparkSettings, is_connect, open_session
from laminar_dagster.errors import LaminarError
from tests.machine import PROCESS_FILES

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "laminar_dagster" / "integration" / "dagster.yaml"
LAMINAR = [sys.executable, "-m", "laminar_dagster.cli"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the demo project, with nothing in it yet."""
    shutil.copytree(ROOT / "assets", tmp_path / "assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("laminar.toml", "workspace.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def home(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory that marks, as part of their environment, all processes that the test starts."""
    monkeypatch.setenv("LAMINAR_HOME", str(project / ".laminar"))
    yield project / ".laminar"
    for pid in started_with(project / ".laminar"):
        os.kill(pid, signal.SIGKILL)


def started_with(home: Path) -> list[int]:
    """The processes whose environment names this state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            found += [int(entry.name)] if f"LAMINAR_HOME={home}\0".encode() in environment else []
    return found


def until(holds: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_everything_is_started_spark_comes_back_and_a_signal_ends_all(project: Path, home: Path) -> None:
    PROCESS_FILES.require()
    port = free_port(None, 0, next_command="")
    command = [*LAMINAR, "dev", "--project", str(project), "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        until(lambda: answers(f"http://127.0.0.1:{port}") and connect_server.status().state == "running")
        first = connect_server.status()
        assert first.url is not None
        assert first.pid is not None
        assert len(started_with(home)) >= 5
        os.kill(first.pid, signal.SIGKILL)
        spark = open_session(replace(SparkSettings.for_tests(first.url), unreachable="wait"))
        assert is_connect(spark)
        assert spark.range(3).count() == 3
        spark.stop()
        second = connect_server.status()
        assert (second.url, second.state) == (first.url, "running")
        assert second.pid != first.pid
        running.send_signal(signal.SIGTERM)
        printed = running.communicate(timeout=120)[0]
    assert running.returncode == 0
    assert started_with(home) == []
    assert f"Dagster is up: http://127.0.0.1:{port}" in printed
    assert f"Spark Connect server, process {first.pid}, is gone: starting it again" in printed
    assert printed.endswith("stopping\nstopped\n")


@pytest.mark.programs
def test_ctrl_c_ends_all_and_what_dagster_knows_stays(project: Path, home: Path) -> None:
    """A terminal sends the signal to the whole group: `make`, `laminar` and whatever they started in it."""
    PROCESS_FILES.require()
    port = free_port(None, 0, next_command="")
    command = [*LAMINAR, "dev", "--project", str(project), "--in-process", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
        until(lambda: answers(f"http://127.0.0.1:{port}"))
        os.killpg(running.pid, signal.SIGINT)
        printed = running.communicate(timeout=120)[0]
    assert running.returncode == 0
    assert printed.endswith("stopping\nstopped\n")
    assert started_with(home) == []
    kept = project / ".laminar" / "dagster"
    assert (kept / "dagster.yaml").read_text() == CONFIG.read_text()
    assert (kept / "history").is_dir()
    assert (kept / "schedules").is_dir()


@pytest.mark.programs
def test_dagster_that_cannot_start_is_an_error_with_its_own_words(project: Path, home: Path) -> None:
    (project / "workspace.yaml").write_text("load_from: [{python_fiel: assets/definitions.py}]\n")
    ran = CliRunner().invoke(app, ["dev", "--project", str(project), "--in-process"])
    assert isinstance(ran.exception, LaminarError)
    assert ran.exception.code == "LMR0522"
    assert "python_fiel" in str(ran.exception)
    assert started_with(home) == []


def test_a_second_one_for_the_same_project_is_refused(project: Path, home: Path) -> None:
    lock = project / ".laminar" / "dagster" / "dev.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = CliRunner().invoke(app, ["dev", "--project", str(project)])
    assert isinstance(ran.exception, LaminarError)
    assert ran.exception.code == "LMR0521"


def test_a_port_that_is_taken_is_refused(project: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = CliRunner().invoke(app, ["dev", "--project", str(project), "--in-process", "--port", str(port)])
    assert isinstance(ran.exception, LaminarError)
    assert ran.exception.code == "LMR0509"


def test_without_the_web_server_the_remedy_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "find_spec", lambda name: None)
    ran = CliRunner().invoke(app, ["dev", "--project", str(project)])
    assert isinstance(ran.exception, LaminarError)
    assert ran.exception.code == "LMR0520"


def test_its_settings_of_dagster_are_taken(tmp_path: Path) -> None:
    shutil.copy(CONFIG, tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
        queue = instance.get_concurrency_config().run_queue_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is not None
        assert pools.pool_granularity.value == "run"
        assert queue is not None
        assert queue.max_concurrent_runs == 2
        assert instance.run_coordinator.dequeue_interval_seconds == 1  # type: ignore[attr-defined]
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled


def test_a_server_that_is_gone_is_told_in_the_log_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SECONDS_TO_WAIT", 0.1)

    @dg.asset
    def tick() -> None:
        with pytest.raises(LaminarError):
            open_session(SparkSettings("sc://127.0.0.1:1", unreachable="wait"))

    logged = {"python_logs": yaml.safe_load(CONFIG.read_text())["python_logs"]}
    with dg.instance_for_test(overrides=logged) as instance:
        run = dg.materialize([tick], instance=instance)
        told = [record.user_message for record in instance.all_logs(run.run_id)]
    assert any("no Spark Connect server answers at sc://127.0.0.1:1: waiting for it" in line for line in told)
