"""A short name for what a plan computes: the same for the same meaning, however the SQL is written.

A store remembers it, so that a view whose query changed is not continued from state that means something else. What may
change between two epochs, because state means the same under it, has a name of its own: the settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from laminar_dagster.plan.plan import Plan
from laminar_dagster.plan.pruning import columns_read
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal
from laminar_dagster.semantics.query import AggregateCall, Input, Ranking

LENGTH = 16
REMEDIES = ("on_rewrite", "on_data_loss")
ADDRESSES = ("brokers", "properties")
# What is taken next: what was taken, and in which order, stands in the log.
TURNS = ("order",)


def fingerprint(plan: Plan) -> str:
    """Stable over formatting, comments, clause order and columns that the view does not read."""
    return _short_name(_meaning(plan))


def settings_fingerprint(plan: Plan) -> str:
    """Of what may be set anew between two epochs, but not within one: routes, idle timeouts, guards."""
    query = plan.query
    guards = {entry.source.name: [entry.source.idle_timeout, entry.source.max_future_skew] for entry in query.inputs}
    return _short_name({"side_output": sorted(query.side_output.routes.items()), "guards": guards})


def _short_name(meaning: Mapping[str, Any]) -> str:
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _meaning(plan: Plan) -> dict[str, Any]:
    query = plan.query
    read = columns_read(query)
    return {
        "view": query.view,
        "inputs": [_input(entry, read) for entry in query.inputs],
        "window": repr(query.window),
        "where": _expression(query.where),
        "keys": [_expression(key.expression) for key in query.keys],
        "aggregates": [_aggregate(call) for call in query.aggregates],
        "having": _expression(query.having),
        "output": [[named.name, _expression(named.expression)] for named in query.output],
        "emit": [query.emit.name, query.period, query.lateness],
        "sink": [query.sink, str(query.partition)],
        "null_event_time": query.null_event_time,
        "limits": [query.max_groups_per_window, query.max_windows_per_group, query.max_state_rows],
        "gap_fill": query.gap_fill,
        "state": [plan.layout.bucket_width, plan.layout.accumulator_columns],
        **({} if query.max_gap is None else {"max_gap": query.max_gap}),
        **({} if query.repeats is None else {"repeats": query.repeats}),
        **({} if query.ranking is None else {"ranking": _ranking(query.ranking)}),
    }


def _ranking(ranking: Ranking) -> list[Any]:
    order = [[_expression(key), by.descending, by.nulls_first] for key, by in ranking.order]
    return [[_expression(part) for part in ranking.partition], order, ranking.limit, _expression(ranking.where)]


def _input(entry: Input, read: set[str]) -> dict[str, Any]:
    source = entry.source
    return {
        "source": [source.name, source.connector, sorted(_meaningful(source.options).items())],
        "time": [source.watermark_lag, _expression(entry.event_time)],
        "columns": [[n.name, _expression(n.expression)] for n in entry.columns if n.name in read],
        "where": _expression(entry.where),
        **({} if source.unique is None else {"unique": [*source.unique.columns, source.unique.within]}),
    }


def _meaningful(options: Mapping[str, str]) -> dict[str, str]:
    """Without the options that say what to do about trouble, how to reach the same thing, or what to take first."""
    return {name: value for name, value in options.items() if name not in (*REMEDIES, *ADDRESSES, *TURNS)}


def _aggregate(call: AggregateCall) -> list[Any]:
    return [
        call.kernel.aggregate,
        str(call.kernel.result),
        call.distinct,
        _expression(call.arguments[0] if call.arguments else None),
        _expression(call.filter),
        *(_expression(argument) for argument in call.arguments[1:]),
        *([repr(constant) for constant in call.kernel.constants]),
        *([key.descending, key.nulls_first] for key in call.kernel.order),
    ]


def _expression(expression: Expression | None) -> Any:
    match expression:
        case None:
            return None
        case Column(name, type_):
            return ["column", name, str(type_)]
        case Literal(value, type_):
            return ["literal", str(value), str(type_)]
        case Call("window_id", (_, *bounds), type_):
            return ["window_id", str(type_), *(_expression(bound) for bound in bounds)]
        case Call(function, args, type_):
            return [function, str(type_), *(_expression(argument) for argument in args)]
