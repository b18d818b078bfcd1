"""What a run of a view can be told from Dagster's launchpad."""

# No `from __future__ import annotations`: pydantic looks at the types of the fields itself.

import dagster as dg
from pydantic import Field


class FoldLate(dg.Config):
    """Puts late rows of the side output into their windows, closed or not."""

    where: str | None = Field(
        default=None, description="Which of them, as SQL over the side output's columns. Default: all not folded yet."
    )


class ViewRunConfig(dg.Config):
    """Bounds of a tick. `fold_late` makes the run a fold-back instead."""

    max_epochs: int | None = Field(default=None, ge=1, description="Stop after so many epochs. Else when caught up.")
    max_rows: int | None = Field(default=None, ge=1, description="About how many rows an epoch takes.")
    max_files: int | None = Field(default=None, ge=1, description="How many source files an epoch takes.")
    replan: bool = Field(default=False, description="Plan an unfinished epoch anew, if nothing of it has landed.")
    fold_late: FoldLate | None = Field(default=None, description="Fold late rows back instead of ticking.")
