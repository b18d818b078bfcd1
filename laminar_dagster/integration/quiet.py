"""Dagster warns of each use of what it calls beta; these uses are tested against the version that is pinned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def beta_accepted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
