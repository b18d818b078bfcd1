"""Fewer round trips to the JVM of this process: an epoch is some hundred calls, of part of a millisecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What pyspark looks up anew at every call, which searches the jars for it: a millisecond each, hundreds in an epoch.
LOOKED_UP: Mapping[str, tuple[str, ...]] = {
    "PythonUtils": ("toSeq",),
    "functions": ("col",),
    "org.apache.spark.sql.functions": ("expr",),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession",),
    "org.apache.spark.sql.Observation": (),
    "org.apache.spark.sql.api.python.PythonSQLUtils": (),
}


def save_round_trips(gateway: Any) -> None:
    _remember_classes(gateway.jvm)
    converters = gateway._gateway_client.converters
    if not any(isinstance(converter, TextsConverter) for converter in converters):
        converters.insert(0, TextsConverter())


def _remember_classes(jvm: Any) -> None:
    """Keep classes and their methods where py4j looks before it asks the JVM."""
    for name, methods in LOOKED_UP.items():
        found = getattr(jvm, name)
        for method in methods:
            setattr(found, method, getattr(found, method))
        setattr(jvm, name, found)


class TextsConverter:
    """Hands a list of texts over in one call; py4j does it element by element."""

    BETWEEN = "\x01"

    def __init__(self) -> None:
        self._client: object = None
        self._split: Any = None

    def can_convert(self, value: object) -> bool:
        """Not what Java would change in splitting it: empty texts, and blanks at the ends of the whole."""
        if not isinstance(value, list) or len(value) < 2 or not all(isinstance(each, str) and each for each in value):
            return False
        return value[0][0] > " " and value[-1][-1] > " " and not any(self.BETWEEN in each for each in value)

    def convert(self, value: list[str], client: object) -> Any:
        if client is not self._client:
            from py4j.java_gateway import JavaClass

            self._client = client
            self._split = JavaClass("org.apache.hadoop.util.StringUtils", client).getStringCollection
        return self._split(self.BETWEEN.join(value), self.BETWEEN)
