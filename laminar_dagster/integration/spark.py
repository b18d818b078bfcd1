"""The Spark session of a project, for whoever runs its views from Python. Imports no dagster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import SparkSettings, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_for(project: Project) -> SparkSettings:
    """What laminar.toml says, else the environment: the order in which `laminar run` looks."""
    chosen = SparkSettings.from_environment()
    return replace(chosen, spark=project.spark) if project.spark else chosen


def session_for(project: Project) -> SparkSession:
    return open_session(settings_for(project))
