"""Corrections read what a view has taken once more: of every kind of source, as long as all of it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from laminar_dagster.engine.correcting import backfill, fold_late
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import MINUTE, SECOND, from_datetime
from tests.engine.sources.views import FAR, NOON, SELECT, View, json_lines, rows, source, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Entry = tuple[str | None, int | None, float | None]
HOUR_LATER = 1800


class Corrected(View):
    def backfill(self, spark: SparkSession, low: int, high: int) -> Any:
        noon = from_datetime(NOON)
        bounds = [(noon + low * SECOND, noon + high * SECOND)]
        return backfill(self.plan, spark, project=self.root, data=self.root / "data", ranges=bounds)

    def fold(self, spark: SparkSession, where: str | None = None) -> Any:
        return fold_late(self.plan, spark, project=self.root, data=self.root / "data", where=where)


class Files(Corrected):
    def __init__(self, root: Path) -> None:
        super().__init__(root, source(connector="files", format="json", path="in") + SELECT)

    def add(self, number: int, *entries: Entry) -> None:
        write(self.root, f"{number}.jsonl", json_lines(*entries), mtime=1_700_000_000 + number)

    def lose_the_first(self) -> str:
        (self.root / "in" / "1.jsonl").unlink()
        return "1.jsonl"


class Delta(Corrected):
    options: dict[str, str] = {}  # noqa: RUF012 - never changed

    def __init__(self, root: Path) -> None:
        super().__init__(root, source(connector="delta", path="ev", **self.options) + SELECT)

    def add(self, _: int, *entries: Entry) -> None:
        write_deltalake(str(self.root / "ev"), rows(*entries), mode="append")

    def lose_the_first(self) -> str:
        files = sorted((self.root / "ev").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        files[0].unlink()
        return files[0].name


class Rewritten(Delta):
    """A table whose past is gone begins with a snapshot."""

    def add(self, number: int, *entries: Entry) -> None:
        super().add(number, *entries)
        if number == 1:
            super().add(0, ("gone", 1, 1))
            DeltaTable(str(self.root / "ev")).delete("k = 'gone'")


class Changes(Delta):
    options = {"changes": "cdf"}  # noqa: RUF012 - never changed

    def add(self, _: int, *entries: Entry) -> None:
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(self.root / "ev"), rows(*entries), mode="append", configuration=feed)


@pytest.mark.parametrize("kind", [Files, Delta, Rewritten, Changes], ids=lambda kind: kind.__name__.lower())
def test_rows_are_read_once_more_and_where_some_are_gone_nothing_changes(
    spark: SparkSession, tmp_path: Path, kind: Callable[[Path], Any]
) -> None:
    view = kind(tmp_path)
    view.add(1, ("a", 1, 1), ("a", 4, 2))
    view.run(spark)
    view.add(2, ("z", 0, FAR))
    view.run(spark)
    view.add(3, ("a", 2, 3), ("b", 5, HOUR_LATER), ("b", 5, HOUR_LATER))
    view.run(spark)
    assert view.closed() == {(0, "a"): (2, 5)}
    view.backfill(spark, 5, 6)
    assert view.closed() == {(0, "a"): (3, 7)}
    missing = view.lose_the_first()
    before = view.store.commit()
    with pytest.raises(LaminarError, match="LMR0723") as refused:
        view.backfill(spark, 0, 10)
    assert missing in str(refused.value)
    assert "Nothing was changed." in str(refused.value)
    assert view.store.commit() == before
    if kind is not Changes and kind is not Rewritten:
        folded = view.fold(spark)
        assert folded.counts["folded_rows"] == 2
        assert view.closed() == {(0, "a"): (3, 7), (HOUR_LATER, "b"): (2, 10)}
        assert view.fold(spark) is None


def test_what_a_change_feed_took_back_too_late_is_taken_back_by_a_correction(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = Changes(tmp_path)
    view.add(1, ("a", 1, 1), ("a", 4, 2), ("b", 8, 3))
    view.run(spark)
    view.add(2, ("z", 0, FAR))
    view.run(spark)
    DeltaTable(str(view.root / "ev")).delete("v IN (4, 8)")
    view.run(spark)
    assert (view.closed(), view.reasons()["allowed_lateness_exceeded"]) == ({(0, "a"): (2, 5), (0, "b"): (1, 8)}, 2)
    view.fold(spark, "original_event LIKE '%\"v\":4%'")
    assert view.closed() == {(0, "a"): (1, 1), (0, "b"): (1, 8)}
    view.backfill(spark, 0, MINUTE // SECOND)
    assert view.closed() == {(0, "a"): (1, 1)}
    changes = sorted(view.store.read("changelog").to_pylist(), key=lambda row: (row["_epoch"], row["_seq"]))
    assert [(row["_op"], row["k"], row["total"]) for row in changes[2:]] == [
        ("-U", "a", 5),
        ("+U", "a", 1),
        ("-D", "b", 8),
    ]
