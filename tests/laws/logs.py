"""Logs at random: rows, commits of rows, rows that are taken back, and where a log is cut into ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from laminar_dagster.semantics.time import SECOND, from_iso

NOON = from_iso("2026-01-01T12:00:00Z")
Row = dict[str, Any]
Commits = list[list[Row]]

KEYS = ("a", "b", None)
# 13 is the value that the WHERE clauses of the laws leave out.
VALUES = (1, 2, 13, 40)


def seconds_after(start: int, low: int, high: int) -> st.SearchStrategy[int]:
    """A time so many seconds after another: whole ones, so that rows often meet, and lie on the edges of windows."""
    return st.integers(low, high).map(lambda seconds: start + seconds * SECOND)


def after_noon(low: int, high: int) -> st.SearchStrategy[int]:
    return seconds_after(NOON, low, high)


def rows(
    times: st.SearchStrategy[int | None],
    *,
    keys: Sequence[str | None] = KEYS,
    values: Sequence[int | None] = VALUES,
    **more: st.SearchStrategy[Any],
) -> st.SearchStrategy[Row]:
    """A row of `ev`: a key, a value, a time, and what else a law asks for."""
    columns = {"k": st.sampled_from(keys), "v": st.sampled_from(values), **more, "ts": times}
    return st.fixed_dictionaries(columns)


def commits(
    row: st.SearchStrategy[Any], *, rows: tuple[int, int], commits: tuple[int, int]
) -> st.SearchStrategy[list[list[Any]]]:
    """Commits of rows: between so many rows each, and between so many commits."""
    commit = st.lists(row, min_size=rows[0], max_size=rows[1])
    return st.lists(commit, min_size=commits[0], max_size=commits[1])


def cuts(most: int) -> st.SearchStrategy[frozenset[int]]:
    """After which of up to so many commits there is a tick; one after the last comes always."""
    return st.frozensets(st.integers(0, most - 1))


@dataclass(frozen=True)
class Log:
    """Commits, and after which of them there is a tick."""

    commits: Commits
    ticks: frozenset[int]

    def in_one_tick(self) -> Log:
        return Log(self.commits, frozenset())


def logs(drawn: st.SearchStrategy[Commits]) -> st.SearchStrategy[Log]:
    return drawn.flatmap(lambda found: cuts(len(found)).map(lambda ticks: Log(found, ticks)))


# Where a list of commits is cut into epochs, for laws that take it apart themselves.
edges = st.lists(st.integers(0, 12), max_size=5)


def in_epochs(commits: Sequence[Any], cuts: Iterable[int]) -> list[Sequence[Any]]:
    """The commits of each epoch; some may have none."""
    bounds = [0, *sorted(min(cut, len(commits)) for cut in cuts), len(commits)]
    return [commits[start:end] for start, end in pairwise(bounds)]


# Which rows are taken back: a number for each commit, 0 for none.
picks = st.lists(st.integers(0, 5), max_size=5)


def with_retractions(drawn: Commits, picked: Sequence[int]) -> Commits:
    """Later commits take back some rows of earlier ones, each row once."""
    live: list[Row] = []
    out = []
    for commit, pick in zip(drawn, [*picked, *[0] * len(drawn)], strict=False):
        taken = [live.pop(pick % len(live)) for _ in range(min(2, len(live))) if pick]
        out.append([*commit, *({**row, "_weight": -1} for row in taken)])
        live += commit
    return out
