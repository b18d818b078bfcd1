"""Opens the Spark session that one setting asks for: in process, a Connect server, or a cluster.

`SparkSession.builder` allows one kind of session per process; here the Connect class is used directly, so that
a process can hold an in-process session and Connect sessions side by side. The price: `pyspark.sql.functions`
then builds in-process expressions only, hence `functions_of`.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from laminar_dagster.engine.gateway import save_round_trips
from laminar_dagster.engine.jars import bundle_jars, spark_home
from laminar_dagster.engine.java import find_java
from laminar_dagster.errors import LaminarError, did_you_mean

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 15002
LOG4J = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = f"-Dlog4j2.configurationFile={LOG4J.as_uri()} -Duser.timezone=UTC"
_NONE: Mapping[str, str] = MappingProxyType({})

# Static settings of the JVM: fixed when it starts, whether in this process or as a Connect server.
STARTUP = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Nobody looks: what Spark would keep for its web interface is hundreds of MiB of old plans, and their texts.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.ui.dagGraph.retainedRootRDDs": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

# On one machine only: executors of a cluster have to reach the driver.
ONE_MACHINE = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}

# Settings of one session: a Connect client sends them too, whatever server it meets.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # Laminar's expressions check casts and overflow themselves, and set bad rows aside.
    "spark.sql.ansi.enabled": "false",
    # Text of users and of data is in the SQL; Spark would put settings and the environment in the place of `${…}`.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "false",
    # A change feed has the columns of the last version that is read: as the table is now, it could not be read any more
    # from before a column was renamed.
    "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable": "endVersion",
    # From 33 files on Spark would list them in a job of its own, one task for each.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # The default of 50 costs seconds per Delta read or write of a small table.
    "spark.databricks.delta.snapshotPartitions": "1",
}

SECONDS_TO_WAIT = 180.0  # for a server that is gone; longer than one takes to start

PER_SESSION = ("spark.sql.", "spark.databricks.")

# A JVM that compiles lightly: for runs that are over before the better code would pay.
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

NO_CODEGEN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class SparkSettings:
    """Which Spark, and how big.

    `spark` is `local[...]` (in process), `sc://host:port` (Connect) or any master URL. `bundles` are the jars (see
    jars.py) that a JVM is started with. `unreachable` says what becomes of a run whose Connect server does not answer.
    """

    spark: str = "local[*]"
    shuffle_partitions: int | None = None
    driver_memory: str = "2g"
    jvm_options: str = ""
    extra: Mapping[str, str] = field(default_factory=lambda: _NONE)
    bundles: tuple[str, ...] = ("delta",)
    unreachable: str = "fail"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"local(\[[^\]]+\])?|yarn|(sc|spark|k8s)://\S+|local-cluster\[.+\]", self.spark):
            raise _bad_setting("LAMINAR_SPARK", self.spark, 'Use "local[*]", "sc://host:port" or a Spark master URL.')
        if self.shuffle_partitions is not None and self.shuffle_partitions < 1:
            raise _bad_setting(
                "LAMINAR_SHUFFLE_PARTITIONS", str(self.shuffle_partitions), "Use a whole number from 1 up."
            )
        if not re.fullmatch(r"\d+[kmgt]b?", self.driver_memory, re.IGNORECASE):
            raise _bad_setting("LAMINAR_DRIVER_MEMORY", self.driver_memory, 'Use a size such as "2g" or "512m".')
        if self.unreachable not in UNREACHABLE:
            raise _bad_setting(
                "LAMINAR_SPARK_UNREACHABLE", self.unreachable, did_you_mean(self.unreachable, UNREACHABLE)
            )

    @property
    def is_connect(self) -> bool:
        return self.spark.startswith("sc://")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> SparkSettings:
        """What the variables LAMINAR_SPARK… say; what is unset has its default."""
        env = os.environ if environment is None else environment
        partitions = env.get("LAMINAR_SHUFFLE_PARTITIONS")
        if partitions and not partitions.isdecimal():
            raise _bad_setting("LAMINAR_SHUFFLE_PARTITIONS", partitions, "Use a whole number from 1 up.")
        return cls(
            spark=env.get("LAMINAR_SPARK") or cls.spark,
            shuffle_partitions=int(partitions) if partitions else None,
            driver_memory=env.get("LAMINAR_DRIVER_MEMORY") or cls.driver_memory,
            jvm_options=env.get("LAMINAR_JVM_OPTIONS") or cls.jvm_options,
            unreachable=env.get("LAMINAR_SPARK_UNREACHABLE") or cls.unreachable,
        )

    @classmethod
    def for_tests(cls, spark: str = "local[2]", bundles: tuple[str, ...] = ("delta",)) -> SparkSettings:
        """Fastest on tiny data: one shuffle partition, no code generation, a JVM that compiles lightly.

        A JVM that stops at level 1 has room for 48 MiB of code by default, which Spark fills within two minutes: from
        then on it would throw code out and compile it again. Plans are short-lived: with room for them, few are copied.
        """
        return cls(
            spark=spark,
            shuffle_partitions=1,
            driver_memory="1536m",
            jvm_options=f"{LIGHT_JVM} -Xmn768m",
            extra=NO_CODEGEN,
            bundles=bundles,
        )


def session_conf(settings: SparkSettings) -> dict[str, str]:
    """The settings of one session, also over Connect."""
    partitions = settings.shuffle_partitions or _default_partitions()
    extra = {key: value for key, value in settings.extra.items() if key.startswith(PER_SESSION)}
    return {**SESSION, "spark.sql.shuffle.partitions": str(partitions), **extra}


def startup_conf(settings: SparkSettings) -> dict[str, str]:
    """Everything a JVM that serves these settings starts with."""
    jars = [jar for bundle in settings.bundles for jar in bundle_jars(bundle)]
    return {
        **STARTUP,
        **(ONE_MACHINE if settings.spark.startswith("local") else {}),
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {settings.jvm_options}".strip(),
        **({"spark.executor.extraJavaOptions": settings.jvm_options} if settings.jvm_options else {}),
        **settings.extra,
        **session_conf(settings),
    }


def open_session(settings: SparkSettings | None = None) -> SparkSession:
    """The session that the settings (or the environment) ask for, ready for Delta."""
    # pyspark prints every failed analysis as JSON, before whoever asked can say something readable.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    chosen = settings or SparkSettings.from_environment()
    return _open_connect(chosen) if chosen.is_connect else _open_classic(chosen)


def is_connect(session: SparkSession) -> bool:
    """Whether the session talks to a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def functions_of(session: SparkSession) -> Any:
    """`pyspark.sql.functions` for this kind of session: expressions of the other kind do not fit."""
    if is_connect(session):
        import pyspark.sql.connect.functions as connect_functions

        return connect_functions
    import pyspark.sql.functions as classic_functions

    return classic_functions


def observation_for(session: SparkSession, name: str) -> Any:
    """A `pyspark.sql.Observation` for this kind of session."""
    if is_connect(session):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation(name)
    from pyspark.sql import Observation

    return Observation(name)


def _default_partitions() -> int:
    return max(2, min(8, os.cpu_count() or 2))


def _open_connect(settings: SparkSettings) -> SparkSession:
    try:
        _probe(settings.spark)
    except LaminarError as gone:
        return UNREACHABLE[settings.unreachable](settings, gone)
    return _connected(settings)


def _connected(settings: SparkSettings) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = ConnectSession.builder.remote(settings.spark)
    for key, value in session_conf(settings).items():
        builder = builder.config(key, value)
    try:
        return cast("SparkSession", builder.create())
    except Exception as error:
        raise _no_server(settings.spark, error) from error


def _refused(_: SparkSettings, gone: LaminarError) -> SparkSession:
    raise gone


def _awaited(settings: SparkSettings, gone: LaminarError) -> SparkSession:
    log.warning("%s: waiting for it, up to %d seconds", gone.problem, SECONDS_TO_WAIT)
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while time.monotonic() < deadline:
        time.sleep(0.25)
        with suppress(LaminarError):
            _probe(settings.spark)
            log.warning("the Spark Connect server at %s answers again", settings.spark)
            return _connected(settings)
    raise gone


def _in_process(settings: SparkSettings, gone: LaminarError) -> SparkSession:
    log.warning("%s: starting Spark in this process instead", gone.problem)
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    return _open_classic(replace(settings, spark=SparkSettings.spark if active is None else str(active.master)))


# What becomes of a run that finds no Connect server, by the setting's value.
UNREACHABLE: Mapping[str, Callable[[SparkSettings, LaminarError], SparkSession]] = {
    "fail": _refused,
    "wait": _awaited,
    "in_process": _in_process,
}


def _probe(url: str) -> None:
    """Fail at once where nothing listens: pyspark would try again for ten minutes."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or DEFAULT_PORT), timeout=10).close()
    except (OSError, ValueError) as error:
        raise _no_server(url, error) from error


def _no_server(url: str, error: Exception) -> LaminarError:
    return LaminarError(
        "LMR0506",
        f"no Spark Connect server answers at {url}",
        detail=first_line(error),
        hint="Start one with: laminar spark start. Or run in process: LAMINAR_SPARK='local[*]'.",
        next_command="laminar spark status",
    )


def _open_classic(settings: SparkSettings) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkContext._active_spark_context
    if active is None:
        return SparkSession(_start_context(settings))
    _refuse_another_master(str(active.master), settings)
    session = SparkSession(active).newSession()
    for key, value in session_conf(settings).items():
        session.conf.set(key, value)
    return session


def _refuse_another_master(running: str, settings: SparkSettings) -> None:
    if running != settings.spark:
        raise LaminarError(
            "LMR0508",
            f"this process already runs Spark as {running}, so it cannot also run it as {settings.spark}",
            detail="A process has one in-process Spark; sessions over Connect may be added to it.",
            hint=f"Stop the other session first (session.stop()), or use {running}.",
        )


def _start_context(settings: SparkSettings) -> SparkContext:
    find_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.setAll([*startup_conf(settings).items(), ("spark.app.name", "laminar"), ("spark.master", settings.spark)])
    log = _jvm_log()
    try:
        # A JVM of this process outlives the context that started it, and is used again.
        with spark_environment(one_machine=settings.spark.startswith("local")):
            launch: Any = launch_gateway  # untyped in pyspark
            gateway = SparkContext._gateway or launch(conf, {"stdout": log, "stderr": log})
            context = SparkContext(conf=conf, gateway=gateway)
            save_round_trips(gateway)
            return context
    except Exception as error:
        raise LaminarError(
            "LMR0505",
            f"Spark could not be started as {settings.spark}",
            detail=f"{_reason(error)}\n{tail(Path(log.name))}".strip(),
            hint="To keep the whole log, set LAMINAR_SPARK_LOG to a file name.",
            next_command="laminar doctor",
        ) from error


def _reason(error: Exception) -> str:
    """What Java says of it, where it was Java: py4j only says that something went wrong."""
    java = getattr(error, "java_exception", None)
    return first_line(error) if java is None else str(java.toString())


@contextmanager
def spark_environment(*, one_machine: bool) -> Iterator[dict[str, str]]:
    """The environment in which Spark's scripts start the Spark of this pyspark, and no other."""
    saved = dict(os.environ)
    # A SPARK_HOME of another version would be started instead; SPARK_REMOTE would turn the start around.
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.pop("SPARK_REMOTE", None)
    # A machine whose host name does not resolve cannot start Spark without this.
    if one_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    try:
        yield dict(os.environ)
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _jvm_log() -> IO[bytes]:
    """Where the JVM's output goes instead of the terminal: LAMINAR_SPARK_LOG, else a file removed at exit."""
    chosen = os.environ.get("LAMINAR_SPARK_LOG")
    if chosen:
        return Path(chosen).open("ab")
    log = tempfile.NamedTemporaryFile(prefix="laminar-spark-", suffix=".log", delete=False)  # noqa: SIM115
    atexit.register(Path(log.name).unlink, missing_ok=True)
    return cast("IO[bytes]", log)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def first_line(error: BaseException) -> str:
    """What an error says, without the JVM's stack."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _bad_setting(name: str, value: str, hint: str | None) -> LaminarError:
    return LaminarError("LMR0504", f'{name} cannot be "{value}"', hint=hint)
