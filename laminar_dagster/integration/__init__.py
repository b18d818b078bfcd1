"""Shows: views as Dagster assets. The only package besides `assets` that imports dagster."""

from laminar_dagster.integration.assets import laminar_assets, laminar_definitions, laminar_jobs
from laminar_dagster.integration.component import LaminarComponent
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.translator import LaminarAsset, LaminarTranslator

__all__ = [
    "LaminarAsset",
    "LaminarComponent",
    "LaminarResource",
    "LaminarTranslator",
    "laminar_assets",
    "laminar_definitions",
    "laminar_jobs",
]
