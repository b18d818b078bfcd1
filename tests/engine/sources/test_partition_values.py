"""Values of partitions come to a row by the file that it names: a row of another file ends the job, and is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laminar_dagster.engine.sources.commits import SourceCommit, SourceFile
from laminar_dagster.engine.sources.parquet import FILE, parquet_frame
from laminar_dagster.semantics.query import Field
from laminar_dagster.semantics.types import BIGINT, STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = (Field("_asked", BIGINT), Field("_p_k", STRING))


def frame_of(spark: SparkSession, path: str) -> DataFrame:
    file = SourceFile(path, 1, partition=(("_p_k", "a"),))
    return parquet_frame(spark, FIELDS, [SourceCommit("ev", "1", 0, (file,))])


@pytest.mark.spark
def test_a_row_of_a_file_that_was_not_asked_for_ends_the_job(either_spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"_asked": [1, 2]}), tmp_path / "a.parquet")
    read = frame_of(either_spark, str(tmp_path / "a.parquet"))
    assert [tuple(row) for row in read.select("c__asked", "c__p_k").orderBy("c__asked").collect()] == [
        (1, "a"),
        (2, "a"),
    ]
    # Spark names the file without the second stroke.
    other = frame_of(either_spark, f"{tmp_path}//a.parquet")
    for columns in (["c__p_k"], [FILE], ["c__asked", "c__p_k", FILE]):
        with pytest.raises(Exception, match=r"\[LMR0406\] a row comes from a file .*a\.parquet"):
            other.select(*columns).collect()
    assert other.select("c__asked").count() == 2
