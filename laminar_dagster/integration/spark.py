"""The Spark session of a project, for whoever runs its views from Python. Imports no dagster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for(project: Project) -> SparkSession:
    return open_session(project.spark_settings())
