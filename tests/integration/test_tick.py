"""A tick runs epochs and tells Dagster which partitions they touched, each of them once, whatever happens."""

from __future__ import annotations

import base64
import logging
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from laminar_dagster.engine.due import Views, why_due
from laminar_dagster.integration import LaminarResource, laminar_assets
from laminar_dagster.integration.reporting import REPORTED_EPOCH
from state_store import StoreReader, StoreWriter
from tests.integration.shop import PER_HOUR, Shop, events_of, values

ROOT = Path(__file__).parents[2]
STATE_NUMBERS = {
    "epochs", "rows_in", "filtered", "late", "error", "windows_closed", "rows_out", "epoch_seconds", "epoch",
    "open_windows", "state_bytes", "watermark", "watermark_lag_seconds", "dagster/row_count",
}  # fmt: skip
FIRST_DAY = (("2026-01-05T09:10:00Z", "north", 4), ("2026-01-05T09:20:00Z", "south", 1))
SECOND_DAY = (("2026-01-06T10:00:00Z", "north", 7), ("2026-01-06T12:00:00Z", "north", 2))


@pytest.mark.spark
def test_a_tick_reports_each_partition_that_an_epoch_touched_with_its_rows(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY, ("2026-01-05T09:30:00Z", "north", 5))
    shop.sell(("2026-01-05T09:40:00Z", "west", 9))
    result = shop.tick()
    first, second = shop.partitions("per_hour")["2026-01-05"], shop.partitions("per_hour")["2026-01-06"]
    assert (first["rows"], first["windows"], first["dagster/partition_row_count"]) == (2, 1, 2)
    assert (second["rows"], second["windows"], second["dagster/partition_row_count"]) == (1, 1, 1)
    assert first["dagster/row_count"] == second["dagster/row_count"] == 3
    assert shop.partitions("per_hour/side_output")["2026-01-05"]["late"] == 1
    (state,) = events_of(result, "per_hour/state")
    assert state.partition is None
    shown = values(state)
    assert set(shown) >= STATE_NUMBERS
    assert (shown["rows_in"], shown["late"], shown["windows_closed"], shown["open_windows"]) == (6, 1, 2, 1)
    assert "| 2026-01-06 10:00:00" in shown["last_closed_windows"]
    require_picture(shown["last_epochs"])
    assert shop.materializations("per_hour/changelog") == []


def require_picture(markdown: str) -> None:
    """A PNG whose every chunk is whole, in a data URI."""
    encoded = markdown.partition("data:image/png;base64,")[2].partition(")")[0]
    png = base64.b64decode(encoded)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, kinds = 8, []
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length]) == (zlib.crc32(kind + body),)
        kinds.append(kind)
        place += 12 + length
    assert kinds == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]


@pytest.mark.spark
def test_only_what_is_new_is_reported_and_a_tick_without_news_reports_no_partition(
    tmp_path: Path, spark: SparkSession
) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.tick()
    shop.sell(*SECOND_DAY)
    assert [e.partition for e in events_of(shop.tick(), "per_hour")] == ["2026-01-05", "2026-01-06"]
    again = shop.tick()
    assert events_of(again, "per_hour") == []
    (state,) = events_of(again, "per_hour/state")
    assert values(state)["epochs"] == 0


@pytest.mark.spark
def test_max_epochs_bounds_a_tick_and_the_next_one_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, spark=spark)
    for hour in (1, 2, 3):
        shop.sell((f"2026-01-05T0{hour}:00:00Z", "north", hour))
    (first,) = events_of(shop.tick(max_epochs=1, max_files=1), "per_hour/state")
    assert (values(first)["epochs"], values(first)["epoch"]) == (1, 1)
    (rest,) = events_of(shop.tick(), "per_hour/state")
    assert (values(rest)["rows_in"], values(rest)["windows_closed"]) == (2, 2)


@pytest.mark.spark
def test_epochs_that_ran_outside_of_dagster_are_reported_by_the_next_tick(tmp_path: Path, spark: SparkSession) -> None:
    from laminar_dagster.engine.run import run_view

    shop = Shop(tmp_path, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY)
    (plan,) = shop.project.plans()
    run_view(plan, spark, project=shop.project.root, data=shop.project.data)
    assert shop.materializations("per_hour") == []
    result = shop.tick()
    assert {e.partition: values(e)["rows"] for e in events_of(result, "per_hour")} == {"2026-01-05": 2, "2026-01-06": 1}


KILLED = """
import os, sys
from pathlib import Path
from laminar_dagster.engine.session import SparkSettings, open_session
from laminar_dagster.integration.reporting import Reporter
from tests.integration.shop import Shop

Reporter.report = lambda *_: os._exit(9)
Shop(Path(sys.argv[1]), spark=open_session(SparkSettings.for_tests())).tick()
"""


@pytest.mark.spark
def test_a_tick_killed_between_commit_and_report_heals_at_the_next(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, cwd=ROOT, check=False)
    assert killed.returncode == 9
    committed = StoreReader(shop.project.store("per_hour")).commit()
    assert committed is not None
    assert committed.epoch == 1
    assert shop.materializations("per_hour") == shop.materializations("per_hour/state") == []
    result = shop.tick()
    assert {e.partition: values(e)["rows"] for e in events_of(result, "per_hour")} == {"2026-01-05": 2, "2026-01-06": 1}
    (state,) = events_of(result, "per_hour/state")
    assert (state.tags or {})[REPORTED_EPOCH] == "1"
    assert StoreReader(shop.project.store("per_hour")).read("output").num_rows == 3


@pytest.mark.spark
def test_of_two_ticks_at_once_the_second_fails_clearly_and_the_data_is_right(
    tmp_path: Path, spark: SparkSession
) -> None:
    shop = Shop(tmp_path, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY)
    with StoreWriter(shop.project.store("per_hour")), pytest.raises(dg.Failure) as caught:
        shop.tick()
    assert "[LMR0402]" in (caught.value.description or "")
    assert "hint: Wait for the other run" in (caught.value.description or "")
    assert caught.value.allow_retries is False
    assert shop.materializations("per_hour") == shop.materializations("per_hour/state") == []
    shop.tick()
    assert {day: shown["rows"] for day, shown in shop.partitions("per_hour").items()} == {
        "2026-01-05": 2,
        "2026-01-06": 1,
    }


@pytest.mark.spark
def test_what_was_committed_before_a_failure_is_reported(tmp_path: Path, spark: SparkSession) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the sink wants a directory")
    sink = "CREATE SINK out FROM per_hour WITH (connector = 'files', format = 'json', path = 'blocked');"
    shop = Shop(tmp_path, PER_HOUR, sink, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY)
    with pytest.raises(dg.Failure):
        shop.tick()
    assert set(shop.partitions("per_hour")) == {"2026-01-05", "2026-01-06"}
    (state,) = shop.materializations("per_hour/state")
    assert (state.tags or {})[REPORTED_EPOCH] == "1"
    views = Views({plan.query.view: plan for plan in shop.project.plans()}, tmp_path, shop.project.data)
    assert why_due(views, "per_hour", 0) == "not delivered to out yet"


@pytest.mark.spark
def test_a_server_that_is_gone_is_told_in_the_log_of_the_run(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path)
    gone = LaminarResource(remote="sc://127.0.0.1:1", unreachable="in_process")
    state = dg.AssetSelection.assets(dg.AssetKey(["per_hour", "state"]))
    shop.sell(*FIRST_DAY)
    result = dg.materialize(laminar_assets(shop.project, resource=gone), selection=state, instance=shop.instance)
    warnings = [e.user_message for e in shop.instance.all_logs(result.run_id) if e.level == logging.WARNING]
    assert [text for text in warnings if "Connect" in text] == [
        "no Spark Connect server answers at sc://127.0.0.1:1: starting Spark in this process instead"
    ]


PER_DAY = """
CREATE MATERIALIZED VIEW per_day AS
SELECT window_start, window_end, SUM(total) AS total
FROM TUMBLE(per_hour, window_start, INTERVAL '1' DAY)
GROUP BY window_start, window_end EMIT ON UPDATE WITH (partition = 'month', partition_start = '2026-01-01');
"""


@pytest.mark.spark
def test_views_over_views_tick_in_order_in_one_run(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, PER_DAY, PER_HOUR, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.sell(*SECOND_DAY)
    shop.run("per_day/state", "per_hour/state")
    shown = shop.partitions("per_day")["2026-01-01"]
    assert (shown["rows"], shown["+I"], shown["dagster/partition_row_count"]) == (2, 2, 2)
    assert shop.partitions("per_day/changelog")["2026-01-01"]["+I"] == 2


PER_REGION = """
CREATE MATERIALIZED VIEW per_region AS SELECT region, SUM(amount) AS total FROM sales GROUP BY region EMIT CHANGES;
"""


@pytest.mark.spark
def test_a_view_without_windows_has_no_partitions(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, PER_REGION, spark=spark)
    shop.sell(*FIRST_DAY)
    shop.tick("per_region")
    assert shop.partitions("per_region")[None]["dagster/row_count"] == 2
    shop.sell(*SECOND_DAY)
    result = shop.run("per_region", "per_region/changelog")
    (output,) = events_of(result, "per_region")
    assert (output.partition, values(output)["rows"], values(output)["+U"]) == (None, 1, 1)
    (changelog,) = events_of(result, "per_region/changelog")
    assert values(changelog)["rows"] == 2
    assert len(events_of(result, "per_region/state")) == 1
