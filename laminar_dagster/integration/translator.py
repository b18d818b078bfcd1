"""Which Dagster assets stand for a view and its sources: keys, groups, tags and all that the catalog shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import dagster as dg
import pyarrow as pa

from laminar_dagster.engine.project import Project
from laminar_dagster.integration.partitions import partitions_of
from laminar_dagster.integration.quiet import beta_accepted
from laminar_dagster.plan.explain import explain
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.lineage import column_lineage
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import VIEW_CONNECTOR, Source
from laminar_dagster.semantics.time import parse_interval
from state_store import format as f
from state_store.changelog import HEAD

STATE, OUTPUT, CHANGELOG, SIDE_OUTPUT, SOURCE = "state", "output", "changelog", "side_output", "source"
VIEW_PARTS = (STATE, OUTPUT, CHANGELOG, SIDE_OUTPUT)
KINDS = {"delta": {"deltalake"}, "kafka": {"kafka"}}
SAID = {
    STATE: "How far `{view}` has come, and its open windows. **Materialize is the tick**: it takes what is new in the "
    "sources, closes what is due, and reports the partitions that it touched.",
    CHANGELOG: "What happened to the rows of `{view}`, in order: `+I`, `-U`, `+U`, `-D`.",
    SIDE_OUTPUT: "Rows that `{view}` could not take: late ones, malformed ones, those dated too far ahead.",
}


@dataclass(frozen=True)
class LaminarAsset:
    """What a translator is asked about: `state`, `output`, `changelog` or `side_output` of a view, or a `source`."""

    part: str
    name: str
    project: Project
    plans: Mapping[str, Plan]

    @property
    def plan(self) -> Plan:
        """The view's plan; a source has none."""
        return self.plans[self.name]

    @cached_property
    def source(self) -> Source:
        inputs = (entry.source for plan in self.plans.values() for entry in plan.query.inputs)
        return next(source for source in inputs if source.name == self.name)

    def upstream(self) -> list[LaminarAsset]:
        """What this part of a view is made from: sources, and of views that it reads the state or the output."""
        part = STATE if self.part == STATE else OUTPUT
        sources = {entry.source.name: entry.source for entry in self.plan.query.inputs}
        return [
            replace(self, part=part, name=source.options["view"])
            if source.connector == VIEW_CONNECTOR
            else replace(self, part=SOURCE, name=source.name)
            for source in sources.values()
        ]


@dataclass(frozen=True)
class ViewAssets:
    """A view and the specs of its parts, by name, as the translator gave them; and those of the sources it reads."""

    plan: Plan
    project: Project
    parts: Mapping[str, dg.AssetSpec]
    sources: Mapping[str, dg.AssetSpec]

    @property
    def name(self) -> str:
        return self.plan.query.view


class LaminarTranslator:
    """Override `get_asset_spec` to change keys, groups, tags, owners: dependencies follow the keys that it gives."""

    def get_asset_spec(self, asset: LaminarAsset) -> dg.AssetSpec:
        return self._source_spec(asset) if asset.part == SOURCE else self._view_spec(asset)

    def get_refused_spec(self, name: str) -> dg.AssetSpec:
        """A view, or a file of views, that cannot be planned. It keeps the place of the view's state in the graph."""
        return dg.AssetSpec([name, STATE], group_name="views", kinds={"spark", "deltalake"})

    def _source_spec(self, asset: LaminarAsset) -> dg.AssetSpec:
        source = asset.source
        return dg.AssetSpec(
            source.name,
            group_name="sources",
            kinds=KINDS.get(source.connector) or {"file", source.options.get("format", "file")},
            description=f"A source that somebody else writes (connector '{source.connector}').",
            metadata={
                **{name: dg.MetadataValue.text(value) for name, value in sorted(source.options.items())},
                "dagster/column_schema": _columns([(field.name, str(field.type)) for field in source.columns]),
            },
        )

    def _view_spec(self, asset: LaminarAsset) -> dg.AssetSpec:
        query = asset.plan.query
        return dg.AssetSpec(
            query.view if asset.part == OUTPUT else [query.view, asset.part],
            deps=[self._dependency(asset, upstream) for upstream in asset.upstream()],
            group_name=query.labels.get("group", "views"),
            owners=_listed(query.labels.get("owners", "")),
            tags=dict(_tag(entry) for entry in _listed(query.labels.get("tags", ""))),
            kinds={"spark", "deltalake"},
            code_version=fingerprint(asset.plan),
            partitions_def=None if asset.part == STATE else partitions_of(query),
            skippable=True,
            automation_condition=_automation(asset),
            freshness_policy=_freshness(asset),
            description=_description(asset),
            metadata=self._metadata(asset),
        )

    def _dependency(self, asset: LaminarAsset, upstream: LaminarAsset) -> dg.AssetDep:
        """Days of two time zones overlap in part: Dagster then takes a partition to depend on all of the other's."""
        key, read = self.get_asset_spec(upstream).key, upstream.plans.get(upstream.name)
        zones = {
            query.partition.zone for query in (asset.plan.query, read.query if read else None) if query is not None
        }
        apart = len(zones) > 1 and OUTPUT in (asset.part, upstream.part)
        return dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping() if apart else None)

    def _metadata(self, asset: LaminarAsset) -> dict[str, Any]:
        columns = {OUTPUT: _output_columns, CHANGELOG: _changelog_columns, SIDE_OUTPUT: _side_output_columns}
        shown: dict[str, Any] = {"dagster/table_name": f"{asset.name}.{asset.part}", **_code_references(asset)}
        if asset.part in columns:
            shown["dagster/column_schema"] = _columns(columns[asset.part](asset.plan))
        if asset.part in (OUTPUT, CHANGELOG):
            shown["dagster/column_lineage"] = self._lineage(asset)
        return shown

    def _lineage(self, asset: LaminarAsset) -> dg.TableColumnLineage:
        keys = {upstream.name: self.get_asset_spec(upstream).key for upstream in asset.upstream()}
        return dg.TableColumnLineage(
            {
                column: [dg.TableColumnDep(keys[source], origin) for source, origin in origins]
                for column, origins in column_lineage(asset.plan).items()
            }
        )


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _tag(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name.strip(), value.strip()


def _automation(asset: LaminarAsset) -> dg.AutomationCondition[Any] | None:
    """A view over views ticks when one of these has. Not `eager()`: it could drop an update that comes meanwhile."""
    reads_views = any(upstream.part == STATE for upstream in asset.upstream())
    return dg.AutomationCondition.any_deps_updated() if asset.part == STATE and reads_views else None


def _freshness(asset: LaminarAsset) -> dg.FreshnessPolicy | None:
    """How old the last tick may be, where the view says so."""
    said = asset.plan.query.labels.get("freshness")
    if said is None or asset.part != STATE:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(microseconds=parse_interval(said).micros))


def _description(asset: LaminarAsset) -> str:
    """What the view's own `description` says, then its SQL and its plan; of the other parts, what they are."""
    query = asset.plan.query
    if asset.part in SAID:
        return SAID[asset.part].format(view=query.view)
    said = query.labels.get("description")
    parts = [f"```sql\n{query.sql.strip()}\n```", f"```\n{explain(asset.plan)}\n```"]
    return "\n\n".join([said, *parts] if said else parts)


def _code_references(asset: LaminarAsset) -> dict[str, Any]:
    """The line of the `.sql` file in which the view is declared."""
    where = asset.plan.query.places.get("view")
    if where is None or where.file is None:
        return {}
    path = str(asset.project.root / where.file)
    with beta_accepted():
        reference = dg.LocalFileCodeReference(file_path=path, line_number=where.line, label=where.file)
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference])}


def _columns(columns: Sequence[tuple[str, str]]) -> dg.TableSchema:
    return dg.TableSchema(columns=[dg.TableColumn(name, type_) for name, type_ in columns])


def _output_columns(plan: Plan) -> list[tuple[str, str]]:
    return [(named.name, str(named.expression.type)) for named in plan.query.output]


def _changelog_columns(plan: Plan) -> list[tuple[str, str]]:
    return [*_arrow_columns(HEAD), *_output_columns(plan)]


def _side_output_columns(_: Plan) -> list[tuple[str, str]]:
    return _arrow_columns(f.SIDE_OUTPUT_SCHEMA)


def _arrow_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    names = {"int64": "BIGINT", "string": "STRING", str(f.TIMESTAMP): "TIMESTAMP"}
    return [(field.name, names.get(str(field.type), str(field.type))) for field in schema]
