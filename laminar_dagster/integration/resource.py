"""Where a project's data lies and which Spark runs it, as a Dagster resource: settings may come from `dg.EnvVar`."""

# No `from __future__ import annotations`: pydantic looks at the types of the fields itself.

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import open_session
from laminar_dagster.errors import LaminarError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESOURCE_KEY = "laminar"


class LaminarResource(dg.ConfigurableResource["LaminarResource"]):
    """What is left out is as the project has it: `laminar.toml`, else `LAMINAR_SPARK`, else Spark in process.

    A subclass that overrides `open_session` brings its own Spark.
    """

    data_dir: str | None = Field(default=None, description="Where views keep their data; relative to the project.")
    remote: str | None = Field(default=None, description="A Spark Connect server, as sc://localhost:15002.")
    master: str | None = Field(default=None, description="In process, as local[*], or a cluster's master URL.")

    unreachable: str | None = Field(
        default=None, description="What a run does whose Connect server does not answer: fail, wait or in_process."
    )

    def located(self, project: Project) -> Project:
        """The project with its data where the resource says."""
        return replace(project, data=project.root / Path(self.data_dir)) if self.data_dir else project

    def open_session(self, project: Project) -> "SparkSession":
        if self.remote and self.master:
            raise LaminarError(
                "LMR0514",
                "the resource names both a Connect server and a master",
                detail=f"remote: {self.remote}; master: {self.master}",
                hint="Keep `remote` for a server that runs already, or `master` to start Spark in each run.",
            )
        settings = project.spark_settings(self.remote or self.master)
        return open_session(replace(settings, unreachable=self.unreachable) if self.unreachable else settings)
