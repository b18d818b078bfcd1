"""A view under corrections, held against the plain reference after every step.

The reference is given, in one commit, all rows but those that are late and not folded: nothing is late in that. Where
each row is in one window, that is the view's table, always. Where windows share rows it is so for the windows that a
correction touched; all others must be as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from laminar_dagster.conformance.harness import Observed
from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.reference_runner import ReferenceRunner
from laminar_dagster.conformance.spark_runner import SparkRunner
from laminar_dagster.semantics.ranges import lies_inside, overlap
from laminar_dagster.semantics.time import DAY, SECOND, from_iso
from laminar_dagster.semantics.windows import Session, Window
from state_store import MaintenancePolicy

NOON = from_iso("2026-01-01T12:00:00Z")
NOW = NOON + 30 * DAY
EVER = Window(-(1 << 62), 1 << 62)
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
# Later than every row: what is left of windows closes.
LAST = NOON + 20 * DAY
CLOSER = {"k": "closer", "v": 2, "ts": LAST}
Row = dict[str, Any]
Table = Counter[tuple[Any, ...]]
Text = tuple[tuple[str, Any], ...]


def reference(sql: str, rows: Sequence[Row], view: str = "out") -> Observed:
    runner = ReferenceRunner()
    runner.open(sql)
    runner.commit("ev", rows)
    runner.tick(NOW)
    return runner.observe(view)


def plain(rows: Iterable[Any]) -> Table:
    return Counter(tuple(sorted(data_columns(row).items(), key=str)) for row in rows)


def window_of(row: Any) -> Window:
    return Window(row["window_start"], row["window_end"])


class CorrectedView:
    """`shares_rows`: windows overlap, so that a row may be late for some of its windows only."""

    def __init__(self, spark: Any, sql: str, *, crash: bool = False) -> None:
        self.sql = sql
        self.runner = SparkRunner(lambda: spark, crash=crash, maintenance=EAGER)
        self.runner.open(sql)
        self.rows: list[Row] = []
        self.half: Counter[Text] = Counter()
        query = self.runner.plan("out").query
        self.window, self.lateness = query.window, query.lateness
        self.shares_rows = type(self.window).__name__ in ("Hop", "Cumulate", "Session")

    def take(self, *commits: Sequence[Row]) -> None:
        for commit in commits:
            before = self.look()
            self.rows += commit
            self.runner.commit("ev", commit)
            self.runner.tick(NOW)
            after = self.look()
            self._assert_closed_windows_stay(before, after)
            self._assert_as_the_reference_where_exact(after)

    def backfill(self, low: int, high: int) -> None:
        given = Window(low, high)
        before = self.look()
        self.runner.backfill("out", [(low, high)], NOW)
        self._assert_corrected(before, [given], self.rows)
        for late in self._late():
            if self.window is None or isinstance(self.window, Session):
                assert not (low <= late["ts"] < high), "a late row in the range was taken in, and is not marked"
            else:
                assert not lies_inside(self.window, late["ts"], [given])
        self.half |= Counter(_text(row) for row in self._late() if self._overlaps(row, given))

    def fold(self, where: str | None = None) -> None:
        before, late = self.look(), Counter(row["ts"] for row in self._late())
        self.runner.fold_late("out", NOW, where)
        folded = late - Counter(row["ts"] for row in self._late())
        half = self.half & Counter(_text(row) for row in self._late())
        rows = [*self._counted(), *(dict(row) for row in half.elements())]
        self._assert_corrected(before, [Window(t, t + 1) for t in folded], rows)

    def _overlaps(self, row: Row, given: Window) -> bool:
        """Whether a row is in a window that overlaps the range: it counts there, and so in all that follows."""
        if self.window is None or isinstance(self.window, Session):
            return False
        return any(overlap(window, [given]) for window in self.window.assign(row["ts"]))

    def repeat(self, *, backfill: Window | None) -> None:
        """Once more the same: nothing happens."""
        before = self.look()
        if backfill is None:
            self.runner.fold_late("out", NOW)
        else:
            self.runner.backfill("out", [(backfill.start, backfill.end)], NOW)
        after = self.look()
        assert plain(after.table) == plain(before.table)
        assert len(after.changes) == len(before.changes)

    def finish(self) -> None:
        """Close what is open, which is then as all rows say; then compute everything anew."""
        before = self.look()
        self.take([CLOSER])
        if self.window is not None and not self._hides_windows:
            closed = [window_of(row) for row in before.table] if isinstance(self.window, Session) else []
            want = [
                row for row in reference(self.sql, self._counted()).table if self._is_open(window_of(row), before)
                and not any(_touch(window_of(row), other) for other in closed)
            ]  # fmt: skip
            assert plain(want) <= plain(self.look().table)
        self.backfill(EVER.start, EVER.end)
        self.repeat(backfill=EVER)
        self.fold()
        assert plain(self.look().table) == plain(reference(self.sql, self.rows).table)

    def look(self) -> Observed:
        """The view now; the changelog sums to it, with weights of 0 and 1."""
        found = self.runner.observe("out")
        if found.changes:
            assert broken_laws(found.table, found.changes, unique=found.unique) == []
        return found

    @property
    def _hides_windows(self) -> bool:
        return "window_end" not in self.sql.partition("FROM")[0]

    def _late(self) -> list[Row]:
        """Late rows that are not folded."""
        return [e["row"] for e in self.look().side_output if e["kind"] == "late" and e["folded"] is None]

    def _counted(self) -> list[Row]:
        left = Counter(_text(row) for row in self.rows)
        left.subtract(_text(row) for row in self._late())
        return [dict(row) for row in left.elements()]

    def _assert_as_the_reference_where_exact(self, found: Observed) -> None:
        if not self.shares_rows:
            assert plain(found.table) == plain(reference(self.sql, self._counted()).table)

    def _assert_closed_windows_stay(self, before: Observed, after: Observed) -> None:
        if self.window is None or self._hides_windows:
            return
        closed = plain(row for row in before.table if not self._is_open(window_of(row), before))
        assert closed <= plain(after.table)

    def _is_open(self, window: Window, at: Observed) -> bool:
        return at.watermark is None or window.end + self.lateness > at.watermark

    def _assert_corrected(self, before: Observed, ranges: Sequence[Window], rows: Sequence[Row]) -> None:
        after, want = self.look(), reference(self.sql, rows)
        assert after.watermark == before.watermark
        if not self.shares_rows:
            self._assert_as_the_reference_where_exact(after)
            return
        chosen = self._sessions_touched(before, ranges, rows) if isinstance(self.window, Session) else None
        mine: tuple[tuple[list[Any], list[Any]], ...] = tuple(([], []) for _ in range(3))
        for found, (inside, outside) in zip((before, after, want), mine, strict=True):
            for row in found.table:
                concerned = overlap(window_of(row), ranges) if chosen is None else (row["k"], window_of(row)) in chosen
                (inside if concerned else outside).append(row)
        assert plain(mine[1][0]) == plain(mine[2][0]), "windows in the range are as all rows say"
        assert plain(mine[1][1]) == plain(mine[0][1]), "windows outside are as they were"

    def _sessions_touched(
        self, before: Observed, ranges: Sequence[Window], rows: Sequence[Row]
    ) -> set[tuple[Any, Window]]:
        """Sessions in the ranges, and all that share rows with these, before and after."""
        now = {(row["k"], window_of(row)) for row in reference(self.sql, [*rows, CLOSER]).table}
        then = {(row["k"], window_of(row)) for row in before.table}
        found = {(k, w) for k, w in then | now if overlap(w, ranges)}
        while True:
            more = {
                (k, w)
                for group, others in ((then, now), (now, then))
                for k, w in group
                if any(k == other and _touch(w, o) for other, o in found & others)
            }
            if more <= found:
                return found
            found |= more

    def close(self) -> None:
        self.runner.close()


def _touch(one: Window, other: Window) -> bool:
    return one.start <= other.end and other.start <= one.end


def _text(row: Row) -> Text:
    return tuple(sorted(row.items()))


def at(seconds: int, k: str | None = "a", v: int = 2, unit: int = SECOND) -> Row:
    return {"k": k, "v": v, "ts": NOON + seconds * unit}
