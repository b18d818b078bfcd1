"""INTERVAL in its three spellings, and the same text inside WITH (…)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics.time import (
    CALENDAR_UNITS,
    DAY,
    FIXED_UNITS,
    Interval,
    UnknownUnitError,
    interval,
    parse_interval,
)

LONGEST = 10_000 * 366 * DAY  # all years that a time can be in
UNITS = (*FIXED_UNITS, *CALENDAR_UNITS)
_SPELLINGS = "Write INTERVAL '10' SECOND, INTERVAL '10 seconds' or INTERVAL 10 SECONDS"
_OPTION_SPELLING = "Write it as in '10 seconds' or '1 hour 30 minutes'"


@dataclass(frozen=True)
class IntervalText:
    """An interval as written: its number or text, its unit where that stands outside, and its place."""

    text: str
    unit: str | None
    where: Span
    in_option: bool = False


def read_interval(written: IntervalText) -> Interval:
    """The length of time that was written, or a refusal with the unit in it."""
    try:
        if written.unit is None:
            return parse_interval(written.text)
        return interval(int(written.text), written.unit)
    except UnknownUnitError as error:
        raise LaminarError(
            "LMR0006",
            f'unknown unit of time "{error.unit}"',
            where=written.where,
            hint=did_you_mean(error.unit, UNITS, f"Units of time: {', '.join(UNITS)}."),
        ) from None
    except ValueError:
        raise LaminarError(
            "LMR0006",
            f'"{written.text}" is not an interval',
            where=written.where,
            hint=f"{_OPTION_SPELLING if written.in_option else _SPELLINGS}; "
            "months and years do not mix with shorter units.",
        ) from None


def fixed(written: IntervalText, what: str, code: str) -> int:
    """The interval in microseconds; months and years have no fixed length."""
    length = read_interval(written)
    if length.months:
        raise LaminarError(
            code,
            f"{what} cannot be {length}: a month has no fixed length",
            where=written.where,
            hint="Use days, hours, minutes or seconds.",
        )
    if abs(length.micros) > LONGEST:
        raise LaminarError(code, f"{what} cannot be {length}: that is longer than any time", where=written.where)
    return length.micros


def from_node(node: exp.Expr, where: Span) -> IntervalText | None:
    if not isinstance(node, exp.Interval):
        return None
    unit = node.args.get("unit")
    return IntervalText(node.this.name, unit.name if unit is not None else None, where)
