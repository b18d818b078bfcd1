"""A view over another view's output: merges there move rows and change none, and what is vacuumed is not missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from laminar_dagster.engine.sources.commits import Limit, SourceCommit
from laminar_dagster.engine.sources.delta import DeltaConnector
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import BIGINT, TIMESTAMP
from tests.state_store.small_epochs import EAGER, run

COLUMNS = (Field("n", BIGINT), Field("_emitted_at", TIMESTAMP))
WEEK = replace(EAGER, retain_results=timedelta(days=7))


def follower(root: Path) -> DeltaConnector:
    options = {"path": "output"}
    return DeltaConnector(
        Source("up", "delta", COLUMNS, options, event_time=Column("_emitted_at", TIMESTAMP), watermark_lag=0), root
    )


def plenty() -> Limit:
    return Limit(1_000_000, 1_000)


def numbers(commits: Sequence[SourceCommit]) -> list[int]:
    files = [file.path for commit in commits for file in commit.files]
    return [n for path in files for n in pq.ParquetFile(path).read(columns=["n"]).column("n").to_pylist()]


def of_epochs(first: int, last: int) -> list[int]:
    return [epoch * 10 + day for epoch in range(first, last + 1) for day in (1, 2)]


def test_a_follower_takes_each_row_once_however_often_it_was_merged(tmp_path: Path) -> None:
    found = follower(tmp_path)
    run(tmp_path, range(1, 4), WEEK)
    first = found.pending(None, plenty())
    position = found.position_after(first, None)
    run(tmp_path, range(1, 11), WEEK)
    later = found.pending(position, plenty())
    assert sorted(numbers(first)) == of_epochs(1, 3)
    assert sorted(numbers(later)) == of_epochs(4, 10)
    assert found.pending(found.position_after(later, position), plenty()) == []


def test_a_follower_that_is_too_late_is_told_so_and_a_new_one_begins_with_what_is_there(tmp_path: Path) -> None:
    found = follower(tmp_path)
    run(tmp_path, range(1, 3), EAGER)
    position = found.position_after(found.pending(None, plenty()), None)
    run(tmp_path, range(1, 13), EAGER)
    with pytest.raises(LaminarError, match="LMR0605"):
        found.pending(position, plenty())
    (commit,) = follower(tmp_path).pending(None, plenty())
    assert commit.snapshot
    assert sorted(numbers([commit])) == of_epochs(1, 12)
