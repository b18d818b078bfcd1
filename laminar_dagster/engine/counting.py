"""Counts the rows of a frame in passing: the numbers are there once the frame has been brought or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from laminar_dagster.engine.session import functions_of, observation_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTHING_OBSERVED = "java.lang.AssertionError"


class Counting:
    """`frame` is the frame to go on with; `name` tells it from others of the session."""

    def __init__(self, spark: SparkSession, frame: DataFrame, name: str, measures: Mapping[str, str]) -> None:
        expr = functions_of(spark).expr
        self._plain = frame
        self._measures = [expr(f"{sql} AS {name}") for name, sql in measures.items()]
        self._seen = observation_for(spark, name)
        self.frame: DataFrame = frame.observe(self._seen, *self._measures)

    def numbers(self) -> dict[str, int]:
        """By the name of each measure. Where Spark has folded the plan to nothing, it observed nothing: ask again."""
        found = _observed(self._seen) or self._plain.agg(*self._measures).collect()[0].asDict()
        return {name: int(value or 0) for name, value in found.items()}


def _observed(seen: Any) -> dict[str, Any]:
    try:
        return dict(seen.get)
    except Py4JJavaError as problem:
        if problem.java_exception.getClass().getName() != NOTHING_OBSERVED:
            raise
        return {}
