"""What Dagster loads: every view in `assets/sql` with its checks, what runs by itself, and a generator of events."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from assets.events import ShopTranslator, new_events
from laminar_dagster.engine.project import Project
from laminar_dagster.integration import Automation, Check, Checks, laminar_definitions, laminar_schedule

PROJECT = Project.find(Path(__file__).parent)
TRANSLATOR = ShopTranslator()

# Schedules and sensors are off until somebody turns them on, on Dagster's page Automation.
defs = dg.Definitions.merge(
    laminar_definitions(
        PROJECT,
        translator=TRANSLATOR,
        automation=Automation(name="shop", schedule="*/5 * * * *", sensor_seconds=30, maintenance="0 3 * * *"),
        checks=Checks(late_rate=Check(max=0.05, severity="warn")),
    ),
    dg.Definitions(
        assets=[new_events(PROJECT.root / "data" / "landing")],
        schedules=[
            laminar_schedule(
                PROJECT,
                name="balance_every_minute",
                cron="* * * * *",
                views=["customer_balance"],
                translator=TRANSLATOR,
            )
        ],
    ),
)
