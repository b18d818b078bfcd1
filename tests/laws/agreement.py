"""Takes a log through a view, on Spark or by the reference, and puts what it shows into a form that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from laminar_dagster.conformance.harness import Observed, Runner
from laminar_dagster.conformance.laws import data_columns
from laminar_dagster.semantics.zset import consolidate
from tests.laws.logs import Commits

Table = Counter[tuple[Any, ...]]
SOURCE = ("k", "v", "ts")


def ticks(
    runner: Runner,
    sql: str,
    log: Commits,
    cut: frozenset[int],
    *views: str,
    now: int | None = None,
    step: int = 0,
    once_more: bool = False,
) -> Iterator[list[Observed]]:
    """What the views (`out`) show after each tick. `now`: the clock at the first commit; each later one adds `step`.

    `once_more`: a last tick, which brings nothing.
    """
    try:
        runner.open(sql)
        for position, commit in enumerate(log):
            runner.commit("ev", commit)
            if position in cut or position == len(log) - 1:
                runner.tick(None if now is None else now + position * step)
                yield [runner.observe(view) for view in views or ("out",)]
        if once_more:
            runner.tick(None if now is None else now + len(log) * step)
            yield [runner.observe(view) for view in views or ("out",)]
    finally:
        runner.close()


def at_last(runner: Runner, sql: str, log: Commits, cut: frozenset[int]) -> Observed:
    """What `out` shows when all is taken, and one more tick has found nothing new."""
    *_, (found,) = ticks(runner, sql, log, cut, once_more=True)
    return found


def as_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Table:
    """Rows and how often each is there: by these columns, or by all that are the user's."""
    if columns is None:
        return Counter(tuple(sorted(data_columns(row).items(), key=str)) for row in rows)
    return Counter(tuple(row[name] for name in columns) for row in rows)


def aside(found: Observed, columns: Sequence[str] = SOURCE) -> Table:
    """What was set aside and why; a group without a result has no row."""
    entries = [(entry["kind"], entry["reason"], entry["row"] or {}) for entry in found.side_output]
    return Counter((kind, reason, *(row.get(name) for name in columns)) for kind, reason, row in entries)


def summed(changes: Iterable[Mapping[str, Any]]) -> Table:
    """A changelog as the table that it comes to."""
    weighted = consolidate((data_columns(row), row["_weight"]) for row in changes)
    return Counter({tuple(sorted(row.items(), key=str)): weight for row, weight in weighted})
