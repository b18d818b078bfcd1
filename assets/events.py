"""The generator as an asset: materialize it, and the shop's sources have new events to tick over."""

# No `from __future__ import annotations`: Dagster looks at the type of `context` itself.

from pathlib import Path

import dagster as dg

from assets.generator import Made, generate
from laminar_dagster.integration import LaminarAsset, LaminarTranslator
from laminar_dagster.semantics.time import to_iso

EVENTS = dg.AssetKey("new_events")
DESCRIPTION = """Half an hour more of the demo shop: sales, clicks, payments and the bank's corrections of earlier ones.

Materialize it, then a view's `state`, and watch windows close. The first time it makes four hours, past a midnight."""


def new_events(landing: Path) -> dg.AssetsDefinition:
    # The pool: two generators at once would both go on from the same place.
    @dg.asset(key=EVENTS, group_name="sources", description=DESCRIPTION, kinds={"python"}, pool="new_events")
    def make_events(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        made = generate(landing)
        if made is None:
            context.log.info("No events: the demo's event time has reached the clock. Come back in a minute.")
            return dg.MaterializeResult(metadata={"rows": 0})
        return dg.MaterializeResult(metadata=_metadata(made))

    return make_events


class ShopTranslator(LaminarTranslator):
    """Shows the generator upstream of the sources that it writes."""

    def get_asset_spec(self, asset: LaminarAsset) -> dg.AssetSpec:
        spec = super().get_asset_spec(asset)
        return spec.merge_attributes(deps=[EVENTS]) if asset.part == "source" else spec


def _metadata(made: Made) -> dict[str, int | str]:
    counts = {name: getattr(made, name) for name in ("sales", "clicks", "payments", "corrected", "cancelled")}
    faults = {f"wrong on purpose: {kind}": count for kind, count in sorted(made.faults.items())}
    stretch = {"event time since": to_iso(made.since), "event time until": to_iso(made.until)}
    return {"rows": made.sales + made.clicks + made.payments, **counts, **faults, **stretch}
