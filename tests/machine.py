"""What tests need of the machine besides Python and Java; where it is missing they are skipped, and the run says so."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from laminar_dagster.engine.jars import BUNDLES, jars_of
from laminar_dagster.errors import LaminarError
from tests.browser.chromium import NAMES, find_chromium
from tests.kafka.broker import BROKER

SECOND_USER = "nobody"


@dataclass(frozen=True)
class Need:
    """A part of the machine: what the tests do with it, and what is missing (None: nothing is)."""

    what: str
    missing: Callable[[], str | None]
    remedy: str

    def require(self) -> None:
        """Skip the test that asks, where this machine does not have it."""
        missing = self.missing()
        if missing is not None:
            pytest.skip(f"{self.what}: {missing}. {self.remedy}")


def _no_chromium() -> str | None:
    return f"none of {', '.join(NAMES)} is on PATH" if find_chromium() is None else None


@cache
def _no_kafka_jars() -> str | None:
    """Fetched by the first test that asks, and kept in the cache of jars from then on."""
    try:
        for bundle in (BUNDLES["kafka"](), BROKER):
            jars_of(bundle)
    except LaminarError as error:
        return error.problem
    return None


def _no_second_user() -> str | None:
    if os.geteuid() != 0:
        return "only root can act as another user"
    return None if SECOND_USER in {user.pw_name for user in pwd.getpwall()} else f"there is no user {SECOND_USER}"


def _no_mounts() -> str | None:
    if shutil.which("unshare") is None:
        return "there is no `unshare`"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else "this user may not make a mount namespace"


def _no_process_files() -> str | None:
    return None if Path("/proc/self/environ").exists() else "there is no /proc, by which processes are told apart"


CHROMIUM = Need("the web interface, in a browser", _no_chromium, "`make browser` installs one, or says how.")
KAFKA = Need("a Kafka broker", _no_kafka_jars, "Its jars come from Maven Central: run once with a network.")
MOUNTS = Need("disks that only one process sees", _no_mounts, "Run the tests as root, on Linux.")
PROCESS_FILES = Need("processes that are left over", _no_process_files, "Run the tests on Linux.")
TWO_USERS = Need("another user of the machine", _no_second_user, "Run the tests as root, in a container.")


@contextmanager
def as_second_user() -> Iterator[None]:
    """What this process opens in the block, it opens with the rights of another user."""
    TWO_USERS.require()
    user = pwd.getpwnam(SECOND_USER)
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def skipped(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each reason: how many tests were skipped for it."""
    reasons = Counter(_reason(report) for report in reports)
    return [f"{count} skipped: {reason}" for reason, count in sorted(reasons.items())]


def _reason(report: pytest.TestReport) -> str:
    found = report.longrepr
    return str(found[2] if isinstance(found, tuple) else found).removeprefix("Skipped: ")
