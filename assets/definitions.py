"""What Dagster loads: every view in `assets/sql` as assets, and a generator of events for them."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from assets.events import ShopTranslator, new_events
from laminar_dagster.engine.project import Project
from laminar_dagster.integration import laminar_definitions

PROJECT = Project.find(Path(__file__).parent)

defs = dg.Definitions.merge(
    laminar_definitions(PROJECT, translator=ShopTranslator()),
    dg.Definitions(assets=[new_events(PROJECT.root / "data" / "landing")]),
)
