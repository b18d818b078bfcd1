"""Shows: views as Dagster assets. The only package besides `assets` that imports dagster."""

from laminar_dagster.integration.assets import laminar_assets
from laminar_dagster.integration.automation import (
    Automation,
    laminar_maintenance,
    laminar_maintenance_schedule,
    laminar_schedule,
    laminar_sensor,
)
from laminar_dagster.integration.checks import Check, Checks, laminar_checks
from laminar_dagster.integration.component import LaminarComponent
from laminar_dagster.integration.definitions import laminar_definitions
from laminar_dagster.integration.jobs import laminar_jobs
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.translator import LaminarAsset, LaminarTranslator

__all__ = [
    "Automation",
    "Check",
    "Checks",
    "LaminarAsset",
    "LaminarComponent",
    "LaminarResource",
    "LaminarTranslator",
    "laminar_assets",
    "laminar_checks",
    "laminar_definitions",
    "laminar_jobs",
    "laminar_maintenance",
    "laminar_maintenance_schedule",
    "laminar_schedule",
    "laminar_sensor",
]
