"""Where a project's data lies and which Spark runs it, as a Dagster resource: settings may come from `dg.EnvVar`."""

# No `from __future__ import annotations`: pydantic looks at the types of the fields itself.

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.session import open_session
from laminar_dagster.errors import LaminarError
from laminar_dagster.sql.local_paths import require_local

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
        if not self.data_dir:
            return project
        require_local("data_dir", self.data_dir)
        return replace(project, data=project.root / Path(self.data_dir))

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


_shared: dict[str, LaminarResource] = {}


def key_of(resource: LaminarResource) -> str:
    """The key that assets know a resource by: several projects of one code location have settings of their own."""
    if resource == LaminarResource():
        return RESOURCE_KEY
    values = {name: getattr(resource, name) for name in sorted(type(resource).model_fields)}
    told = {n: f"${v.env_var_name}" if isinstance(v, dg.EnvVar) else repr(v) for n, v in values.items()}
    kind = f"{type(resource).__module__}.{type(resource).__qualname__}"
    return f"{RESOURCE_KEY}_{sha256(f'{kind} {told}'.encode()).hexdigest()[:8]}"


def shared(resource: LaminarResource | str) -> LaminarResource | str:
    """One object for equal settings: Dagster takes two objects under one key for a conflict."""
    return resource if isinstance(resource, str) else _shared.setdefault(key_of(resource), resource)
