"""Fetches, once, the jars that pyspark lacks, so that no later start of Spark needs the network.

`spark.jars.packages` would ask Ivy at every start, and Ivy fails when `~/.m2` holds a POM without its jar.
Here Ivy (it ships with pyspark) runs once, with a cache of its own; sessions start with plain `spark.jars`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.sax.saxutils import quoteattr

from laminar_dagster.engine.java import find_java
from laminar_dagster.errors import LaminarError

SCALA = "2.13"


@dataclass(frozen=True)
class Coordinate:
    """One jar on Maven Central."""

    organisation: str
    artifact: str
    revision: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.revision}.jar"

    @property
    def dependency(self) -> str:
        """As an element of an Ivy file: this jar only, not what it depends on."""
        return (
            f"<dependency org={quoteattr(self.organisation)} name={quoteattr(self.artifact)} "
            f'rev={quoteattr(self.revision)} transitive="false" conf="default->master"/>'
        )


@dataclass(frozen=True)
class Bundle:
    """Jars that are fetched and used together."""

    name: str
    revision: str
    jars: tuple[Coordinate, ...]


def _delta() -> Bundle:
    revision = version("delta-spark")
    spark = ".".join(version("pyspark").split(".")[:2])
    artifacts = (
        f"delta-spark_{spark}_{SCALA}",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
    return Bundle("delta", revision, tuple(Coordinate("io.delta", artifact, revision) for artifact in artifacts))


def _kafka() -> Bundle:
    """Spark's connector and the client that it was built with; nobody who reads or writes no topic fetches it."""
    spark = version("pyspark")
    return Bundle(
        "kafka",
        spark,
        (
            Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", spark),
            # Maven Central lacks the 4.2 of this one; what the connector calls in it has not changed since 4.0.
            Coordinate("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", "4.0.0"),
            Coordinate("org.apache.kafka", "kafka-clients", "3.9.2"),
            Coordinate("org.apache.commons", "commons-pool2", "2.13.1"),
        ),
    )


BUNDLES: dict[str, Callable[[], Bundle]] = {"delta": _delta, "kafka": _kafka}


def delta_jars() -> tuple[Path, ...]:
    """The Delta jars on this machine, fetched first if need be."""
    return bundle_jars("delta")


def missing_jars(bundle: str = "delta") -> list[str]:
    """The file names of the bundle's jars that the cache does not hold."""
    return _missing(BUNDLES[bundle]())


def _missing(wanted: Bundle) -> list[str]:
    return [jar.file_name for jar in wanted.jars if not (jar_directory(wanted) / jar.file_name).is_file()]


def bundle_jars(name: str) -> tuple[Path, ...]:
    """The jars of a bundle of this project, on this machine."""
    return jars_of(BUNDLES[name]())


def jars_of(bundle: Bundle) -> tuple[Path, ...]:
    """The jars of a bundle on this machine, fetched first if need be."""
    if _missing(bundle):
        _fetch(bundle)
    return tuple(jar_directory(bundle) / jar.file_name for jar in bundle.jars)


def jar_directory(bundle: Bundle) -> Path:
    """Where the bundle's jars lie; a new revision gets a directory of its own."""
    return cache_directory() / "jars" / f"{bundle.name}-{bundle.revision}"


def cache_directory() -> Path:
    """LAMINAR_CACHE, else the user's cache directory."""
    chosen = os.environ.get("LAMINAR_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "laminar-dagster"


def _fetch(bundle: Bundle) -> None:
    target = jar_directory(bundle)
    started = time.monotonic()
    sys.stderr.write(f"Fetching {len(bundle.jars)} {bundle.name} jars into {target} (once) ...\n")
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Same file system as the target, so that each jar arrives whole, by a rename.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
            _move_jars(_run_ivy(bundle, Path(scratch)), target, bundle)
    except OSError as error:
        raise _not_fetched(bundle, f"{type(error).__name__}: {error}") from error
    sys.stderr.write(f"Fetched in {time.monotonic() - started:.0f} s.\n")


def _run_ivy(bundle: Bundle, scratch: Path) -> Path:
    ivy_file = scratch / "ivy.xml"
    dependencies = "".join(jar.dependency for jar in bundle.jars)
    ivy_file.write_text(
        '<ivy-module version="2.0"><info organisation="laminar" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    retrieved = scratch / "retrieved"
    done = subprocess.run(
        _ivy_command(ivy_file, scratch / "cache", retrieved), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise _not_fetched(bundle, _last_lines(done.stdout + done.stderr))
    return retrieved


def _ivy_command(ivy_file: Path, ivy_home: Path, retrieved: Path) -> list[str]:
    settings = os.environ.get("LAMINAR_IVY_SETTINGS")
    return [
        str(find_java().path),
        f"-Divy.default.ivy.user.dir={ivy_home}",
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(ivy_home), "-ivy", str(ivy_file), "-confs", "default"),
        *("-types", "jar", "bundle", "-warn"),
        *("-retrieve", f"{retrieved}/[artifact]-[revision].[ext]"),
    ]


def _move_jars(retrieved: Path, target: Path, bundle: Bundle) -> None:
    absent = [jar.file_name for jar in bundle.jars if not (retrieved / jar.file_name).is_file()]
    if absent:
        raise _not_fetched(bundle, f"Ivy ended well but without {', '.join(absent)}.")
    for jar in bundle.jars:
        (retrieved / jar.file_name).replace(target / jar.file_name)


def spark_home() -> Path:
    """The directory of the installed pyspark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LaminarError("LMR0503", "pyspark is not installed in this environment", next_command="make setup")
    return Path(next(iter(spec.submodule_search_locations)))


def _ivy_jar() -> Path:
    return next((spark_home() / "jars").glob("ivy-*.jar"))


def _last_lines(text: str, count: int = 12) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:])


def _not_fetched(bundle: Bundle, detail: str) -> LaminarError:
    names = ", ".join(jar.file_name for jar in bundle.jars)
    return LaminarError(
        "LMR0503",
        f"the {bundle.name} jars could not be fetched from Maven Central",
        detail=detail,
        hint=(
            "They are needed once. Behind a proxy, set JAVA_TOOL_OPTIONS to -Dhttps.proxyHost=HOST "
            "-Dhttps.proxyPort=PORT. For a mirror, set LAMINAR_IVY_SETTINGS to an Ivy settings file. "
            f"Without a network, copy {names} into {jar_directory(bundle)}."
        ),
        next_command=f"python -m laminar_dagster.engine.jars {bundle.name}" if bundle.name in BUNDLES else None,
    )


def main(bundles: Sequence[str]) -> int:
    """Fetch the jars of these bundles if they are missing, without a name Delta's; silent when they are not."""
    try:
        for bundle in bundles or ("delta",):
            bundle_jars(bundle)
    except LaminarError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
