"""The local Connect server is started once, told apart from other processes, and ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.session import SparkSettings, open_session
from laminar_dagster.engine.supervising import SupervisedServer
from laminar_dagster.errors import LaminarError


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty state directory, and no server of it left behind."""
    monkeypatch.setenv("LAMINAR_HOME", str(tmp_path))
    yield tmp_path
    connect_server.stop()


def write_record(home: Path, pid: int, port: int = 1, token: str = "none") -> None:
    record = {"pid": pid, "port": port, "token": token, "started_at": "2026-01-01T00:00:00+00:00"}
    (home / "spark-connect.json").write_text(json.dumps(record))


def sleeping(token: str) -> subprocess.Popen[bytes]:
    code = "import time; print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, f"spark.laminar.server={token}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_without_a_pid_file_the_server_is_stopped(home: Path) -> None:
    assert connect_server.status().state == "stopped"
    assert connect_server.stop() is False


def test_a_process_that_only_has_the_number_is_left_alone(home: Path) -> None:
    write_record(home, os.getpid())
    assert connect_server.status().state == "stopped"
    assert connect_server.stop() is False
    assert not (home / "spark-connect.json").exists()


def test_a_damaged_pid_file_counts_as_none(home: Path) -> None:
    (home / "spark-connect.json").write_text('{"pid": 1')
    assert connect_server.status().state == "stopped"


def test_a_process_of_ours_whose_port_is_silent_is_unhealthy_and_can_be_ended(home: Path) -> None:
    with sleeping("abc") as process:
        write_record(home, process.pid, port=1, token="abc")
        found = connect_server.status()
        connect_server._children[process.pid] = process
        assert (found.state, found.pid, found.url) == ("unhealthy", process.pid, "sc://127.0.0.1:1")
        assert connect_server.stop() is True
        assert process.wait(timeout=10) != 0
    assert connect_server.status().state == "stopped"


def test_a_taken_port_is_a_named_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LaminarError, match="LMR0509"):
            connect_server.start(port)


@pytest.mark.parametrize("marker", ["laminar.toml", "sql/views.sql"])
def test_the_state_directory_lies_in_the_project_from_any_of_its_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, marker: str
) -> None:
    monkeypatch.delenv("LAMINAR_HOME")
    below = tmp_path / "a" / "b"
    for folder in (below, tmp_path / "sql"):
        folder.mkdir(parents=True)
    (tmp_path / marker).write_text("")
    for place in (tmp_path, tmp_path / "sql", below):
        monkeypatch.chdir(place)
        assert connect_server.state_directory() == tmp_path / ".laminar"
    monkeypatch.chdir("/")
    assert connect_server.state_directory(below) == connect_server.status(below).log.parent == tmp_path / ".laminar"


@pytest.mark.spark
def test_a_server_that_cannot_start_shows_its_log(home: Path) -> None:
    with pytest.raises(LaminarError, match="LMR0507") as caught:
        connect_server.start(settings=SparkSettings(jvm_options="-XX:+UseSerialGC -XX:+UseParallelGC"))
    assert "multiple garbage collectors" in str(caught.value).lower()
    assert connect_server.status().state == "stopped"


@pytest.mark.spark
def test_a_running_server_says_where_and_since_when(connect_url: str) -> None:
    found = connect_server.status()
    assert (found.state, found.url) == ("running", connect_url)
    assert found.uptime is not None
    assert timedelta(0) < found.uptime < timedelta(hours=1)
    assert found.log.is_file()


@pytest.mark.spark
def test_a_server_that_ran_already_is_used_and_left_running(connect_url: str) -> None:
    told: list[str] = []
    before = connect_server.status()
    supervised = SupervisedServer(SparkSettings.for_tests(), connect_server.port_to_use(), told.append, lambda: False)
    supervised.look()
    supervised.look()
    supervised.end()
    assert told == [f"Spark Connect server at {connect_url}, process {before.pid}, was running already"]
    assert connect_server.status().pid == before.pid


@pytest.mark.spark
def test_a_server_that_cannot_start_is_tried_again_later(home: Path) -> None:
    told: list[str] = []
    settings = SparkSettings(jvm_options="-XX:+UseSerialGC -XX:+UseParallelGC")
    supervised = SupervisedServer(settings, connect_server.port_to_use(), told.append, lambda: False)
    supervised.look()
    supervised.look()
    assert len(told) == 1
    assert "[LMR0507]" in told[0]
    assert told[0].endswith("next try in 2 seconds")


@pytest.mark.spark
def test_a_start_that_nobody_waits_for_any_more_leaves_no_process(home: Path) -> None:
    told: list[str] = []
    before = set(connect_server._children)
    supervised = SupervisedServer(SparkSettings.for_tests(), connect_server.port_to_use(), told.append, lambda: True)
    supervised.look()
    assert told == []
    assert connect_server.status().state == "stopped"
    begun = [child for pid, child in connect_server._children.items() if pid not in before]
    assert [child.wait(timeout=10) for child in begun] in ([], [-signal.SIGTERM], [128 + signal.SIGTERM])


@pytest.mark.spark
def test_a_second_start_finds_the_first(connect_url: str) -> None:
    before = connect_server.status()
    assert connect_server.start().pid == before.pid
    with pytest.raises(LaminarError, match="LMR0509"):
        connect_server.start(port=1)


@pytest.mark.spark
def test_a_server_is_started_used_and_ended(home: Path) -> None:
    started = connect_server.start(settings=SparkSettings.for_tests())
    assert started.url is not None
    assert started.pid is not None
    session = open_session(SparkSettings.for_tests(started.url))
    assert session.range(4).count() == 4
    session.stop()
    assert connect_server.stop() is True
    assert connect_server.status().state == "stopped"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", started.port or 0), timeout=2)
