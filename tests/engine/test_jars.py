"""The jars are fetched once, whole, into a cache of our own."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from laminar_dagster.engine import jars
from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fake_ivy(monkeypatch: pytest.MonkeyPatch, leave_out: int = 0, status: int = 0) -> list[list[str]]:
    """Stands in for the network: writes the files that Ivy would retrieve."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        pattern = command[command.index("-retrieve") + 1]
        names = re.findall(r'name="([^"]+)" rev="([^"]+)"', Path(command[command.index("-ivy") + 1]).read_text())
        Path(pattern).parent.mkdir(parents=True)
        for artifact, revision in names[: len(names) - leave_out]:
            Path(pattern).with_name(f"{artifact}-{revision}.jar").write_bytes(b"jar")
        return subprocess.CompletedProcess(command, status, stdout="unresolved dependency\n", stderr="")

    monkeypatch.setattr(jars, "_ivy_command", lambda ivy, home, out: ["-ivy", str(ivy), "-retrieve", f"{out}/[x]"])
    monkeypatch.setattr(jars.subprocess, "run", run)
    return calls


def test_the_five_delta_jars_follow_the_installed_versions() -> None:
    bundle = jars.BUNDLES["delta"]()
    spark = ".".join(version("pyspark").split(".")[:2])
    assert {jar.organisation for jar in bundle.jars} == {"io.delta"}
    assert {jar.revision for jar in bundle.jars} == {version("delta-spark")}
    assert [jar.artifact for jar in bundle.jars] == [
        f"delta-spark_{spark}_2.13",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    ]


def test_an_empty_cache_misses_all_five(cache: Path) -> None:
    assert len(jars.missing_jars()) == 5
    assert not cache.exists()


def test_jars_are_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_ivy(monkeypatch)
    first, second = jars.delta_jars(), jars.delta_jars()
    assert first == second
    assert len(first) == 5
    assert all(path.is_file() and path.is_relative_to(cache) for path in first)
    assert jars.missing_jars() == []
    assert len(calls) == 1


def test_nothing_but_the_jars_stays_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ivy(monkeypatch)
    kept = jars.delta_jars()
    assert {path for path in cache.rglob("*") if path.is_file()} == set(kept)


@pytest.mark.parametrize(("leave_out", "status"), [(1, 0), (0, 1)], ids=["a jar is missing", "Ivy fails"])
def test_a_failed_fetch_leaves_no_jar_and_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, leave_out: int, status: int
) -> None:
    fake_ivy(monkeypatch, leave_out, status)
    with pytest.raises(LaminarError, match="LMR0503") as caught:
        jars.delta_jars()
    assert len(jars.missing_jars()) == 5
    assert "LAMINAR_IVY_SETTINGS" in str(caught.value)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_cache_that_cannot_be_written_is_a_named_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(LaminarError, match="LMR0503"):
        jars.delta_jars()


def test_the_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAMINAR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.cache_directory() == tmp_path / "laminar-dagster"
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "own"))
    assert jars.cache_directory() == tmp_path / "own"


def test_kafkas_jars_are_fetched_for_those_who_ask(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_ivy(monkeypatch)
    jars.delta_jars()
    assert len(jars.missing_jars("kafka")) == 4
    assert jars.main(["kafka"]) == 0
    assert jars.missing_jars("kafka") == []
    assert len(calls) == 2


def test_a_project_asks_for_kafkas_jars_if_its_sql_names_the_connector(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text("CREATE SOURCE kafka WITH (connector = 'delta', path = 'kafka')")
    assert Project.find(tmp_path).spark_settings().bundles == ("delta",)
    (tmp_path / "sql" / "b.sql").write_text("CREATE SINK feed FROM v WITH (connector = 'Kafka', topic = 't')")
    assert Project.find(tmp_path).spark_settings("local[2]").bundles == ("delta", "kafka")


@pytest.mark.spark
def test_the_jars_in_the_cache_are_jars() -> None:
    import zipfile

    assert all(zipfile.is_zipfile(path) for path in jars.delta_jars())
