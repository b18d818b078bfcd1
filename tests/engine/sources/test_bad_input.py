"""Thousands of broken lines in among good ones: every good row counts, every broken line is aside, no epoch fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.sources.bad_input import (
    BROKEN,
    CSV_MAKERS,
    GOOD,
    JSON_MAKERS,
    broken,
    good_csv,
    good_json,
    in_among,
)
from tests.engine.sources.views import files_view, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FORMATS = {
    "json": (good_json, JSON_MAKERS, b""),
    "csv": (good_csv, CSV_MAKERS, b"k,v,ts\n"),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_every_good_row_counts_and_every_broken_line_is_set_aside(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    good, makers, head = FORMATS[format_]
    bad = broken(makers)
    view = files_view(tmp_path, format_)
    lines = in_among(bad, [good(number) for number in range(GOOD)])
    half = len(lines) // 2
    write(tmp_path, f"1.{format_}", head + b"\n".join(lines[:half]), mtime=1)
    write(tmp_path, f"2.{format_}", b"", mtime=2)
    write(tmp_path, f"3.{format_}", head + b" \n\t\n\n" + b"\n".join(lines[half:]) + b"\n", mtime=3)
    write(tmp_path, f"4.{format_}", head + b"\n\r\n", mtime=4)
    (commit,) = view.run(spark)
    entries = [entry["original_event"] for entry in view.aside()]
    assert {name: commit.counts[name] for name in ("rows_in", "aggregated", "filtered", "late", "error")} == {
        "rows_in": len(entries) + GOOD, "aggregated": GOOD, "filtered": 0, "late": 0, "error": len(entries),
    }  # fmt: skip
    # Broken lines of CSV that stand next to each other may be one broken row: what one opens in quotes, another closes.
    assert len(entries) == BROKEN or (format_ == "csv" and len(entries) > BROKEN * 0.97)
    aside = Counter(line for entry in entries for line in entry.split("\n"))
    assert aside == Counter(line.decode(errors="replace") for line in bad)
    assert {entry["kind"] for entry in view.aside()} == {"error"}
