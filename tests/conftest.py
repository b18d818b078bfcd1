"""What the whole suite shares: the order of tests, sessions of Spark, a broker, and the last lines of a run."""

from __future__ import annotations

import fcntl
import gc
import os
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.session import LIGHT_JVM, SparkSettings, open_session
from tests.kafka.broker import Broker
from tests.laws.examples import IS_SEARCH, load_profile
from tests.laws.searching import is_law, report, search
from tests.machine import KAFKA, skipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The worker's name; None where all tests run in one process.
WORKER = os.environ.get("PYTEST_XDIST_WORKER")

load_profile()

# Folders whose tests share a program that is costly to start.
TOGETHER = ("kafka",)
# These go first, then all that need Spark: what is left at the end is small.
LONGEST = (
    "test_interface.py",
    "test_spark.py",
    "test_corrections.py",
    "test_benchmarks.py",
    "test_source.py",
    "test_corrected_chains.py",
    "test_killed_processes.py",
    "test_dev.py",
    "test_change_feed_laws.py",
    "test_commands.py",
    "test_update_laws.py",
    "test_gap_fill.py",
    "test_maintenance.py",
    "test_vacuum.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path not in on_spark))
    seed = config.getoption("--shuffle")
    if seed is not None:
        # Files in another order, and the tests of each file, too: what shares a fixture stays together.
        dice = random.Random(seed)
        place = {path: dice.random() for path in sorted({item.path for item in items})}
        dice.shuffle(items)
        items.sort(key=lambda item: place[item.path])


class ByFile(LoadFileScheduling):
    """The tests of a file stay on one worker, and so do all that share a program."""

    def _split_scope(self, nodeid: str) -> str:
        path = super()._split_scope(nodeid)
        folder = Path(path).parent.name
        return folder if folder in TOGETHER else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """In a search, a law is run for its share of the time and not once."""
    if not IS_SEARCH or not is_law(pyfuncitem):
        return None
    search(pyfuncitem)
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, help="Run the tests in another order, which this number tells")
    parser.addoption("--skip-nothing", action="store_true", help="A test that would be skipped fails (CI)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--skip-nothing"):
        report.outcome = "failed"
        report.longrepr = f"it was skipped, and nothing may be: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last lines: what this machine could not show, and what a search has found."""
    stats = terminalreporter.stats
    for line in skipped(stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)
    if IS_SEARCH:
        report([*stats.get("passed", []), *stats.get("failed", [])], terminalreporter.write_line)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector of garbage need not go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests start and stop servers of their own, never the one that the developer uses; workers share a directory."""
    saved = dict(os.environ)
    own = tmp_path_factory.getbasetemp()
    os.environ["LAMINAR_HOME"] = str((own.parent if WORKER else own) / "laminar-home")
    for name in ("LAMINAR_SPARK", "LAMINAR_SHUFFLE_PARTITIONS", "LAMINAR_DRIVER_MEMORY"):
        os.environ.pop(name, None)
    # Programs that tests start have a JVM of their own, for half a minute.
    os.environ["LAMINAR_JVM_OPTIONS"] = LIGHT_JVM
    yield
    os.environ.clear()
    os.environ.update(saved)


@pytest.fixture(scope="session")
def bundles(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The jars of this run: Kafka's only where some test wants a broker, and they can be had."""
    wanted = any("kafka_broker" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return ("delta", "kafka") if wanted and KAFKA.missing() is None else ("delta",)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, started once."""
    KAFKA.require()
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def spark(bundles: tuple[str, ...]) -> Iterator[SparkSession]:
    """An in-process session."""
    session = open_session(SparkSettings.for_tests(bundles=bundles))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_url(bundles: tuple[str, ...]) -> Iterator[str]:
    """The address of a Connect server, started once for all workers; the last one that uses it ends it."""
    with users_of_the_server() as users:
        (users / (WORKER or "only")).touch()
        started = connect_server.start(settings=SparkSettings.for_tests(bundles=bundles))
    assert started.url is not None
    yield started.url
    with users_of_the_server() as users:
        (users / (WORKER or "only")).unlink()
        if not any(users.iterdir()):
            connect_server.stop()


@contextmanager
def users_of_the_server() -> Iterator[Path]:
    """A folder with a file for each worker that uses the server; one worker at a time may look and act."""
    users = connect_server.state_directory() / "users"
    users.mkdir(parents=True, exist_ok=True)
    with users.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield users


@pytest.fixture(scope="session")
def connect_spark(connect_url: str) -> Iterator[SparkSession]:
    """A session over Connect."""
    session = open_session(SparkSettings.for_tests(connect_url))
    yield session
    session.stop()


@pytest.fixture(params=["spark", "connect_spark"])
def either_spark(request: pytest.FixtureRequest) -> SparkSession:
    """The test runs twice: in process and over Connect."""
    session: SparkSession = request.getfixturevalue(request.param)
    return session
