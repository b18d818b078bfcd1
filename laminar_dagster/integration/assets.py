"""One Dagster asset per view: to materialize it is to run epochs until it has caught up with its sources."""

# No `from __future__ import annotations`: Dagster looks at the type of `context` itself.

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from laminar_dagster.engine.project import Project
from laminar_dagster.engine.run import RunOptions, open_view
from laminar_dagster.integration.failures import shown_in_dagster
from laminar_dagster.integration.spark import session_for
from laminar_dagster.plan.bounds import cautions
from laminar_dagster.plan.explain import explain
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Source
from laminar_dagster.semantics.time import to_iso
from state_store import CommitRow, StoreReader
from state_store import format as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OpenSession = Callable[[Project], "SparkSession"]
KINDS = {"delta": {"deltalake"}, "kafka": {"kafka"}}
COUNTED = ("rows_in", "filtered", "late", "error", "windows_closed", "rows_out")


def laminar_assets(
    project: Project, open_session: OpenSession = session_for
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The project's views as assets, and its sources as external assets that they depend on."""
    plans = project.plans()
    inputs = [entry.source for plan in plans for entry in plan.query.inputs]
    sources = {source.name: source for source in inputs if source.connector != VIEW_CONNECTOR}
    return [*map(source_spec, sources.values()), *(view_asset(plan, project, open_session) for plan in plans)]


def source_spec(source: Source) -> dg.AssetSpec:
    kinds = KINDS.get(source.connector) or {"file", source.options.get("format", "file")}
    return dg.AssetSpec(
        source.name,
        group_name="sources",
        kinds=kinds,
        description=f"A source that somebody else writes (connector '{source.connector}').",
        metadata={
            **{name: dg.MetadataValue.text(value) for name, value in sorted(source.options.items())},
            "dagster/column_schema": _columns([(field.name, str(field.type)) for field in source.columns]),
        },
    )


def view_spec(plan: Plan) -> dg.AssetSpec:
    query = plan.query
    return dg.AssetSpec(
        query.view,
        deps=[entry.source.name for entry in query.inputs],
        group_name=query.labels.get("group", "views"),
        owners=_listed(query.labels.get("owners", "")),
        tags=dict(_tag(entry) for entry in _listed(query.labels.get("tags", ""))),
        kinds={"spark", "deltalake"},
        code_version=fingerprint(plan),
        description=_description(plan),
        metadata={
            "dagster/column_schema": _columns([(named.name, str(named.expression.type)) for named in query.output])
        },
    )


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _tag(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name.strip(), value.strip()


def _description(plan: Plan) -> str:
    """What the view's own `description` says, then its SQL and its plan."""
    said = plan.query.labels.get("description")
    parts = [f"```sql\n{plan.query.sql.strip()}\n```", f"```\n{explain(plan)}\n```"]
    return "\n\n".join([said, *parts] if said else parts)


def view_asset(plan: Plan, project: Project, open_session: OpenSession) -> dg.AssetsDefinition:
    view = plan.query.view

    # The pool is a courtesy in the queue; what keeps two runs of a view apart is the store's own fence.
    @dg.multi_asset(name=view, specs=[view_spec(plan)], pool=view)
    def materialize(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        for caution in cautions(plan.query):
            context.log.warning(caution)
        with shown_in_dagster():
            session = open_session(project)
            options = RunOptions(maintenance=project.maintenance)
            with open_view(plan, session, project=project.root, data=project.data, options=options) as run:
                commits = run.drain(lambda commit: context.log.info(_epoch_line(commit)))
            told = run_metadata(StoreReader(project.store(view)), commits)
            delivered = {f"delivered_{sink}": done.rows for sink, done in run.deliveries.delivered.items()}
            return dg.MaterializeResult(asset_key=view, metadata={**told, **delivered})

    return materialize


def run_metadata(reader: StoreReader, commits: Sequence[CommitRow]) -> dict[str, dg.MetadataValue | int | str]:
    """What a run did, and where the view stands after it."""
    totals = {name: sum(commit.counts.get(name, 0) for commit in commits) for name in COUNTED}
    last = commits[-1] if commits else reader.commit()
    standing: dict[str, dg.MetadataValue | int | str] = {}
    if last is not None:
        standing["epoch"] = last.epoch
        standing["open_windows"] = last.counts.get("windows_open", last.counts.get("open_fragments", 0))
        standing["dagster/row_count"] = sum(file.rows for file in reader.files(f.OUTPUT, last))
    if last is not None and last.watermark is not None:
        standing["watermark"] = to_iso(last.watermark)
    return {"epochs": len(commits), **totals, **standing}


def _epoch_line(commit: CommitRow) -> str:
    watermark = "unknown yet" if commit.watermark is None else to_iso(commit.watermark)
    counts = ", ".join(f"{commit.counts.get(name, 0)} {name.replace('_', ' ')}" for name in COUNTED)
    return f"epoch {commit.epoch}: {counts}; watermark {watermark}"


def _columns(columns: Sequence[tuple[str, str]]) -> dg.TableSchema:
    return dg.TableSchema(columns=[dg.TableColumn(name, type_) for name, type_ in columns])
