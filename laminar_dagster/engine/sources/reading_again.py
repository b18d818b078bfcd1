"""Before rows that a view has taken are read again: they must still be there under the same names, and mean the same.

A source that was replaced, or whose columns were, would give other rows, and their difference would be a correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from laminar_dagster.engine.sources.commits import Connector, SourceCommit


@runtime_checkable
class ReadsAgain(Protocol):
    """A source that can tell whether it still is what was read."""

    def require_as_taken(self, commits: Sequence[SourceCommit], position: Any) -> None:
        """An error where a commit, or the position that came after it, is not what it was."""
        ...


def require_as_taken(
    connectors: Mapping[str, Connector], commits: Sequence[SourceCommit], positions: Mapping[str, Any]
) -> None:
    for name, connector in connectors.items():
        mine = [commit for commit in commits if commit.source == name]
        if mine and isinstance(connector, ReadsAgain):
            connector.require_as_taken(mine, positions.get(name))
