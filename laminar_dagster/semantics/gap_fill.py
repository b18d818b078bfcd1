"""GAP FILL: rows for the windows without rows between two windows of a key, made of the results on either side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.evaluation import evaluate
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal, RowError
from laminar_dagster.semantics.grouping import Group, argument_values, bounds, key_columns, selected
from laminar_dagster.semantics.judging import ERROR, Key, SideEntry, holds
from laminar_dagster.semantics.query import AggregateCall, Query
from laminar_dagster.semantics.types import DataType
from laminar_dagster.semantics.windows import Window
from laminar_dagster.semantics.zset import Row

STEP, STEPS = Column("step", t.BIGINT), Column("steps", t.BIGINT)


def before(call: AggregateCall) -> Column:
    """The result of the window before the gap; NULL if it has none."""
    return Column(f"{call.id}_before", call.kernel.result)


def after(call: AggregateCall) -> Column:
    """The same of the window after the gap."""
    return Column(f"{call.id}_after", call.kernel.result)


def filling(kind: str, call: AggregateCall) -> Expression:
    """What stands for the aggregate in the `STEP`-th of the windows before the one that is `STEPS` further on."""
    match kind:
        case "LINEAR":
            return _as_result(_on_the_line(before(call), after(call)), call.kernel.result)
        case "LOCF":
            return before(call)
        case _:
            return Literal(None, call.kernel.result)


def _on_the_line(start: Expression, end: Expression) -> Expression:
    """`start + (end - start) * (STEP / STEPS)`, in DOUBLE and in this order: rounding depends on it."""
    part = Call("divide", (_double(STEP), _double(STEPS)), t.DOUBLE)
    rise = Call("subtract", (_double(end), _double(start)), t.DOUBLE)
    return Call("add", (_double(start), Call("multiply", (rise, part), t.DOUBLE)), t.DOUBLE)


def _double(number: Expression) -> Expression:
    return number if number.type == t.DOUBLE else Call("cast", (number,), t.DOUBLE)


def _as_result(value: Expression, type_: DataType) -> Expression:
    """In the aggregate's own type: whole numbers and decimals are rounded, half away from zero."""
    if type_ == t.DOUBLE:
        return value
    rounded = Call("round", (value,), t.DOUBLE) if type_.is_integer else value
    return Call("cast", (rounded,), type_)


@dataclass(frozen=True)
class Filled:
    """A window without rows that gets a row all the same: what HAVING and SELECT are over."""

    key: Key
    window: Window
    known: Mapping[str, Any]


class Gaps:
    """Remembers the last closed window of each key, and what its aggregates gave."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._last: dict[Key, tuple[Window, Mapping[str, Any]]] = {}

    def fill(self, closed: Iterable[Group]) -> list[Filled]:
        """The rows between each of these groups and the one of the same key that closed before it."""
        placed = [(group.window, group) for group in closed if group.window is not None and group.remaining]
        in_order = sorted(placed, key=lambda pair: pair[0])
        return [filled for window, group in in_order for filled in self._before(window, group)]

    def _before(self, later: Window, group: Group) -> Iterator[Filled]:
        results = {call.id: _result(call, group) for call in self.query.aggregates}
        last = self._last.get(group.key)
        self._last[group.key] = (later, results)
        if last is None:
            return
        earlier, old = last
        gap = self._between(earlier, later)
        for position, empty in enumerate(gap, start=1):
            ends = {before(call).name: old[call.id] for call in self.query.aggregates}
            ends |= {after(call).name: results[call.id] for call in self.query.aggregates}
            place = {STEP.name: position, STEPS.name: len(gap) + 1}
            yield Filled(group.key, empty, self._known(group.key, empty, {**ends, **place}))

    def _between(self, earlier: Window, later: Window) -> list[Window]:
        limit = self.query.max_gap
        if limit is not None and later.start - earlier.end > limit:
            return []
        assert self.query.window is not None
        windows: list[Window] = []
        end = earlier.end
        while end < later.start:
            windows.append(self.query.window.pane(end))
            end = windows[-1].end
        return windows

    def _known(self, key: Key, window: Window, around: Mapping[str, Any]) -> dict[str, Any]:
        known = {f"k{position}": part for position, part in enumerate(key)} | bounds(window)
        kind = self.query.gap_fill or ""
        return known | {call.id: _value(filling(kind, call), around) for call in self.query.aggregates}


def emit_filled(query: Query, gap: Iterable[Filled], watermark: int | None) -> tuple[list[Row], list[SideEntry]]:
    """The rows of windows without rows that HAVING lets through, and those in which SELECT has no value."""
    rows: list[Row] = []
    errors: list[SideEntry] = []
    for filled in gap:
        try:
            rows += [selected(query, filled.known)] if holds(query.having, filled.known) else []
        except RowError as trouble:
            key = key_columns(query, filled.key)
            errors.append(SideEntry(ERROR, trouble.reason, None, filled.window, key, None, watermark))
    return rows, errors


def _result(call: AggregateCall, group: Group) -> Any:
    """A result that does not fit its type is no end that a gap could be filled from: it counts as NULL."""
    rows = list(zip(group.remaining, group.remaining_times, strict=True))
    try:
        return call.kernel.fresh(argument_values(call, rows))
    except RowError:
        return None


def _value(expression: Expression, row: Mapping[str, Any]) -> Any:
    """A value that does not fit its type is NULL, too."""
    try:
        return evaluate(expression, row)
    except RowError:
        return None
