"""Spark sessions for the whole suite: each kind is started once, when the first test asks for it."""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.session import SparkSettings, open_session
from tests.kafka.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The worker's name; None where all tests run in one process.
WORKER = os.environ.get("PYTEST_XDIST_WORKER")

# How long an example takes says more about the machine than about the code.
settings.register_profile("laminar", deadline=None)
settings.load_profile("laminar")

# These go first, then all that need Spark: what is left at the end is small.
LONGEST = (
    "test_interface.py",
    "test_spark.py",
    "test_killed_processes.py",
    "test_change_feed_laws.py",
    "test_benchmarks.py",
    "test_commands.py",
    "test_update_laws.py",
    "test_vacuum.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path not in on_spark))


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
    yield
    os.environ.clear()
    os.environ.update(saved)


@pytest.fixture(scope="session")
def bundles(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The jars of this run: Kafka's only where some test wants a broker."""
    wanted = any("kafka_broker" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return ("delta", "kafka") if wanted else ("delta",)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, started once."""
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
