"""A path is spelled as Spark spells it: rows are matched with their commit by this text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine.sources.paths import exactly, file_system, file_url, path_in_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "k=1/plain.json", "a b.json", "a%20b.json", "100%.json", "ü-é-日本.json", "🙂.json", "a[1].json", "a{x}.json",
    "a?b.json", "a*.json", "12:30:00.json", "a+b&c,d;e@f$g.json", "a'b\"c`d.json", "a#b.json", "a<b>^c|d\\e.json",
    "a~(b)!.json", "no\u00a0break.json", "tab\there.json",
]  # fmt: skip


@pytest.mark.spark
def test_every_file_name_is_spelled_as_spark_spells_it(spark: SparkSession, tmp_path: Path) -> None:
    paths = []
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
        paths.append(str(path))
    read = spark.read.options(**file_system(paths)).text(exactly(paths)).selectExpr("_metadata.file_path AS f")
    found = [row.f for row in read.collect()]
    assert sorted(found) == sorted(file_url(path) for path in paths)


def test_a_path_in_deltas_log_may_be_relative_or_a_url() -> None:
    assert path_in_log(Path("/t"), "p=a%2520b/x%20y.parquet") == Path("/t/p=a%20b/x y.parquet")
    assert path_in_log(Path("/t"), "file:/other/x%20y.parquet") == Path("/other/x y.parquet")
    assert path_in_log(Path("/t"), "file:///other/x.parquet") == Path("/other/x.parquet")
