"""Views built by hand, so that the rules are tested without the SQL front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES
from laminar_dagster.semantics.emit import ON_WINDOW_CLOSE, EmitPolicy
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, Named
from laminar_dagster.semantics.query import AggregateCall, Field, Input, Query, SideOutput, Source
from laminar_dagster.semantics.reference import Commit, EpochResult, Reference
from laminar_dagster.semantics.time import SECOND
from laminar_dagster.semantics.windows import Tumble, WindowKind

K, V, TS = Column("k", t.STRING), Column("v", t.BIGINT), Column("ts", t.TIMESTAMP)
FIELDS = (Field("k", t.STRING), Field("v", t.BIGINT), Field("ts", t.TIMESTAMP))
LATER = 10**18
TEN_SECONDS = Tumble(10 * SECOND)
EVENTS = Source("ev", "memory", FIELDS, {}, TS, 0)


def source(name: str = "ev", *, lag: int = 0, **settings: Any) -> Source:
    return Source(name, "memory", FIELDS, {}, TS, lag, **settings)


def reading(origin: Source, where: Expression | None = None) -> Input:
    columns = (Named("k", K), Named("v", V), Named("ts", TS))
    return Input(origin, columns, where, TS)


def count() -> AggregateCall:
    return AggregateCall("a0", AGGREGATES["count"].kernel(), (), None, "COUNT(*)")


def total(argument: Expression = V) -> AggregateCall:
    return AggregateCall("a1", AGGREGATES["sum"].kernel(argument.type), (argument,), None, "SUM(v)")


def named(**expressions: Expression) -> tuple[Named, ...]:
    return tuple(Named(name, expression) for name, expression in expressions.items())


def bounds(window: WindowKind | None) -> tuple[Named, ...]:
    if window is None:
        return ()
    return named(start=Column("window_start", t.TIMESTAMP), end=Column("window_end", t.TIMESTAMP))


def view(
    *,
    window: WindowKind | None = TEN_SECONDS,
    emit: EmitPolicy = ON_WINDOW_CLOSE,
    sources: Sequence[Source] = (EVENTS,),
    keyed: bool = True,
    argument: Expression = V,
    **more: Any,
) -> Query:
    """COUNT(*) as c and SUM(v) as s by k and window, with whatever else is asked for."""
    keys = named(k=K) if keyed else ()
    results = named(c=Column("a0", t.BIGINT), s=Column("a1", t.BIGINT))
    settings: dict[str, Any] = {
        "where": None,
        "having": None,
        "period": None,
        "allowed_lateness": 0,
        "sink": "upsert",
        "side_output": SideOutput(),
    }
    return Query(
        view="out",
        inputs=tuple(reading(origin) for origin in sources),
        window=window,
        keys=keys,
        aggregates=(count(), total(argument)),
        output=(*bounds(window), *(named(k=Column("k0", t.STRING)) if keyed else ()), *results),
        emit=emit,
        **{**settings, **more},
    )


def above(limit: int) -> Expression:
    return Call("gt", (V, Literal(limit, t.BIGINT)), t.BOOLEAN)


def row(k: str | None, v: int | None, seconds: float | None, weight: int | None = None) -> dict[str, Any]:
    time = None if seconds is None else round(seconds * SECOND)
    return {"k": k, "v": v, "ts": time} | ({} if weight is None else {"_weight": weight})


def run(query: Query, *epochs: Sequence[Sequence[Mapping[str, Any]]], now: int = LATER) -> list[EpochResult]:
    """Each epoch is a list of commits to the source `ev`, each commit a list of rows."""
    reference = Reference(query)
    return [reference.epoch([Commit("ev", rows) for rows in commits], now) for commits in epochs]


def short(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as tuples, times in seconds, in an order that a test can name."""
    times = ("start", "end")
    found = [tuple(value // SECOND if name in times else value for name, value in row.items()) for row in rows]
    return sorted(found, key=repr)


def ops(result: EpochResult) -> list[tuple[Any, ...]]:
    return [(change.op.value, *short([change.row])[0]) for change in result.changes]


def aside(result: EpochResult) -> list[tuple[Any, ...]]:
    return [(entry.kind, entry.reason, None if entry.row is None else entry.row["v"]) for entry in result.side_output]
