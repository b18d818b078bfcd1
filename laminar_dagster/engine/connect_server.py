"""Runs a Spark Connect server on this machine that stays warm between runs and is shared by all of them.

A fresh JVM costs every run some ten seconds; a connection to a running server costs two. What was started is
written down in the state directory, and the server's command line carries a token, so that `stop` ends the
process that `start` began and never another one that happens to have its number.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from laminar_dagster.engine.jars import spark_home
from laminar_dagster.engine.java import find_java
from laminar_dagster.engine.ports import free_port
from laminar_dagster.engine.project_root import place_of
from laminar_dagster.engine.session import DEFAULT_PORT, LOOPBACK, SparkSettings, spark_environment, startup_conf, tail
from laminar_dagster.errors import LaminarError
from laminar_dagster.sql.local_paths import require_local

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 20.0

# Popen objects of servers that this process started, kept so that ended ones are reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class ServerStatus:
    """What is known of the local server; `unhealthy`: the process lives, its port does not answer."""

    state: Literal["running", "stopped", "unhealthy"]
    log: Path
    pid: int | None = None
    port: int | None = None
    started_at: datetime | None = None

    @property
    def url(self) -> str | None:
        return None if self.port is None else f"sc://{LOOPBACK}:{self.port}"

    @property
    def uptime(self) -> timedelta | None:
        return None if self.started_at is None else datetime.now(UTC) - self.started_at


@dataclass(frozen=True)
class _Record:
    """The pid file."""

    pid: int
    port: int
    token: str
    started_at: str


def start(
    port: int | None = None, settings: SparkSettings | None = None, given_up: Callable[[], bool] = lambda: False
) -> ServerStatus:
    """Start the server unless it runs, and wait until it answers, or until whoever waits has given up.

    Without a port: 15002, or a free one where that is taken.
    """
    find_java()
    chosen = settings or SparkSettings.from_environment()
    if chosen.is_connect:
        chosen = replace(chosen, spark="local[*]")
    with _lock():
        found = status()
        if found.state == "running":
            _refuse_another_port(found, port)
            return found
        if found.state == "unhealthy":
            _end()
        return _start(_port(port), chosen, given_up)


def port_to_use() -> int:
    """Where the server is, or will be if it is started now."""
    return status().port or _port(None)


def status(project: Path | None = None) -> ServerStatus:
    """Whether the server of a project (default: the working directory's) runs, and where."""
    record = _read_record(project)
    if record is None or not _is_ours(record):
        return ServerStatus("stopped", log_file(project))
    return ServerStatus(
        "running" if _answers(record.port) else "unhealthy",
        log_file(project),
        record.pid,
        record.port,
        datetime.fromisoformat(record.started_at),
    )


def stop() -> bool:
    """End the server that `start` began; False when none runs."""
    with _lock():
        return _end()


def state_directory(project: Path | None = None) -> Path:
    """LAMINAR_HOME, else `.laminar` in the root of the project that this (or the working) directory belongs to."""
    chosen = os.environ.get("LAMINAR_HOME")
    if not chosen:
        return place_of(project).root / ".laminar"
    require_local("LAMINAR_HOME", chosen)
    return Path(chosen).expanduser().absolute()


def log_file(project: Path | None = None) -> Path:
    """Where the server's output goes."""
    return state_directory(project) / "spark-connect.log"


def _pid_file(project: Path | None = None) -> Path:
    return state_directory(project) / "spark-connect.json"


def _port(wanted: int | None) -> int:
    return free_port(wanted, DEFAULT_PORT, next_command="laminar spark start")


def _start(port: int, settings: SparkSettings, given_up: Callable[[], bool]) -> ServerStatus:
    token = uuid.uuid4().hex
    command = _command(port, token, settings)
    with spark_environment(one_machine=True) as environment, log_file().open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    _children[process.pid] = process
    _write_record(_Record(process.pid, port, token, datetime.now(UTC).isoformat()))
    _wait_until_it_answers(process, port, given_up)
    return status()


def _command(port: int, token: str, settings: SparkSettings) -> list[str]:
    conf = {
        **startup_conf(settings),
        "spark.app.name": "laminar-connect",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.laminar.server": token,
    }
    flags = [argument for key, value in conf.items() for argument in ("--conf", f"{key}={value}")]
    submit = str(spark_home() / "bin" / "spark-submit")
    return [submit, "--master", settings.spark, *flags, "--class", SERVER_CLASS, "spark-internal"]


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, given_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and not given_up():
        if process.poll() is not None:
            _pid_file().unlink(missing_ok=True)
            raise _not_started(f"It ended with status {process.returncode}.")
        if _answers(port):
            return
        time.sleep(0.1)
    _end()
    waited = "before it was told to stop" if given_up() else f"within {SECONDS_TO_START:.0f} seconds"
    raise _not_started(f"It did not answer on port {port} {waited}.")


def _end() -> bool:
    record = _read_record()
    ended = record is not None and _is_ours(record)
    if record is not None and ended:
        _signal(record, signal.SIGTERM)
        if not _gone(record, SECONDS_TO_STOP):
            _signal(record, signal.SIGKILL)
            _gone(record, SECONDS_TO_STOP)
    _pid_file().unlink(missing_ok=True)
    return ended


def _signal(record: _Record, number: signal.Signals) -> None:
    if _is_ours(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)


def _gone(record: _Record, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        child = _children.get(record.pid)
        if child is not None and child.poll() is not None:
            del _children[record.pid]
        # A process on its way out has lost its command line while its sockets still answer.
        if not _is_ours(record) and not _answers(record.port):
            return True
        time.sleep(0.05)
    return False


def _is_ours(record: _Record) -> bool:
    """A child that lives is ours, also while it has no command line yet: its number cannot be another's."""
    child = _children.get(record.pid)
    if child is not None and child.poll() is None:
        return True
    return f"spark.laminar.server={record.token}" in _command_line(record.pid)


def _command_line(pid: int) -> str:
    """The command line of a process; empty when there is no such process (or only its remains)."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def _read_record(project: Path | None = None) -> _Record | None:
    try:
        return _Record(**json.loads(_pid_file(project).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _write_record(record: _Record) -> None:
    whole = _pid_file().with_suffix(".new")
    whole.write_text(json.dumps(asdict(record)), encoding="utf-8")
    whole.replace(_pid_file())


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """One start or stop at a time, so that two runs that both want a server share one."""
    state_directory().mkdir(parents=True, exist_ok=True)
    with (state_directory() / "spark-connect.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
        return True
    return False


def _refuse_another_port(found: ServerStatus, port: int | None) -> None:
    if port is not None and port != found.port:
        raise LaminarError(
            "LMR0509",
            f"the server already runs on port {found.port}, not on {port}",
            detail=f"Process {found.pid}, {found.url}.",
            hint=f"Use {found.url}, or stop it first.",
            next_command="laminar spark stop",
        )


def _not_started(detail: str) -> LaminarError:
    return LaminarError(
        "LMR0507",
        "the Spark Connect server did not start",
        detail=f"{detail}\n{tail(log_file())}".strip(),
        hint=f"The whole log is {log_file()}. `laminar doctor` checks Java, jars and ports.",
        next_command="laminar doctor",
    )
