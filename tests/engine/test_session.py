"""One setting chooses the Spark session; each kind reads and writes Delta."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine import session
from laminar_dagster.engine.session import (
    SparkSettings,
    functions_of,
    is_connect,
    observation_for,
    open_session,
    session_conf,
    startup_conf,
)
from laminar_dagster.errors import LaminarError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def test_settings_come_from_the_environment() -> None:
    settings = SparkSettings.from_environment(
        {
            "LAMINAR_SPARK": "sc://127.0.0.1:15002",
            "LAMINAR_SHUFFLE_PARTITIONS": "3",
            "LAMINAR_DRIVER_MEMORY": "4g",
            "LAMINAR_JVM_OPTIONS": "-XX:+UseSerialGC",
            "LAMINAR_SPARK_UNREACHABLE": "wait",
        }
    )
    assert settings == SparkSettings("sc://127.0.0.1:15002", 3, "4g", "-XX:+UseSerialGC", unreachable="wait")
    assert settings.is_connect


def test_an_empty_environment_means_in_process() -> None:
    assert SparkSettings.from_environment({}) == SparkSettings()
    assert not SparkSettings().is_connect


@pytest.mark.parametrize(
    "environment",
    [
        {"LAMINAR_SPARK": "localhost:15002"},
        {"LAMINAR_SPARK": "local["},
        {"LAMINAR_SHUFFLE_PARTITIONS": "few"},
        {"LAMINAR_SHUFFLE_PARTITIONS": "0"},
        {"LAMINAR_DRIVER_MEMORY": "much"},
        {"LAMINAR_SPARK_UNREACHABLE": "hope"},
    ],
    ids=lambda environment: "=".join(next(iter(environment.items()))),
)
def test_a_setting_that_cannot_be_is_refused_by_name(environment: dict[str, str]) -> None:
    with pytest.raises(LaminarError, match="LMR0504") as caught:
        SparkSettings.from_environment(environment)
    assert next(iter(environment)) in str(caught.value)


@pytest.mark.parametrize("spark", ["local", "local[2]", "local[*]", "yarn", "spark://host:7077", "k8s://host"])
def test_master_urls_are_taken(spark: str) -> None:
    assert SparkSettings(spark).spark == spark


def test_a_cluster_is_not_bound_to_the_loopback_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar_dagster.engine.session.bundle_jars", lambda name: (Path(f"/jars/{name}.jar"),))
    assert "spark.driver.host" not in startup_conf(SparkSettings("spark://host:7077"))
    assert startup_conf(SparkSettings("local[2]"))["spark.driver.host"] == "127.0.0.1"


def test_static_extras_go_to_the_jvm_and_not_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar_dagster.engine.session.bundle_jars", lambda name: (Path(f"/jars/{name}.jar"),))
    settings = SparkSettings(extra={"spark.executor.memory": "3g", "spark.sql.shuffle.partitions": "7"})
    assert startup_conf(settings)["spark.executor.memory"] == "3g"
    assert "spark.executor.memory" not in session_conf(settings)
    assert session_conf(settings)["spark.sql.shuffle.partitions"] == "7"


def test_importing_the_module_does_not_import_pyspark() -> None:
    code = "import sys, laminar_dagster.engine.connect_server; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.spark
def test_a_delta_table_is_written_and_read_back(either_spark: SparkSession, tmp_path: Path) -> None:
    f = functions_of(either_spark)
    rows = either_spark.range(5).select(f.col("id"), (f.col("id") * 2).alias("twice"))
    rows.write.format("delta").save(str(tmp_path / "table"))
    read = either_spark.read.format("delta").load(str(tmp_path / "table"))
    assert sorted(map(tuple, read.collect())) == [(n, 2 * n) for n in range(5)]
    assert (tmp_path / "table" / "_delta_log").is_dir()


@pytest.mark.spark
def test_observed_metrics_arrive_with_the_job(either_spark: SparkSession) -> None:
    f = functions_of(either_spark)
    seen = observation_for(either_spark, "seen")
    either_spark.range(7).observe(seen, f.count(f.lit(1)).alias("rows")).collect()
    assert seen.get == {"rows": 7}


@pytest.mark.spark
def test_a_parquet_write_leaves_no_success_file(either_spark: SparkSession, tmp_path: Path) -> None:
    either_spark.range(1).write.parquet(str(tmp_path / "files"))
    assert not (tmp_path / "files" / "_SUCCESS").exists()


@pytest.mark.spark
def test_every_session_setting_holds(either_spark: SparkSession) -> None:
    expected = session_conf(SparkSettings.for_tests())
    assert {key: either_spark.conf.get(key) for key in expected} == expected


@pytest.mark.spark
def test_sessions_share_the_jvm_and_not_their_settings(spark: SparkSession) -> None:
    other = open_session(SparkSettings("local[2]", shuffle_partitions=5))
    assert other.sparkContext is spark.sparkContext
    assert other.conf.get("spark.sql.shuffle.partitions") == "5"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


@pytest.mark.spark
def test_a_second_master_in_one_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(LaminarError, match="LMR0508"):
        open_session(SparkSettings("local[1]"))


@pytest.mark.spark
def test_both_kinds_live_in_one_process(spark: SparkSession, connect_spark: SparkSession) -> None:
    assert (is_connect(spark), is_connect(connect_spark)) == (False, True)
    assert spark.range(3).count() == connect_spark.range(3).count() == 3


@pytest.mark.spark
def test_no_server_at_the_address_is_a_named_error() -> None:
    with pytest.raises(LaminarError, match="LMR0506") as caught:
        open_session(SparkSettings("sc://127.0.0.1:1"))
    assert "laminar spark start" in str(caught.value)


def test_a_misspelt_way_to_go_on_without_a_server_is_told_by_its_right_name() -> None:
    with pytest.raises(LaminarError, match='Did you mean "in_process"'):
        SparkSettings(unreachable="in_proces")


def test_a_run_that_waits_for_a_server_in_vain_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "SECONDS_TO_WAIT", 1.0)
    with pytest.raises(LaminarError, match="LMR0506"):
        open_session(SparkSettings("sc://127.0.0.1:1", unreachable="wait"))
    assert caplog.messages == [
        "no Spark Connect server answers at sc://127.0.0.1:1: waiting for it, up to 1 seconds",
    ]


@pytest.mark.spark
def test_a_run_that_finds_no_server_may_go_on_in_process(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    found = open_session(SparkSettings("sc://127.0.0.1:1", unreachable="in_process"))
    assert not is_connect(found)
    assert found.range(3).count() == 3
    assert caplog.messages == [
        "no Spark Connect server answers at sc://127.0.0.1:1: starting Spark in this process instead",
    ]


@pytest.mark.spark
def test_a_start_of_spark_is_silent(tmp_path: Path) -> None:
    code = (
        "from laminar_dagster.engine.session import SparkSettings, open_session\n"
        "session = open_session(SparkSettings.for_tests())\n"
        "assert session.range(2).count() == 2\n"
        "session.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.spark
def test_a_jvm_that_cannot_start_is_a_named_error_with_its_words() -> None:
    code = (
        "from laminar_dagster.engine.session import SparkSettings, open_session\n"
        "open_session(SparkSettings('local[1]', jvm_options='-XX:+UseSerialGC -XX:+UseParallelGC'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert "LMR0505" in done.stderr
    assert "multiple garbage collectors" in done.stderr.lower()


@pytest.mark.spark
@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b c"],
        ["1 AS a", "'x\ny' AS b", "'\\'\u2028\U0001f600' AS c"],
        ["a", " b "],
        [" a", "b"],
        ["a", ""],
        ["a\x01b", "c"],
        ["a", "b", "a"],
    ],
)
def test_texts_reach_the_jvm_as_they_are(spark: SparkSession, texts: list[str]) -> None:
    found = spark.sparkContext._jvm.PythonUtils.toSeq(texts)
    assert [found.apply(place) for place in range(found.size())] == texts
