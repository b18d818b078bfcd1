"""`laminar dev`: Dagster's web server and daemon over the project, with a Spark Connect server that stays up."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Annotated
from urllib.parse import urlsplit

import typer

from laminar_dagster.cli.options import ProjectOption, project_of
from laminar_dagster.engine import connect_server
from laminar_dagster.engine.ports import free_port
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import LOOPBACK, tail
from laminar_dagster.engine.supervising import SupervisedServer
from laminar_dagster.errors import LaminarError

HOME = Path(".laminar", "dagster")
DEFAULT_WEB_PORT = 3000
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_STOP = 25.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def dev(
    project: ProjectOption = None,
    host: Annotated[str, typer.Option(help="Where the web server listens.")] = LOOPBACK,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The web server's port. Default: 3000, or a free one.")
    ] = None,
    server: Annotated[
        bool, typer.Option("--server/--in-process", help="One Spark for all runs, or one that starts with each run.")
    ] = True,
) -> None:
    """Start Dagster's web server and daemon, and a Spark Connect server; Ctrl-C stops all of them."""
    found = project_of(project, None)
    _require_web_server()
    with ExitStack() as started:
        home = started.enter_context(_own_home(found))
        stopping = started.enter_context(_stopping_on_signals())
        spark = _supervised(found, stopping) if server else None
        if spark is not None:
            started.callback(spark.end)
        chosen = free_port(port, DEFAULT_WEB_PORT, host=host, next_command="laminar dev")
        dagster = started.enter_context(_dagster(found, home, host, chosen, _environment(found, home, spark)))
        _watch(dagster, spark, stopping, f"http://{host}:{chosen}", home)
        typer.echo("stopping")
    typer.echo("stopped")


def _require_web_server() -> None:
    if find_spec("dagster_webserver") is None:
        raise LaminarError(
            "LMR0520",
            "Dagster's web server is not installed",
            hint="Install it: pip install 'laminar-dagster[ui]'.",
        )


@contextmanager
def _own_home(project: Project) -> Iterator[Path]:
    """The project's DAGSTER_HOME, for one `laminar dev` at a time: two daemons would run every schedule twice."""
    home = project.root / HOME
    home.mkdir(parents=True, exist_ok=True)
    with (home / "dev.lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaminarError(
                "LMR0521",
                "`laminar dev` already runs for this project",
                detail=f"{home} is in use",
                hint="Use the one that runs, or end it with Ctrl-C.",
            ) from None
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(str(files("laminar_dagster.integration") / "dagster.yaml"), home / "dagster.yaml")
        yield home


@contextmanager
def _stopping_on_signals() -> Iterator[Event]:
    """An event that a signal sets, so that no signal finds a process half started."""
    stopping = Event()
    found = {number: signal.signal(number, lambda *_: stopping.set()) for number in SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)


def _supervised(project: Project, stopping: Event) -> SupervisedServer | None:
    """The server to keep up: none where the project is set up for a Spark elsewhere."""
    os.environ.setdefault("LAMINAR_HOME", str(project.root / ".laminar"))
    settings = project.spark_settings()
    address = urlsplit(settings.spark)
    if settings.is_connect and address.hostname in (LOOPBACK, "localhost"):
        return SupervisedServer(settings, address.port or connect_server.port_to_use(), typer.echo, stopping.is_set)
    if not settings.spark.startswith("local"):
        return None
    return SupervisedServer(settings, connect_server.port_to_use(), typer.echo, stopping.is_set)


def _environment(project: Project, home: Path, spark: SupervisedServer | None) -> dict[str, str]:
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    if spark is None:
        return environment
    # The server comes back when it dies, so a run waits, unless somebody wants it otherwise.
    unreachable = os.environ.get("LAMINAR_SPARK_UNREACHABLE") or project.spark_unreachable or "wait"
    address = {"LAMINAR_SPARK": f"sc://{LOOPBACK}:{spark.port}", "LAMINAR_SPARK_UNREACHABLE": unreachable}
    return {**environment, **address}


@contextmanager
def _dagster(
    project: Project, home: Path, host: str, port: int, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """`dagster dev` with all that it starts in a process group of its own, of which nothing is left at the end."""
    workspace = ["-w", "workspace.yaml"] if (project.root / "workspace.yaml").exists() else []
    command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port), *workspace]
    with _log(home).open("wb") as log:
        process = subprocess.Popen(
            command, cwd=project.root, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_STOP)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch(
    dagster: subprocess.Popen[bytes], spark: SupervisedServer | None, stopping: Event, url: str, home: Path
) -> None:
    """Look after both until a signal comes, or until Dagster ends by itself."""
    typer.echo("starting Dagster and Spark" if spark else "starting Dagster")
    welcomed = False
    while not stopping.is_set():
        if dagster.poll() is not None:
            raise _ended(dagster, home)
        if spark is not None:
            spark.look()
        if not welcomed and _answers(url):
            welcomed = True
            typer.echo(_welcome(url, home))
        stopping.wait(SECONDS_BETWEEN_LOOKS)


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/server_info", timeout=1.0) as answer:
        return bool(answer.status == 200)
    return False


def _welcome(url: str, home: Path) -> str:
    return f"""
Dagster is up: {url}

  see       {url}/asset-groups   what depends on what
  tick      a view's state: Materialize. It takes what is new, and closes the windows that are due
  backfill  a view itself: Materialize, and choose its days
  schedule  {url}/automation   what ticks by itself

The log is {_log(home)}. Ctrl-C stops everything.
"""


def _log(home: Path) -> Path:
    return home / "dev.log"


def _ended(dagster: subprocess.Popen[bytes], home: Path) -> LaminarError:
    return LaminarError(
        "LMR0522",
        f"Dagster ended by itself, with status {dagster.returncode}",
        detail=tail(_log(home)),
        hint=f"The whole log is {_log(home)}.",
        next_command="dagster definitions validate",
    )
