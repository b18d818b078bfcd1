"""`laminar doctor`: is everything here that a run needs, and if not, what to do."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from laminar_dagster.cli.options import DataOption, ProjectOption, project_of
from laminar_dagster.engine import connect_server
from laminar_dagster.engine.jars import missing_jars
from laminar_dagster.engine.java import find_java
from laminar_dagster.engine.project import Project
from laminar_dagster.engine.project_root import CONFIG
from laminar_dagster.errors import LaminarError
from state_store import StoreError

PINNED = {"pyspark": "4.2.0", "delta-spark": "4.4.0", "deltalake": "1.6", "dagster": "1.13.27"}


def doctor(project: ProjectOption = None, data: DataOption = None) -> None:
    """Check Java, jars, versions, ports, write access and the project's SQL. Exit code 1 if something is wrong."""
    found = project_of(project, data)
    checks: dict[str, Callable[[], str]] = {
        "python": _python,
        "java": _java,
        "versions": _versions,
        **{f"{bundle} jars": partial(_jars, bundle) for bundle in found.bundles()},
        "loopback ports": _ports,
        "connect server": lambda: _connect_server(found.root),
        "project": lambda: _project(found),
        "write access": lambda: _write_access(found.data),
        "views": lambda: _views(found),
    }
    results = [_tell(name, check) for name, check in checks.items()]
    raise typer.Exit(0 if all(results) else 1)


def _tell(name: str, check: Callable[[], str]) -> bool:
    try:
        typer.echo(f"ok    {name:<15} {check()}")
    except (LaminarError, StoreError) as error:
        indented = error.render().replace("\n", "\n" + " " * 22)
        typer.echo(f"WRONG {name:<15} {indented}")
        return False
    return True


def _python() -> str:
    return sys.version.split()[0]


def _java() -> str:
    found = find_java()
    return f"{found.version} ({found.path})"


def _versions() -> str:
    found = {name: _version(name) for name in PINNED}
    wrong = [name for name, wanted in PINNED.items() if not found[name].startswith(wanted)]
    if wrong:
        raise LaminarError(
            "LMR0510",
            f"versions that were not tested together: {', '.join(f'{n} {found[n]}' for n in wrong)}",
            hint="Install " + ", ".join(f"{name} {PINNED[name]}" for name in wrong) + " (make setup does).",
        )
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _jars(bundle: str) -> str:
    missing = missing_jars(bundle)
    if missing:
        raise LaminarError(
            "LMR0503",
            f"{len(missing)} of the {bundle} jars are not in the cache",
            detail=", ".join(missing),
            next_command=f"python -m laminar_dagster.engine.jars {bundle}",
        )
    return "all in the cache"


def _ports() -> str:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as problem:
            raise LaminarError(
                "LMR0511", "no port can be opened on the loopback interface", detail=str(problem)
            ) from problem
    return "can be opened"


def _connect_server(project: Path) -> str:
    found = connect_server.status(project)
    return "not running (optional)" if found.state == "stopped" else f"{found.state} at {found.url}"


def _write_access(data: Path) -> str:
    nearest = next(folder for folder in (data, *data.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        raise LaminarError(
            "LMR0512",
            f"the data directory cannot be written: {data}",
            hint="Give yourself write access, or choose another directory with --data or in laminar.toml.",
        )
    return str(data)


def _project(project: Project) -> str:
    told = CONFIG if (project.root / CONFIG).is_file() else f"no {CONFIG}"
    return f"{project.root} ({told}), SQL in {project.sql}"


def _views(project: Project) -> str:
    found = project.planned()
    plans, wrong = found.plans, [error for errors in found.refused.values() for error in errors]
    if wrong:
        more = [f"{error.problem} [{error.code}]" for error in wrong[1:]]
        raise LaminarError(
            wrong[0].code,
            wrong[0].problem,
            where=wrong[0].where,
            detail="\n".join([*([wrong[0].detail] if wrong[0].detail else []), *more]) or None,
            hint=wrong[0].hint,
        )
    return f"{len(plans)} planned: {', '.join(plan.query.view for plan in plans)}"
