"""What waits in the sources, in the common order of their commits, and of which shards an epoch leaves something.

An epoch takes a prefix: nothing that is younger than what it leaves, of whichever source. So a run that catches up
judges rows as a run without pause would have. For the same reason a shard of which something waits is not idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from laminar_dagster.engine.sources.commits import Connector, Limit, SourceCommit

# The order of a commit, and the number of its source: where orders are equal, the query's first source goes first.
Place = tuple[int, int]


@dataclass(frozen=True)
class Pending:
    """The commits that an epoch may take, and the shards of which more waits behind these."""

    commits: tuple[SourceCommit, ...]
    behind: frozenset[str] = frozenset()

    def left_by(self, taken: Sequence[SourceCommit]) -> list[str]:
        """The shards of which something waits after an epoch that takes the first so many of the commits."""
        return sorted(self.behind | _with_rows(self.commits[len(taken) :]))


def pending(connectors: Mapping[str, Connector], positions: Mapping[str, Any], limit: Limit) -> Pending:
    """What waits, as much as the limit allows, and the oldest commit always."""
    limits = [replace(limit, left={}) for _ in connectors]
    found = [
        connector.pending(positions.get(name), own)
        for (name, connector), own in zip(connectors.items(), limits, strict=True)
    ]
    if len(found) == 1:
        return Pending(tuple(found[0]), frozenset(limits[0].left))
    placed = [((commit.order, source), commit) for source, commits in enumerate(found) for commit in commits]
    ordered = [commit for _, commit in sorted(placed, key=lambda entry: entry[0])]
    ends = [_end(source, commits, own) for source, (commits, own) in enumerate(zip(found, limits, strict=True))]
    known = sum(all(end is None or place <= end for end in ends) for place, _ in placed)
    taken = list(_fitting(ordered[:known], limit))
    unlisted = (shard for own in limits for shard in own.left)
    return Pending(tuple(taken), _with_rows(ordered[len(taken) :]).union(unlisted))


def _end(source: int, commits: Sequence[SourceCommit], limit: Limit) -> Place | None:
    """Up to where a source has listed all that waits; None: to the end."""
    if not limit.left:
        return None
    return max([*limit.left.values(), *(commit.order for commit in commits)]), source


def _fitting(ordered: Sequence[SourceCommit], limit: Limit) -> Iterator[SourceCommit]:
    """The first ones that fit. Ranges of a topic that were found by one look belong together."""
    spent = replace(limit, left={})
    for position, (_, together) in enumerate(groupby(ordered, key=_look)):
        commits = list(together)
        if position and not spent.has_room:
            return
        for commit in commits:
            spent.take(commit)
        yield from commits


def _look(commit: SourceCommit) -> tuple[str, object]:
    return commit.source, commit.id if commit.partition is None else commit.order


def _with_rows(commits: Iterable[SourceCommit]) -> frozenset[str]:
    return frozenset(commit.shard for commit in commits if commit.files)
