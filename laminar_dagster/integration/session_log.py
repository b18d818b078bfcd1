"""A Spark session whose opening is told in the run's own log: which Spark, and what became of one that is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laminar_dagster.engine import session as engine_session
from laminar_dagster.engine.project import Project
from laminar_dagster.integration.resource import LaminarResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told_session(resource: LaminarResource, project: Project, log: logging.Logger) -> SparkSession:
    with _told(log):
        return resource.open_session(project)


@contextmanager
def _told(log: logging.Logger) -> Iterator[None]:
    """Dagster shows a run what is logged to its own logger; of others, only those that its settings name."""
    handler, own = _Passing(log), engine_session.log
    own.addHandler(handler)
    own.propagate = False
    try:
        yield
    finally:
        own.propagate = True
        own.removeHandler(handler)


class _Passing(logging.Handler):
    def __init__(self, target: logging.Logger) -> None:
        super().__init__(logging.INFO)
        self.target = target

    def emit(self, record: logging.LogRecord) -> None:
        self.target.log(record.levelno, record.getMessage())
