"""Expected against observed: unordered, exact, only the columns that the case lists, with a difference to read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from laminar_dagster.semantics.time import from_datetime, from_iso, to_iso

Row = Mapping[str, Any]
_TIME = re.compile(r"[+-]?\d{4,6}-\d\d-\d\dT.*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH = date(1970, 1, 1)


def same(expected: Any, observed: Any, approx: float | None = None) -> bool:
    """Whether a value is the one that the case names: times as instants, decimals by value."""
    if expected is None or observed is None:
        return expected is observed
    if isinstance(expected, bool) or isinstance(observed, bool):
        return expected is observed
    if isinstance(expected, str):
        return _same_text(expected, observed)
    if isinstance(expected, int | float) and isinstance(observed, int | float | Decimal):
        return _same_number(expected, observed, approx)
    return bool(expected == observed)


def _same_text(expected: str, observed: Any) -> bool:
    if expected == observed:
        return True
    if isinstance(observed, Decimal):
        return _decimal(expected) == observed
    if _TIME.fullmatch(expected):
        return from_iso(expected) == _micros(observed)
    if _DATE.fullmatch(expected):
        return (date.fromisoformat(expected) - _EPOCH).days == _days(observed)
    return False


def _same_number(expected: Any, observed: Any, approx: float | None) -> bool:
    if expected == observed:
        return True
    floats = [value for value in (expected, observed) if isinstance(value, float)]
    if len(floats) == 2 and all(map(math.isnan, floats)):
        return True
    if approx is None or not floats:
        return False
    return math.isclose(expected, observed, rel_tol=approx, abs_tol=approx)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _micros(value: Any) -> int | None:
    """An observed time in whatever form a runner has it."""
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return from_iso(value)
    return value if isinstance(value, int) else None


def _days(value: Any) -> int | None:
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH).days
    return value if isinstance(value, int) else None


def matches(expected: Row, observed: Row, approx: float | None, ignore: frozenset[str] = frozenset()) -> bool:
    """Whether a row has the listed values; a column that is not there is not NULL."""
    listed = [name for name in expected if name not in ignore]
    return all(name in observed and same(expected[name], observed[name], approx) for name in listed)


@dataclass(frozen=True)
class Difference:
    """Rows that should be there and are not, and rows that are there and should not be."""

    what: str
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    columns: tuple[str, ...]
    times: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)

    def __str__(self) -> str:
        lines = [f"{self.what}:"]
        lines += [f"  missing    {show(row, tuple(row), self.times)}" for row in self.missing]
        lines += [f"  unexpected {show(row, self.columns or tuple(row), self.times)}" for row in self.unexpected]
        return "\n".join(lines)


def compare_rows(
    what: str,
    expected: Sequence[Row],
    observed: Sequence[Row],
    approx: float | None = None,
    ignore: frozenset[str] = frozenset(),
) -> Difference:
    """Both as multisets: each observed row can answer for one expected row."""
    left = list(observed)
    missing: list[Row] = []
    for row in expected:
        position = next((i for i, other in enumerate(left) if matches(row, other, approx, ignore)), None)
        if position is None:
            missing.append(row)
        else:
            del left[position]
    columns = tuple(dict.fromkeys(name for row in expected for name in row))
    return Difference(what, tuple(missing), tuple(left), columns, time_columns(expected))


def time_columns(rows: Sequence[Row]) -> frozenset[str]:
    """The columns in which the case writes times, so that a difference can be read."""
    listed = {name for row in rows for name, value in row.items() if isinstance(value, str) and _TIME.fullmatch(value)}
    return frozenset({"window_start", "window_end"} | listed)


def compare_side_output(expected: Sequence[Row], observed: Sequence[Row], approx: float | None) -> Difference:
    """Every entry must be accounted for: by an original row that is listed, or by a count.

    `observed` entries have `kind`, `reason` and `row`. The most particular expectations choose first.
    """
    left = list(observed)
    missing: list[Row] = []
    for item in sorted(expected, key=lambda item: ("rows" not in item, "reason" not in item)):
        wanted = item["rows"] if "rows" in item else [None] * item["count"]
        for row in wanted:
            position = next((i for i, e in enumerate(left) if _is_entry(item, row, e, approx)), None)
            if position is None:
                missing.append({"kind": item["kind"], "reason": item.get("reason", "any"), "row": row})
            else:
                del left[position]
    rows = [row for item in expected for row in item.get("rows", ())]
    return Difference("side_output", tuple(missing), tuple(left), ("kind", "reason", "row"), time_columns(rows))


def _is_entry(item: Row, row: Row | None, entry: Row, approx: float | None) -> bool:
    if entry["kind"] != item["kind"] or entry["reason"] != item.get("reason", entry["reason"]):
        return False
    return row is None or (entry["row"] is not None and matches(row, entry["row"], approx))


def show(row: Row, columns: Sequence[str], times: frozenset[str]) -> str:
    """A row on one line, with times that can be read."""
    parts = [f"{name}: {_show_value(row[name], name in times, times)}" for name in columns if name in row]
    return "{" + ", ".join(parts) + "}"


def _show_value(value: Any, is_time: bool, times: frozenset[str]) -> str:
    if isinstance(value, Mapping):
        return show(value, tuple(value), times)
    if is_time and isinstance(value, int):
        return to_iso(value)
    if isinstance(value, datetime):
        return to_iso(from_datetime(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "null" if value is None else str(value)
