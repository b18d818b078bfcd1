"""Views as a Dagster component: `defs.yaml` says where the SQL is, and the rest is `laminar_definitions`."""

# No `from __future__ import annotations`: pydantic looks at the types of the fields itself.

from typing import Any, Literal

import dagster as dg
from pydantic import Field

from laminar_dagster.integration.automation import Automation
from laminar_dagster.integration.checks import Checks
from laminar_dagster.integration.definitions import laminar_definitions
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.translator import LaminarTranslator

EXAMPLE = """\
-- A directory that JSON lines arrive in, next to this file. Each new file is one commit.
CREATE SOURCE sales (
    region STRING, amount BIGINT, sold_at TIMESTAMP,
    WATERMARK FOR sold_at AS sold_at - INTERVAL '30' SECOND
) WITH (connector = 'files', format = 'json', path = 'landing/sales');

-- What each region sold, minute by minute.
CREATE MATERIALIZED VIEW sales_per_minute AS
SELECT window_start, window_end, region, COUNT(*) AS sales, SUM(amount) AS total
FROM TUMBLE(sales, sold_at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT ON WINDOW CLOSE;
"""


class LaminarScaffolder(dg.Scaffolder[Any]):
    """`dg scaffold defs`: a `defs.yaml`, and a view to begin with."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        dg.scaffold_component(request, {"project": "."})
        request.target_path.joinpath("landing", "sales").mkdir(parents=True, exist_ok=True)
        request.target_path.joinpath("sales_per_minute.sql").write_text(EXAMPLE, encoding="utf-8")


@dg.scaffold_with(LaminarScaffolder)
class LaminarComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL views as assets. Override `translator` in a subclass to change keys, groups and tags."""

    project: str = Field(
        default=".", description="The project's directory, a folder of .sql files or one file, from where defs.yaml is."
    )
    sql: str | None = Field(default=None, description="The SQL itself, in place of files.")
    data_dir: str | None = Field(default=None, description="Where views keep their data; relative to the project.")
    remote: str | None = Field(default=None, description="A Spark Connect server, as sc://localhost:15002.")
    master: str | None = Field(default=None, description="In process, as local[*], or a cluster's master URL.")
    unreachable: Literal["fail", "wait", "in_process"] | None = Field(
        default=None, description="What a run does whose Connect server does not answer."
    )
    automation: Automation = Field(default_factory=Automation, description="What runs by itself.")
    checks: Checks = Field(default_factory=Checks, description="What is looked at after a tick.")
    made_elsewhere: list[str] = Field(default_factory=list, description="Sources that are assets of your own.")

    def translator(self) -> LaminarTranslator:
        return LaminarTranslator()

    def resource(self) -> LaminarResource:
        return LaminarResource(
            data_dir=self.data_dir, remote=self.remote, master=self.master, unreachable=self.unreachable
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return laminar_definitions(
            context.path / self.project,
            sql=self.sql,
            translator=self.translator(),
            resource=self.resource(),
            automation=self.automation,
            checks=self.checks,
            made_elsewhere=self.made_elsewhere,
        )
