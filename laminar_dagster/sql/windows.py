"""TUMBLE, HOP, CUMULATE, SESSION and calendar windows: from a call to a `WindowKind`, its mistakes refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Expression, Literal
from laminar_dagster.semantics.functions import TRUNCATIONS
from laminar_dagster.semantics.query import WINDOW_END, WINDOW_START
from laminar_dagster.semantics.time import DAY, WEEK
from laminar_dagster.semantics.windows import Calendar, Cumulate, Hop, Session, Tumble, WindowKind
from laminar_dagster.sql.dialect import WINDOW_FUNCTIONS
from laminar_dagster.sql.intervals import LONGEST, IntervalText, fixed, from_node, read_interval
from laminar_dagster.sql.names import BOUNDS, Scope
from laminar_dagster.sql.nodes import TimeZone

if TYPE_CHECKING:
    from laminar_dagster.sql.expressions import Resolver
    from laminar_dagster.sql.time_clauses import WindowClause

MONDAY = 4 * DAY  # 1970-01-05, the first Monday of the epoch
BOUND_FUNCTIONS = {
    f"{window.lower()}_{end}": (window, bound)
    for window in WINDOW_FUNCTIONS
    for end, bound in (("start", WINDOW_START), ("end", WINDOW_END))
}
SHAPES = {
    "TUMBLE": ("size", "[offset]"),
    "HOP": ("slide", "size", "[offset]"),
    "CUMULATE": ("step", "size"),
    "SESSION": ("gap",),
}


@dataclass(frozen=True)
class Windowing:
    """The window of a query: its kind, the time it is over, and what stands for its expression in SELECT.

    `time` is None where the query leaves it to the sources. `in_from`: rows are in it before they are grouped, and
    `implied`: GROUP BY need not name it.
    """

    kind: WindowKind
    time: Expression | None
    where: Span
    in_from: bool
    implied: bool = False
    stands_for: Mapping[Expression, Expression] = field(default_factory=dict)


def is_window_word(name: str) -> bool:
    lowered = name.lower()
    return name.upper() in WINDOW_FUNCTIONS or lowered in BOUND_FUNCTIONS or lowered == "time_bucket"


# --- reading a call ------------------------------------------------------------------------------------------


def read_window(r: Resolver, name: str, args: Sequence[exp.Expr], where: Span) -> tuple[WindowKind, Expression | None]:
    """A window from the arguments behind its source: the time, which may be left out, the lengths, TIME ZONE."""
    if not args:
        raise _malformed(name, where)
    named = not isinstance(args[0], exp.Interval)
    time = event_time(r, args[0], name) if named else None
    zone = next((a for a in args if isinstance(a, TimeZone)), None)
    lengths = [_length(r, name, a) for a in args[named:] if not isinstance(a, TimeZone)]
    shape = SHAPES[name]
    least = sum(not part.startswith("[") for part in shape)
    if not least <= len(lengths) <= len(shape):
        raise _malformed(name, where)
    return _built(r, name, lengths, zone), time


def _built(r: Resolver, name: str, lengths: list[IntervalText], zone: TimeZone | None) -> WindowKind:
    if zone is None:
        return _BUILDERS[name](lengths)
    if name != "TUMBLE":
        raise LaminarError("LMR0201", f"{name} takes no TIME ZONE", where=r.at(zone), hint="Only TUMBLE does.")
    return _calendar(lengths, _zone(r, zone))


def clause_window(r: Resolver, clause: WindowClause) -> Windowing:
    """What a WINDOW clause says."""
    time = None if clause.time is None else event_time(r, clause.time, "WINDOW")
    kind = _built(r, clause.name, list(clause.lengths), clause.zone)
    return Windowing(kind, time, clause.where, in_from=True, implied=True)


def event_time(r: Resolver, node: exp.Expr, name: str) -> Expression:
    """The time that a window is over; a number that is known to be an event time is the time that it says."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        node = node.expressions[0]
    time = r.time(r.resolve(node))
    if time.type != t.TIMESTAMP:
        raise no_timestamp(f"{name} needs a TIMESTAMP", time, r.at(node))
    return time


def no_timestamp(needed: str, time: Expression, where: Span, *, in_option: bool = False) -> LaminarError:
    """An event time that is none, and how to make one of it: in SQL, or where an option names a column."""
    shown = f'"{time.name}"' if isinstance(time, Column) else "the expression"
    return LaminarError(
        "LMR0205", f"{needed}, and {shown} is {time.type}", where=where,
        hint=(_column_for if in_option else _as_timestamp)(time.type, time.name if isinstance(time, Column) else "…"),
    )  # fmt: skip


def as_timestamp_hint(number: Expression) -> str | None:
    """How a number becomes the time that a function needs."""
    if not number.type.is_numeric:
        return None
    return _as_timestamp(number.type, number.name if isinstance(number, Column) else "…")


def _column_for(type_: t.DataType, written: str) -> str:
    if type_.is_numeric:
        return "Say what it counts: event_time_unit = 'ms', 's' or 'us', beside event_time."
    made = {t.STRING: f"to_timestamp({written})", t.DATE: f"CAST({written} AS TIMESTAMP)"}.get(type_)
    return (
        "Name a column of type TIMESTAMP." if made is None else f"Name a column that the source computes: t AS {made}."
    )


def _as_timestamp(type_: t.DataType, written: str) -> str:
    if type_ == t.STRING:
        return f"Write to_timestamp({written})."
    if type_ == t.DATE:
        return f"Write CAST({written} AS TIMESTAMP)."
    if not type_.is_numeric:
        return "Name a column of type TIMESTAMP."
    return (
        f"Say what it counts: timestamp_millis({written}), timestamp_micros or timestamp_seconds, "
        "or event_time_unit = 'ms' beside WATERMARK FOR: in WITH (…) of the source, or in laminar.toml."
    )


def _length(r: Resolver, name: str, node: exp.Expr) -> IntervalText:
    written = from_node(node, r.at(node))
    if written is None:
        raise LaminarError(
            "LMR0201", f"{name} takes its lengths as intervals", where=r.at(node), hint="Write INTERVAL '1' MINUTE."
        )
    return written


def _malformed(name: str, where: Span) -> LaminarError:
    shape = ", ".join(SHAPES[name])
    return LaminarError(
        "LMR0201",
        f"{name} has the wrong number of arguments",
        where=where,
        hint=f"Write FROM {name}(source, event_time, {shape}) or GROUP BY {name}(event_time, {shape}).",
    )


def _zone(r: Resolver, node: TimeZone) -> str:
    name = node.this.name if node.this is not None else ""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise LaminarError(
            "LMR0206", f'unknown time zone "{name}"', where=r.at(node),
            hint=did_you_mean(name, available_timezones(), "Zones are named as in 'Europe/Berlin'."),
        ) from None  # fmt: skip
    return name


# --- building ------------------------------------------------------------------------------------------------


def _positive(written: IntervalText, window: str, part: str) -> int:
    length = fixed(written, f"{window}'s {part}", "LMR0201")
    if length <= 0:
        raise LaminarError(
            "LMR0201", f"{window}'s {part} must be longer than zero", where=written.where,
            hint=f"Give a positive {part}, as in INTERVAL '1' MINUTE.",
        )  # fmt: skip
    return length


def _tumble(lengths: list[IntervalText]) -> WindowKind:
    if read_interval(lengths[0]).months:
        return _calendar(lengths, "UTC")
    micros = _positive(lengths[0], "TUMBLE", "size")
    return Tumble(micros, _offset(lengths[1:], "TUMBLE", micros))


def _offset(lengths: list[IntervalText], window: str, step: int) -> int:
    return fixed(lengths[0], f"{window}'s offset", "LMR0201") % step if lengths else 0


def _calendar(lengths: list[IntervalText], zone: str) -> WindowKind:
    size = read_interval(lengths[0])
    if size.months <= 0 and size.micros <= 0:
        raise LaminarError("LMR0201", "TUMBLE's size must be longer than zero", where=lengths[0].where)
    if len(lengths) > 1:
        raise LaminarError("LMR0201", "a calendar window has no offset", where=lengths[1].where)
    if max(size.micros, size.months * 31 * DAY) > LONGEST:
        problem = f"TUMBLE's size cannot be {size}: that is longer than any time"
        raise LaminarError("LMR0201", problem, where=lengths[0].where)
    if size.months:
        return Calendar("MONTH", size.months, zone)
    if size.micros % DAY:
        raise LaminarError(
            "LMR0201", "TIME ZONE goes with days, weeks, months, quarters and years", where=lengths[0].where,
            hint="Leave TIME ZONE out: windows of hours or less are the same in every zone.",
        )  # fmt: skip
    in_weeks = "week" in f"{lengths[0].text} {lengths[0].unit}".lower()
    return calendar_window("WEEK" if in_weeks else "DAY", size.micros // (WEEK if in_weeks else DAY), zone)


def calendar_window(unit: str, count: int, zone: str) -> WindowKind:
    """A calendar window, as a fixed one where the calendar is UTC's and the unit always has the same length."""
    if zone in ("UTC", "Etc/UTC", "Z") and unit in ("DAY", "WEEK"):
        return Tumble(count * WEEK, MONDAY % (count * WEEK)) if unit == "WEEK" else Tumble(count * DAY)
    return Calendar(unit, count, zone)


def _hop(lengths: list[IntervalText]) -> WindowKind:
    slide, size = _positive(lengths[0], "HOP", "slide"), _positive(lengths[1], "HOP", "size")
    return Hop(slide, size, _offset(lengths[2:], "HOP", slide))


def _cumulate(lengths: list[IntervalText]) -> WindowKind:
    step, size = _positive(lengths[0], "CUMULATE", "step"), _positive(lengths[1], "CUMULATE", "size")
    if size % step:
        raise LaminarError(
            "LMR0201", "CUMULATE's size must be a multiple of its step", where=lengths[1].where,
            hint="The step comes first: CUMULATE(source, event_time, step, size).",
        )  # fmt: skip
    return Cumulate(step, size)


def _session(lengths: list[IntervalText]) -> WindowKind:
    return Session(_positive(lengths[0], "SESSION", "gap"))


_BUILDERS: Mapping[str, Callable[[list[IntervalText]], WindowKind]] = {
    "TUMBLE": _tumble,
    "HOP": _hop,
    "CUMULATE": _cumulate,
    "SESSION": _session,
}


# --- windows that are written as functions -------------------------------------------------------------------


def time_bucket(r: Resolver, node: Any) -> tuple[WindowKind, Expression]:
    """`time_bucket(INTERVAL '15' MINUTE, t)`: a tumbling window."""
    if len(node.expressions) != 2:
        raise LaminarError(
            "LMR0201", "TIME_BUCKET takes an interval and a time", where=r.at(node),
            hint="Write time_bucket(INTERVAL '15' MINUTE, event_time).",
        )  # fmt: skip
    written = _length(r, "TIME_BUCKET", node.expressions[0])
    time = event_time(r, node.expressions[1], "TIME_BUCKET")
    return _tumble([written]), time


def implicit_window(key: Expression) -> tuple[WindowKind, Expression, Expression] | None:
    """The window that DATE(t) or date_trunc(…, t) means as a group key, t, and the key in terms of the window."""
    start = BOUNDS[WINDOW_START]
    match key:
        case Call("date", (time,)) if time.type == t.TIMESTAMP:
            return Tumble(DAY), time, Call("date", (start,), t.DATE)
        case Call("date_trunc", (Literal(value=unit), time)) if time.type == t.TIMESTAMP:
            return _truncation_window(unit), time, start
    return None


def _truncation_window(unit: str) -> WindowKind:
    if unit in TRUNCATIONS:
        return calendar_window(unit, 1, "UTC") if unit == "WEEK" else Tumble(TRUNCATIONS[unit])
    return Calendar("MONTH", {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit], "UTC")


@dataclass(frozen=True)
class WindowUse:
    """How SELECT and HAVING may speak of the query's window: TUMBLE_START(…), time_bucket(…)."""

    windowing: Windowing | None
    rows: Scope

    def resolve(self, r: Resolver, node: Any) -> Expression:
        name = node.name.lower()
        bound = WINDOW_START if name == "time_bucket" else BOUND_FUNCTIONS.get(name, ("", None))[1]
        if bound is None:
            raise LaminarError(
                "LMR0203", f"{name.upper()} has no value of its own", where=r.at(node),
                hint="Select window_start and window_end.",
            )  # fmt: skip
        if self.windowing is None or not self._same_window(r, name, node):
            raise LaminarError(
                "LMR0203", f"{name.upper()} speaks of a window that this query does not have", where=r.at(node),
                hint="Give it the arguments of the window in GROUP BY, or select window_start and window_end.",
            )  # fmt: skip
        return BOUNDS[bound]

    def _same_window(self, r: Resolver, name: str, node: Any) -> bool:
        windowing = self.windowing
        if windowing is None:
            return False
        inner = r.over(self.rows, "a window")
        if name == "time_bucket":
            return time_bucket(inner, node) == (windowing.kind, windowing.time)
        window = BOUND_FUNCTIONS[name][0]
        if not node.expressions:
            return type(windowing.kind).__name__.upper() in (window, "CALENDAR")
        return read_window(inner, window, node.expressions, r.at(node)) == (windowing.kind, windowing.time)
