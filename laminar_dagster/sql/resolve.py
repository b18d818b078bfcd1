"""A script to queries: names, types, windows and options settled, in the order in which views depend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics.aggregates import aggregate_called
from laminar_dagster.semantics.emit import DEFAULT_UNWINDOWED, DEFAULT_WINDOWED, SINKS, EmitPolicy
from laminar_dagster.semantics.expressions import Expression
from laminar_dagster.semantics.partitions import partitioning_of
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.quotas import without_pointless
from laminar_dagster.sql.aggregates import Aggregates
from laminar_dagster.sql.catalog import Catalog, SchemaOf
from laminar_dagster.sql.clause_refusals import SELECT_REASONS
from laminar_dagster.sql.configuration import Configuration
from laminar_dagster.sql.derived_names import derived_name
from laminar_dagster.sql.event_time import input_of, require_effect, require_time_beside_unit, with_event_times
from laminar_dagster.sql.expressions import Resolver
from laminar_dagster.sql.grouping import Grouping, GroupReader, two_windows
from laminar_dagster.sql.inputs import From, Relation
from laminar_dagster.sql.names import Scope, refuse_extras
from laminar_dagster.sql.outer import OuterReader
from laminar_dagster.sql.ranking import Layers, layers
from laminar_dagster.sql.selecting import Selected, select_distinct, select_grouped, select_rows
from laminar_dagster.sql.settings import Settings, read_settings
from laminar_dagster.sql.side_output import side_output_of
from laminar_dagster.sql.sinks import ReadSink, deciding, read_sinks, with_sinks
from laminar_dagster.sql.statements import Script, ViewStatement
from laminar_dagster.sql.windows import Windowing, clause_window

_CLAUSES = {"expressions", "from_", "where", "group", "having", "qualify", "distinct", "with_", "joins"}


@dataclass(frozen=True)
class Resolved:
    """The views that are right, upstream first; and what is refused, by its name, with what is wrong with it."""

    queries: tuple[Query, ...]
    refused: Mapping[str, LaminarError]


def resolve(script: Script, schema_of: SchemaOf, configuration: Configuration | None = None) -> tuple[Query, ...]:
    """Every view of the script as a `Query`, upstream first; the first LaminarError where there is a mistake."""
    found = resolve_each(script, schema_of, configuration)
    for error in found.refused.values():
        raise error
    return found.queries


def resolve_each(script: Script, schema_of: SchemaOf, configuration: Configuration | None = None) -> Resolved:
    """Every view that can be resolved, whatever is wrong with the others.

    `schema_of` is asked only for sources that are declared without columns and that a view reads.
    """
    configuration = configuration or Configuration()
    return _Resolution(configuration.applied_to(script), schema_of, configuration).run()


def upstream_refused(upstream: str, error: LaminarError, where: Span | None) -> LaminarError:
    """Of a view that reads one which is refused."""
    return LaminarError(
        "LMR0121", f'view "{upstream}", which is read here, is refused itself', where=where,
        detail=f"{error.problem} [{error.code}]", hint=f'Mend view "{upstream}" first.',
    )  # fmt: skip


@dataclass
class _Resolution:
    script: Script
    schema_of: SchemaOf
    configuration: Configuration
    done: dict[str, Query] = field(default_factory=dict)
    refused: dict[str, LaminarError] = field(default_factory=dict)
    under_way: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog = Catalog(self.script, self.schema_of, self.query_of)

    def run(self) -> Resolved:
        for name, error in self.catalog.faults():
            self._refuse(name, error)
        self.sinks = read_sinks(self.script, self._refuse)
        for view in self.script.views:
            if view.name not in self.refused:
                with suppress(LaminarError):
                    self.query_of(view.name, view.where)
        return Resolved(tuple(self.done.values()), self.refused)

    def _refuse(self, name: str, error: LaminarError) -> None:
        self.refused.setdefault(name, error)

    def query_of(self, name: str, where: Span) -> Query:
        view = next(v for v in self.script.views if v.name.lower() == name.lower())
        if view.name in self.under_way:
            raise LaminarError("LMR0116", f'view "{view.name}" reads from itself', where=where)
        if view.name in self.refused:
            raise upstream_refused(view.name, self.refused[view.name], where)
        if view.name not in self.done:
            try:
                self.done[view.name] = self._resolved(view)
            except LaminarError as error:
                raise (upstream_refused(view.name, error, where) if self.under_way else error) from None
        return self.done[view.name]

    def _resolved(self, view: ViewStatement) -> Query:
        """The view's query. One that is read by another is refused under its own name, and then the other one is."""
        self.under_way.append(view.name)
        try:
            sinks = self.sinks[view.name]
            return with_sinks(_query(view, self.catalog, self.configuration, sinks), sinks)
        except LaminarError as error:
            self._refuse(view.name, error)
            raise
        finally:
            self.under_way.remove(view.name)


def _query(view: ViewStatement, catalog: Catalog, configuration: Configuration, sinks: Sequence[ReadSink]) -> Query:
    found = layers(view, _top_select(view))
    select = found.inner
    settings = read_settings(view)
    require_time_beside_unit(view, configuration)
    reader = From(view, catalog)
    read, window_call = reader.read(select, _ctes(reader, view, found))
    relation = with_event_times(read, view, configuration)
    grouping = GroupReader(view, select, relation, _window_of_rows(reader, relation, window_call)).read()
    where = _where(view, select, relation, grouping.windowing)
    selected = _selected(view, select, relation, grouping)
    if found.outer is not None:
        selected = _around(view, found, selected)
    query = _assembled(view, settings, relation, grouping, where, selected, sinks)
    query = without_pointless(query, settings.defaulted)
    places = {**_places(view, relation, grouping, selected), **_source_places(catalog), **settings.places}
    return replace(query, places=places, derived=_derived(select, query))


def _window_of_rows(reader: From, relation: Relation, call: Any) -> Windowing | None:
    """The window in FROM, or that of the WINDOW clause."""
    clause = reader.view.time.window
    if call is not None and clause is not None:
        raise two_windows(clause.where)
    if call is not None:
        return reader.window(call, relation)
    return None if clause is None else clause_window(Resolver(reader.view, relation.scope(), "WINDOW"), clause)


def _derived(select: Any, query: Query) -> tuple[str, ...]:
    """The columns of the view that are called as Spark would call them, for want of AS."""
    named = (exp.Alias, exp.Column, exp.Star)
    names = [derived_name(item) for item in select.expressions if not isinstance(item, named)]
    return tuple(name for name in names if any(name == column.name for column in query.output))


def _ctes(reader: From, view: ViewStatement, found: Layers) -> Mapping[str, Relation]:
    """The queries in WITH that FROM may name; the one that numbers rows is read with the query around it."""
    ctes = reader.with_ctes(view.query, {}, but=found.inner)
    for node in (found.subquery, found.inner):
        if found.outer is not None and node is not None:
            ctes = reader.with_ctes(node, ctes)
    return ctes


def _around(view: ViewStatement, found: Layers, selected: Selected) -> Selected:
    if found.subquery is not None:
        refuse_extras(found.subquery, {"this", "alias", "with_"}, view.span, SELECT_REASONS)
    refuse_extras(found.inner, _CLAUSES, view.span, SELECT_REASONS)
    assert selected.ranking is not None
    output, ranking = OuterReader(view, found.outer, found.name, selected.output, selected.ranking).read()
    return replace(selected, output=output, ranking=ranking)


def _top_select(view: ViewStatement) -> Any:
    node: Any = view.query
    while isinstance(node, exp.Subquery) and not node.args.get("alias"):
        refuse_extras(node, {"this"}, view.span, SELECT_REASONS)
        node = node.this
    if isinstance(node, exp.SetOperation):
        raise LaminarError(
            "LMR0011", "UNION ALL stands in FROM", where=view.span(node),
            hint="Write FROM (SELECT … UNION ALL SELECT …) GROUP BY ….",
        )  # fmt: skip
    if not isinstance(node, exp.Select):
        raise LaminarError("LMR0005", "a view is a SELECT", where=view.span(node))
    refuse_extras(node, _CLAUSES, view.span, SELECT_REASONS)
    return node


def _where(view: ViewStatement, select: Any, relation: Relation, windowing: Windowing | None) -> Expression | None:
    clause = select.args.get("where")
    if clause is None:
        return None
    return Resolver(view, _row_scope(relation, windowing), "WHERE").condition(clause.this, "WHERE")


def _row_scope(relation: Relation, windowing: Windowing | None) -> Scope:
    return replace(relation.scope(), hides_bounds=windowing is not None and windowing.in_from)


def _selected(view: ViewStatement, select: Any, relation: Relation, grouping: Grouping) -> Selected:
    rows = _row_scope(relation, grouping.windowing)
    aggregates = Aggregates(rows)
    is_grouped = select.args.get("group") is not None or select.args.get("having") is not None
    if is_grouped or _has_aggregate(select):
        if select.args.get("group") is None and grouping.windowing is not None and not grouping.windowing.implied:
            raise LaminarError(
                "LMR0204", "an aggregate over a window needs GROUP BY", where=grouping.windowing.where,
                hint="Add GROUP BY window_start, window_end.",
            )  # fmt: skip
        _refuse_distinct(view, select)
        return select_grouped(view, select, rows, grouping, aggregates)
    if select.args.get("distinct") is not None:
        return select_distinct(view, select, rows, grouping)
    return select_rows(view, select, rows, grouping)


def _refuse_distinct(view: ViewStatement, select: Any) -> None:
    if select.args.get("distinct") is not None:
        raise LaminarError(
            "LMR0011", "SELECT DISTINCT is not supported over groups", where=view.span(select),
            hint="GROUP BY the columns gives each combination once.",
        )  # fmt: skip


def _has_aggregate(select: Any) -> bool:
    return any(
        isinstance(node, exp.Anonymous) and aggregate_called(node.name) is not None
        for item in select.expressions
        for node in item.walk(prune=lambda n: isinstance(n, exp.Window))
        if not isinstance(node, exp.Window)
    )


# --- putting together ----------------------------------------------------------------------------------------


def _assembled(
    view: ViewStatement, settings: Settings, relation: Relation, grouping: Grouping,
    where: Expression | None, selected: Selected, sinks: Sequence[ReadSink],
) -> Query:  # fmt: skip
    windowing = grouping.windowing
    passes = windowing is None and not selected.is_grouped
    decides = None if passes or settings.emission is not None or settings.sink is not None else deciding(sinks)
    emit = _policy(settings, windowing, decides, passes=passes)
    settings = settings if windowing is not None else settings.without_window()
    time = windowing.time if windowing is not None else None
    inputs = tuple(input_of(branch, time) for branch in relation.branches)
    if time is not None:
        require_effect(view, inputs)
    return Query(
        view=view.name,
        inputs=inputs,
        window=windowing.kind if windowing is not None else None,
        where=where,
        keys=tuple(grouping.keys),
        aggregates=selected.aggregates,
        having=selected.having,
        output=selected.output,
        emit=emit,
        period=settings.period,
        allowed_lateness=settings.allowed_lateness,
        sink=settings.sink or ("append" if emit.append_only else "upsert"),
        side_output=side_output_of(view, settings.values, inputs),
        null_event_time=settings.null_event_time,
        max_groups_per_window=settings.limits.get("max_groups_per_window"),
        max_windows_per_group=settings.limits.get("max_windows_per_group"),
        max_state_rows=settings.limits.get("max_state_rows"),
        gap_fill=settings.gap_fill,
        max_gap=settings.max_gap,
        partition=partitioning_of(
            settings.partition, windowing.kind if windowing is not None else None, settings.partition_zone
        ),
        sql=view.sql,
        file=view.where.file,
        explicit_emit=settings.emission is not None,
        is_grouped=selected.is_grouped,
        ranking=selected.ranking,
        labels=settings.labels,
        emit_for=None if decides is None else decides.sink.name,
        unbounded_state=settings.unbounded_state,
    )


def _policy(settings: Settings, windowing: Windowing | None, sink: ReadSink | None, *, passes: bool) -> EmitPolicy:
    """EMIT, else what the view's own sink asks for, else what a declared one does, else the default.

    For rows that pass through there is nothing to choose: each is shown at once.
    """
    if settings.emission is not None:
        return settings.emission
    if passes:
        return DEFAULT_UNWINDOWED
    from_sink = SINKS[settings.sink].default if settings.sink is not None else None
    if sink is not None:
        from_sink = sink.asks_for
    return from_sink or (DEFAULT_UNWINDOWED if windowing is None else DEFAULT_WINDOWED)


def _places(view: ViewStatement, relation: Relation, grouping: Grouping, selected: Selected) -> dict[str, Span]:
    places = {"view": view.where, **selected.places}
    for branch in relation.branches:
        places[f"input:{branch.source.name}"] = branch.place
    if grouping.windowing is not None:
        places["window"] = grouping.windowing.where
    return places


def _source_places(catalog: Catalog) -> dict[str, Span]:
    places: dict[str, Span] = {}
    for source in catalog.script.sources:
        places[f"source:{source.name}"] = source.where
        for name, option in source.options.items():
            places[f"source:{source.name}.{name}"] = option.whole
    return places
