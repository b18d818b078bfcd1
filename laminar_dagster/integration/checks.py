"""Asset checks of views: cheap ones that run with each tick, out of logs and files, and one that recomputes a window.

The cheap ones are on the state, so that a tick takes them along. `verify` is on the output, starts Spark, and runs when
it is asked for.
"""

# No `from __future__ import annotations`: Dagster and pydantic look at the types themselves.

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Unpack

import dagster as dg
from pydantic import Field

from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.integration.factory import Factory, Given, factory_of
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.resource import LaminarResource
from laminar_dagster.integration.translator import OUTPUT, STATE, ViewAssets

VERIFY = "verify"
DESCRIPTIONS = {
    "late_rate": "Share of rows that came after all of their windows had closed, over the last epochs.",
    "error_rate": "Share of rows that were set aside because they cannot be used, over the last epochs.",
    "watermark_lag": "Seconds that event time is behind the clock.",
    "duplicate_emission": "Results that the table has more than once.",
    "changelog_sums_to_table": "Rows whose weights in the changelog do not sum to how often the table has them.",
    VERIFY: "Rows of a sampled closed window that differ from what the retained source gives when it is replayed.",
}


class Check(dg.Model, dg.Resolvable):
    """`max` is the most that passes. A blocking check that fails as an error keeps views downstream from ticking."""

    max: float = Field(default=0, ge=0, description="The most that passes.")
    blocking: bool = Field(default=False, description="Whether a failure stops what comes after it in the run.")
    severity: Literal["error", "warn"] = Field(default="error", description="How a failure is shown.")


class Checks(dg.Model, dg.Resolvable):
    """Which checks every view has. None leaves one out."""

    late_rate: Check | None = Check(max=0.05, severity="warn")
    error_rate: Check | None = Check(max=0.01, severity="warn")
    watermark_lag: Check | None = None
    duplicate_emission: Check | None = Check()
    changelog_sums_to_table: Check | None = Check()
    verify: Check | None = Check()
    epochs: int = Field(default=100, ge=1, description="Over how many epochs rates are taken.")

    def chosen(self) -> dict[str, Check]:
        found = {name: getattr(self, name) for name in DESCRIPTIONS}
        return {name: check for name, check in found.items() if check is not None}


class ChecksConfig(dg.Config):
    """Limits for one run, by the name of the check."""

    limits: dict[str, float] = Field(default_factory=dict, description="In place of `max`, as {late_rate: 0.1}.")
    epochs: int | None = Field(default=None, ge=1, description="Over how many epochs rates are taken.")


class VerifyConfig(dg.Config):
    """Which windows are recomputed. Default: one, by chance."""

    since: str | None = Field(default=None, description="Windows that start at this time or later.")
    to: str | None = Field(default=None, description="Windows that start before this time.")


def laminar_checks(
    project: Project | Path | str | None = None, *, checks: Checks | None = None, **given: Unpack[Given]
) -> list[dg.AssetChecksDefinition]:
    """The checks of every view of a project."""
    return checks_of(factory_of(project, given), checks or Checks())


def checks_of(factory: Factory, checks: Checks) -> list[dg.AssetChecksDefinition]:
    made: list[dg.AssetChecksDefinition] = []
    for view in factory.views.values():
        if set(checks.chosen()) - {VERIFY}:
            made.append(_cheap_checks(view, checks, factory))
        if checks.verify is not None and view.plan.query.window is not None:
            made.append(_verify_check(view, checks.verify, factory))
    return made


def _spec(view: ViewAssets, part: str, name: str, check: Check) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=view.parts[part].key,
        description=f"{DESCRIPTIONS[name]} At most {check.max:g}.",
        blocking=check.blocking,
    )


def _cheap_checks(view: ViewAssets, checks: Checks, factory: Factory) -> dg.AssetChecksDefinition:
    chosen = {name: check for name, check in checks.chosen().items() if name != VERIFY}

    @dg.multi_asset_check(
        name=f"{view.name}_checks",
        specs=[_spec(view, STATE, name, check) for name, check in chosen.items()],
        can_subset=True,
        **factory.wired,
    )
    def look(context: dg.AssetCheckExecutionContext, config: ChecksConfig) -> Iterator[dg.AssetCheckResult]:
        from laminar_dagster.integration.checking import measured

        resource: LaminarResource = getattr(context.resources, factory.resource_key)
        with shown_in_dagster():
            limits = {name: check.max for name, check in chosen.items()} | _known(config.limits, chosen)
            wanted = [key.name for key in context.selected_asset_check_keys]
            for name in (name for name in chosen if name in wanted):
                found = measured(name, view, resource.located(view.project), config.epochs or checks.epochs)
                yield found.judged(view.parts[STATE].key, name, limits[name], chosen[name].severity)

    return look


def _known(limits: dict[str, float], chosen: dict[str, Check]) -> dict[str, float]:
    for name in limits:
        if name not in chosen:
            raise LaminarError(
                "LMR0740", f'there is no check "{name}" of this view', hint=did_you_mean(name, list(chosen))
            )
    return limits


def _verify_check(view: ViewAssets, check: Check, factory: Factory) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"{view.name}_verify",
        specs=[_spec(view, OUTPUT, VERIFY, check)],
        can_subset=True,  # so that it may say nothing
        **factory.wired,
    )
    def recompute(context: dg.AssetCheckExecutionContext, config: VerifyConfig) -> Iterator[dg.AssetCheckResult]:
        from laminar_dagster.integration.checking import verified
        from laminar_dagster.integration.looking import steps_of

        if view.name in steps_of(context.instance, context.run):
            context.log.info("not recomputed: a backfill does not wait for a replay. Run the check by itself.")
            return
        resource: LaminarResource = getattr(context.resources, factory.resource_key)
        with shown_in_dagster():
            found = verified(view, resource, context.log, config.since, config.to)
            yield found.judged(view.parts[OUTPUT].key, VERIFY, check.max, check.severity)

    return recompute
