"""`laminar lineage`: which commits of a source reached which partitions, ticks and corrections alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laminar_dagster.cli.app import app
from laminar_dagster.errors import LaminarError
from tests.integration.shop import PER_HOUR, Shop, events_of, values
from tests.integration.test_tick import PER_DAY, PER_REGION

RUNNER = CliRunner()


def told(shop: Shop, *arguments: str) -> list[dict[str, Any]]:
    ran = RUNNER.invoke(app, ["lineage", *arguments, "--project", str(shop.root), "--json"], catch_exceptions=False)
    found: list[dict[str, Any]] = json.loads(ran.stdout)["origins"]
    return found


def test_a_view_that_never_ran_has_no_origins_and_a_name_of_another_form_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    ran = RUNNER.invoke(app, ["lineage", "per_hour", "--project", str(tmp_path)])
    assert ran.output == "per_hour: nothing was taken yet\n"
    with pytest.raises(LaminarError, match=r"has no partition \"2026-01\""):
        told(shop, "per_hour", "--partition", "2026-01")
    with pytest.raises(LaminarError, match=r"LMR0741"):
        told(Shop(tmp_path / "other", PER_REGION), "per_region", "--partition", "2026-01-05")


@pytest.mark.spark
def test_commits_and_corrections_are_told_for_each_partition(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, PER_HOUR, PER_DAY, spark=spark)
    shop.sell(("2026-01-05T09:10:00Z", "north", 4), ("2026-01-05T23:50:00Z", "south", 1))
    shop.sell(("2026-01-05T23:59:00Z", "north", 4), ("2026-01-07T00:10:00Z", "south", 1))
    first = shop.tick()
    shop.sell(("2026-01-05T09:20:00Z", "north", 6))
    shop.tick()
    shop.run("per_hour", partitions=("2026-01-05", "2026-01-06"))
    taken = [(o["epoch"], o["source"], o["commit"], o["rows"], o["first"], o["last"]) for o in told(shop, "per_hour")]
    assert taken == [
        (1, "sales", "00000000", 2, "2026-01-05", "2026-01-05"),
        (1, "sales", "00000001", 2, "2026-01-05", "2026-01-07"),
        (2, "sales", "00000002", 1, "2026-01-05", "2026-01-05"),
        (3, None, None, None, "2026-01-05", "2026-01-05"),
    ]
    corrected = told(shop, "per_hour", "--partition", "2026-01-05")[-1]
    assert (corrected["kind"], corrected["changes"]) == ("backfill", {"+U": 1, "-U": 1})
    assert [o["commit"] for o in told(shop, "per_hour", "--partition", "2026-01-06")] == ["00000001"]
    assert [o["commit"] for o in told(shop, "per_hour", "--limit", "1")] == [None]
    assert told(shop, "per_hour", "--partition", "2026-01-09") == []
    cut = RUNNER.invoke(app, ["lineage", "per_hour", "--limit", "3", "--project", str(shop.root)])
    assert cut.stderr == "per_hour: cut after 3 of 4 line(s); --limit shows more\n"
    shown = RUNNER.invoke(app, ["lineage", "per_hour", "--project", str(shop.root)]).output
    assert "2026-01-05 … 2026-01-07" in shown
    assert "1 +U, 1 -U" in shown
    (partition,) = events_of(first, "per_hour")
    assert values(partition)["source_commits"] == {"sales": ["00000000", "00000001"]}
    (state,) = events_of(first, "per_hour/state")
    assert "| 1 | sales | 00000001 | 2 | 2026-01-05T23:59:00Z" in values(state)["source_commits"]
    shop.tick("per_day")
    handed_on = [(o["kind"], o["source"], o["commit"], o["first"]) for o in told(shop, "per_day")]
    assert handed_on[0] == ("tick", "per_hour", "1", "2026-01-01")
    assert handed_on[-1] == ("correction", "per_hour", "3", "2026-01-01")
