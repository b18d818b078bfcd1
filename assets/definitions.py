"""What Dagster loads: every view in `assets/sql` as an asset."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.assets import laminar_assets

PROJECT = Project.find(Path(__file__).parent)

# In process: a run that materializes several views starts one JVM, not one for each.
defs = dg.Definitions(assets=laminar_assets(PROJECT), executor=dg.in_process_executor)
