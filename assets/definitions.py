"""What Dagster loads: every view in `assets/sql` as an asset, and a generator of events for them."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from assets.events import fed_by_events, new_events
from laminar_dagster.engine.project import Project
from laminar_dagster.integration.assets import laminar_assets

PROJECT = Project.find(Path(__file__).parent)
VIEWS = dg.map_asset_specs(fed_by_events, laminar_assets(PROJECT))

# In process: a run that materializes several views starts one JVM, not one for each.
defs = dg.Definitions(
    assets=[new_events(PROJECT.root / "data" / "landing"), *VIEWS],
    executor=dg.in_process_executor,
)
