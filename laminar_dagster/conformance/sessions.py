"""The Spark sessions that cases run on: opened when the first case needs one, and kept for the others."""

from __future__ import annotations

import atexit
from functools import cache
from typing import TYPE_CHECKING

from laminar_dagster.engine import connect_server
from laminar_dagster.engine.session import SparkSettings, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def in_process() -> SparkSession:
    return open_session(SparkSettings.for_tests())


@cache
def over_connect() -> SparkSession:
    """The server that the environment names, else the local one, started for the occasion if it does not run."""
    chosen = SparkSettings.from_environment()
    return open_session(SparkSettings.for_tests(chosen.spark if chosen.is_connect else _local_server()))


def _local_server() -> str:
    if connect_server.status().state != "running":
        connect_server.start(settings=SparkSettings.for_tests())
        atexit.register(connect_server.stop)
    url = connect_server.status().url
    assert url is not None
    return url
