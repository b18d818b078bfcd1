"""A plan as a tree of plain text: what `laminar explain` prints, from the same object that runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laminar_dagster.plan.bounds import unbounded
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.plan import Plan, partial_column, prepared_columns_of
from laminar_dagster.semantics.aggregates import TIME
from laminar_dagster.semantics.emit import SINKS, Early, EmitPolicy
from laminar_dagster.semantics.query import PROCESSING_TIME, AggregateCall, Input, Query, Ranking, TimeStep
from laminar_dagster.semantics.sinks import APPEND, DROP, UPSERT, WAIT, DeclaredSink
from laminar_dagster.semantics.spark_sql import display
from laminar_dagster.semantics.time import format_micros
from laminar_dagster.semantics.watermark import ShardPolicy
from laminar_dagster.semantics.windows import has_gaps


@dataclass(frozen=True)
class Node:
    text: str
    children: Sequence[Node] = ()


def explain(plan: Plan) -> str:
    """Sources, watermark, window, keys, expressions, partial/merge/finish, emission, sink and state, as a tree."""
    return "\n".join(tree_lines(_tree(plan)))


def tree_lines(node: Node) -> list[str]:
    lines = [node.text]
    for position, child in enumerate(node.children):
        last = position == len(node.children) - 1
        first, *rest = tree_lines(child)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return lines


def _tree(plan: Plan) -> Node:
    query = plan.query
    parts = [_source(entry) for entry in query.inputs]
    parts.append(_window(query))
    if query.where is not None:
        parts.append(Node(f"where {display(query.where)}"))
    parts += [Node("rows pass through")] if query.passes_rows else _grouping(query)
    if query.having is not None:
        parts.append(Node(f"having {display(query.having)}"))
    if query.ranking is not None:
        parts.append(_ranking(query.ranking))
    parts += [_output(query), _emit(query), _sink(query)]
    parts += [_declared(sink) for sink in query.sinks]
    parts += [_side_output(query), _state(plan)]
    return Node(f"view {query.view} [{fingerprint(plan)}]", parts)


def _source(entry: Input) -> Node:
    source = entry.source
    options = "".join(f", {name} = '{value}'" for name, value in sorted(source.options.items()))
    children = [
        Node("columns: " + ", ".join(f"{f.name} {f.type}" for f in source.columns)),
        Node(f"event time: {_event_time(entry)}, {_decided(entry)}"),
        Node(f"watermark: {_watermark(entry)}"),
    ]
    if source.unique is not None:
        key, within = ", ".join(source.unique.columns), format_micros(source.unique.within)
        children.append(Node(f"unique: ({key}), remembered for {within} of event time"))
    renamed = [n for n in entry.columns if display(n.expression) != n.name]
    if renamed:
        children.append(Node("hands on: " + ", ".join(f"{display(n.expression)} AS {n.name}" for n in renamed)))
    if entry.where is not None:
        children.append(Node(f"keeps: {display(entry.where)}"))
    return Node(f"source {source.name} ({source.connector}{options})", children)


def _watermark(entry: Input) -> str:
    policy = entry.policy
    if not entry.has_watermark:
        return "none is declared: no row is late, and no window closes"
    if entry.handed_on(0) is not None:
        return f"{_handed_on(entry)}; {_idle(policy)}"
    lag = f" - {format_micros(policy.lag)}" if policy.lag else ""
    skew = policy.max_future_skew
    ahead = f"rows at most {format_micros(skew)} ahead" if skew is not None else "no future guard"
    of_each = " of each partition" if entry.source.connector == "kafka" else ""
    return f"max({_event_time(entry)}){lag}{of_each}; {_idle(policy)}; {ahead}"


def _handed_on(entry: Input) -> str:
    """The watermark of the view that is read, less what its rows stay behind it."""
    shift = entry.handed_on(0) or 0
    away = "" if shift == 0 else f" {'-' if shift < 0 else '+'} {format_micros(abs(shift))}"
    return f"that of view {entry.source.name}{away}"


def _idle(policy: ShardPolicy) -> str:
    return "never idle" if policy.idle_timeout is None else f"idle after {format_micros(policy.idle_timeout)}"


def _event_time(entry: Input) -> str:
    return "processing time" if entry.event_time == PROCESSING_TIME else display(entry.event_time)


def _decided(entry: Input) -> str:
    """Which step of the resolution gave the event time."""
    match entry.time_step:
        case TimeStep.QUERY:
            return "as the SQL says"
        case TimeStep.CONFIGURATION:
            return f"as {entry.source.said['event_time']} says"
        case TimeStep.METADATA:
            return "source metadata, as neither the query nor the configuration names one"
        case TimeStep.PROCESSING_TIME:
            return "as neither the query nor the configuration names one, and the source has no metadata for it"


def _window(query: Query) -> Node:
    if query.window is None:
        return Node("window: none")
    gaps = [Node("gaps between windows: a row in one is in no window")] if has_gaps(query.window) else []
    return Node(f"window {query.window}", gaps)


def _grouping(query: Query) -> list[Node]:
    return [_keys(query), _before(query), Node("aggregates", [_aggregate(call) for call in query.aggregates])]


def _keys(query: Query) -> Node:
    if query.repeats is not None:
        return Node("rows kept, with their number", [Node(f"k{i} = {k.name}") for i, k in enumerate(query.keys)])
    if not query.keys:
        return Node(f"keys: none, one group{'' if query.window is None else ' for each window'}")
    return Node("keys", [Node(f"k{i} = {display(k.expression)} ({k.type})") for i, k in enumerate(query.keys)])


def _before(query: Query) -> Node:
    """What is computed for each row before it is aggregated."""
    computed = []
    for call in query.aggregates:
        read = [display(argument) for argument in call.arguments] or ["every row"]
        read += ["event time"] if TIME in call.kernel.inputs else []
        kept = f" where {display(call.filter)}" if call.filter is not None else ""
        computed.append(Node(f"{call.id}: {', '.join(read)}{kept}"))
    return Node("before aggregation", computed)


def _aggregate(call: AggregateCall) -> Node:
    columns = {p.name: partial_column(call.id, p.name) for p in call.kernel.partials}
    row = prepared_columns_of(call)
    partial = ", ".join(f"{columns[p.name]} = {p.make.format(**row)}" for p in call.kernel.partials)
    merge = ", ".join(p.merge.format(p=columns[p.name], **columns) for p in call.kernel.partials)
    children = [
        Node(f"partial: {partial}"),
        Node(f"merge: {merge}"),
        Node(f"finish: {call.kernel.finish.format(**columns)}"),
    ]
    if call.kernel.overflow is not None:
        children.append(Node(f"does not fit when: {call.kernel.overflow.format(**columns)}"))
    if call.kernel.grows is not None:
        children.append(Node(f"state grows with its input: {call.kernel.grows}"))
    return Node(f"{call.id} = {call.text} ({call.kernel.result})", children)


def _ranking(ranking: Ranking) -> Node:
    order = [
        f"{display(key)} {'DESC' if by.descending else 'ASC'} NULLS {'FIRST' if by.nulls_first else 'LAST'}"
        for key, by in ranking.order
    ]
    children = [
        Node("in each " + ", ".join(display(part) for part in ranking.partition)),
        Node("by " + ", ".join(order) + ", then by the row's own values"),
    ]
    if ranking.where is not None:
        children.append(Node(f"of these, where {display(ranking.where)}"))
    first = "all rows" if ranking.limit is None else f"the first {ranking.limit}"
    return Node(f"row numbers: {first}", children)


def _output(query: Query) -> Node:
    return Node("output", [Node(f"{n.name} = {display(n.expression)} ({n.type})") for n in query.output])


def _emit(query: Query) -> Node:
    policy = query.emit
    period = f" {format_micros(query.period)}" if query.period is not None else ""
    children = [Node(_chosen(query)), Node(_closing(query))]
    if query.gap_fill is not None:
        longest = "" if query.max_gap is None else f", gaps of up to {format_micros(query.max_gap)}"
        children.append(Node(f"gap fill: {query.gap_fill}{longest}"))
    moments = _at_once(query) if query.passes_rows else _moments(policy, windowed=query.has_watermark)
    return Node(f"emit {policy.sql}{period}: {moments}", children)


def _at_once(query: Query) -> str:
    taken_back = "append only" if query.only_appends else "what the source takes back goes"
    return f"each row, in the epoch that brings it; {taken_back}"


def _chosen(query: Query) -> str:
    """Who decided on the strategy: the view, a sink, or nobody."""
    if query.explicit_emit:
        return "as written"
    if query.emit_for is not None:
        return f"chosen for sink {query.emit_for}, since the view says no EMIT"
    if "sink" in query.places and SINKS[query.sink].default is query.emit:
        return f"chosen because {SINKS[query.sink].why}, since the view says no EMIT"
    return f"the default {'without' if query.window is None else 'with'} a window, since the view says no EMIT"


def _moments(policy: EmitPolicy, windowed: bool) -> str:
    moments = [policy.early.value] if policy.early is not Early.NOTHING else []
    moments += ["when the watermark passes a window's end"] if policy.at_watermark and windowed else []
    moments += ["once, when a window closes"] if policy.at_close and policy.append_only else []
    return ", ".join(moments) + ("; append only" if policy.append_only else "; with retractions")


def _closing(query: Query) -> str:
    if not query.has_watermark:
        return "nothing closes"
    late = f" + {format_micros(query.lateness)}" if query.lateness else ""
    return f"a window closes when watermark >= window_end{late}"


def _sink(query: Query) -> Node:
    partitions = "" if query.window is None else f", partitioned by {query.partition}"
    return Node(f"sink {query.sink}{partitions}")


def _declared(sink: DeclaredSink) -> Node:
    """Where a sink's rows go, and what of the view's changes they are."""
    options = "".join(f", {name} = '{value}'" for name, value in sorted(sink.options.items()))
    return Node(f"sink {sink.name} ({sink.connector}{options})", [Node(f"gets {_gets(sink)}"), Node(_sureness(sink))])


def _gets(sink: DeclaredSink) -> str:
    if sink.mode == APPEND:
        return "new rows, appended"
    if sink.mode == UPSERT:
        return f"the newest row of each ({', '.join(sink.key)}), upserted" if sink.key else "the one row, upserted"
    return "every change" + (f", by key ({', '.join(sink.key)})" if sink.key else "")


def _sureness(sink: DeclaredSink) -> str:
    if sink.connector == "kafka":
        return "at least once: epoch and sequence number tell repeats"
    return f"exactly once: one {'version' if sink.connector == 'delta' else 'file'} for each epoch with changes"


def _side_output(query: Query) -> Node:
    routes = ", ".join(f"{kind} to {route}" for kind, route in sorted(query.side_output.routes.items()))
    null = "takes processing time" if query.null_event_time == "fallback" else "is set aside"
    timeless = all(entry.event_time == PROCESSING_TIME for entry in query.inputs)
    children = [] if timeless else [Node(f"a row without an event time {null}")]
    limits = {
        "groups in a window": query.max_groups_per_window,
        "open windows of a group": query.max_windows_per_group,
        "rows of state": query.max_state_rows,
    }
    children += [Node(f"at most {limit} {what}") for what, limit in limits.items() if limit is not None]
    children += [Node(_route(sink)) for sink in query.side_output.sinks]
    children += [Node(f"{kind} without the original") for kind in sorted(query.side_output.without_original)]
    if query.side_output.max_rows is not None:
        children.append(
            Node(f"at most {query.side_output.max_rows} rows of each kind in an epoch, the rest is counted")
        )
    return Node(f"side output: {routes + ', the rest to table' if routes else 'table'}", children)


def _route(sink: DeclaredSink) -> str:
    """Where entries go beside the table."""
    if sink.connector == "kafka":
        client = f" with {sink.options['properties']}" if "properties" in sink.options else ""
        return f"{sink.entries} to {sink.target} at {sink.options['brokers']}{client}, {_sureness(sink)}{_bound(sink)}"
    return f"{sink.entries} to {sink.target}, the original rows as JSON lines, {_sureness(sink)}{_bound(sink)}"


def _bound(sink: DeclaredSink) -> str:
    """How much of an epoch a route takes, and what becomes of the rest."""
    bounds = sink.saturation
    if bounds.policy == WAIT:
        return "; waits"
    most = [f"{bounds.rows} rows"] if bounds.rows is not None else []
    most += [f"{bounds.bytes} bytes"] if bounds.bytes is not None else []
    most += [format_micros(bounds.micros)] if sink.connector == "kafka" else []
    rest = "the rest is dropped" if bounds.policy == DROP else "else the run fails"
    return f"; at most {', '.join(most)} for an epoch, {rest}" if most else ""


def _state(plan: Plan) -> Node:
    remembered = [Node(f"keys seen in {e.source.name}") for e in plan.query.inputs if e.source.unique is not None]
    if plan.query.passes_rows:
        return Node("state", remembered) if remembered else Node("state: none")
    layout = plan.layout
    key = ", ".join(("pane", *layout.key_columns))
    children = [
        Node(f"one row for each ({key}) and epoch"),
        Node("columns: " + (", ".join(layout.partial_columns) or "none")),
        Node(f"buckets: pane_end, {format_micros(layout.bucket_width)} wide"),
    ]
    if plan.query.gap_fill is not None:
        children.append(Node(_kept_for_gaps(plan.query)))
    children += [*remembered, *(Node(f"not bounded: {entry.why}") for entry in unbounded(plan.query))]
    return Node("state: a log of partials", children)


def _kept_for_gaps(query: Query) -> str:
    if not query.keys:
        return "keeps the last closed window"
    if query.max_gap is None:
        return "keeps the last closed window of each key; max_gap would limit this"
    return f"keeps the last closed window of each key for {format_micros(query.max_gap)}"
