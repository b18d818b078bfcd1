"""Stretches of event time that a correction is about, and how far its windows reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laminar_dagster.semantics.time import REACH
from laminar_dagster.semantics.windows import Cumulate, FixedWindow, Hop, Window, floor_to, longest_window

ALWAYS = REACH
EVER = Window(-ALWAYS, ALWAYS)


def joined(ranges: Iterable[Window]) -> tuple[Window, ...]:
    """The same moments in as few stretches as possible, in order."""
    found: list[Window] = []
    for stretch in sorted(ranges):
        if found and stretch.start <= found[-1].end:
            found[-1] = Window(found[-1].start, max(found[-1].end, stretch.end))
        else:
            found.append(stretch)
    return tuple(found)


def reach(kind: FixedWindow, ranges: Iterable[Window]) -> tuple[Window, ...]:
    """The moments of all windows that overlap the ranges: these windows, whole."""
    return joined(whole for stretch in ranges if (whole := _reach(kind, stretch)) is not None)


def _reach(kind: FixedWindow, stretch: Window) -> Window | None:
    if stretch.start <= -ALWAYS or stretch.end >= ALWAYS:
        longest = longest_window(kind) or 0
        return Window(max(stretch.start - longest, -ALWAYS), min(stretch.end + longest, ALWAYS))
    if isinstance(kind, Hop):
        first = floor_to(stretch.start - kind.size, kind.slide, kind.offset) + kind.slide
        last = floor_to(stretch.end - 1, kind.slide, kind.offset)
        return Window(first, last + kind.size) if first <= last else None
    if isinstance(kind, Cumulate):
        return Window(floor_to(stretch.start, kind.size, 0), floor_to(stretch.end - 1, kind.size, 0) + kind.size)
    return Window(kind.pane(stretch.start).start, kind.pane(stretch.end - 1).end)


def lies_inside(kind: FixedWindow, moment: int, ranges: Sequence[Window]) -> bool:
    """Whether every window that a moment is in overlaps the ranges."""
    return all(overlap(window, ranges) for window in kind.assign(moment))


def rows_needed(kind: FixedWindow, ranges: Sequence[Window]) -> tuple[Window, ...]:
    """Where the rows of all windows lie that overlap the ranges, edges included."""
    longest = longest_window(kind) or 0
    return joined(Window(max(r.start - longest, -ALWAYS), min(r.end + longest, ALWAYS)) for r in ranges)


def last_end(kind: FixedWindow, ranges: Sequence[Window]) -> int:
    """The end of the last window that overlaps the ranges."""
    last = max(stretch.end for stretch in ranges)
    if last >= ALWAYS:
        return ALWAYS
    return max((window.end for window in kind.assign(last - 1)), default=last + (longest_window(kind) or 0))


def overlap(one: Window, others: Iterable[Window]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)
