"""What this process and its JVM use of the machine. /proc tells it: where there is none, it is shown as 0."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Processor time used so far, by Python and the JVM together: steadier than a clock on a busy machine."""
    return sum(_cpu(pid) for pid in (os.getpid(), jvm_pid()))


def resident_mib() -> tuple[int, int]:
    """Memory in use now: Python's and the JVM's."""
    return _resident(os.getpid()), _resident(jvm_pid())


def jvm_pid() -> int:
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return 0 if process is None else int(process.pid)


def _cpu(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident(pid: int) -> int:
    statm = Path(f"/proc/{pid}/statm")
    return int(statm.read_text().split()[1]) * PAGE // 2**20 if statm.exists() else 0


def newest_stage(spark: SparkSession) -> int:
    """The number of the last stage that Spark has run so far."""
    return next((int(stage.stageId()) for stage in _stages(spark)), -1)


def task_seconds(spark: SparkSession, after: int) -> float:
    """Processor time of the tasks of all stages after this one: the work itself, without planning and scheduling."""
    total = 0
    for stage in _stages(spark):
        if stage.stageId() <= after:
            break
        total += stage.executorCpuTime()
    return total / 1e9


def _stages(spark: SparkSession) -> Iterator[Any]:
    """What Spark remembers of its stages, newest first."""
    jvm: Any = spark.sparkContext._gateway
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    quantiles, statuses = jvm.new_array(jvm.jvm.double, 0), jvm.jvm.java.util.ArrayList()
    stages = context.statusStore().stageList(None, False, False, quantiles, statuses)
    yield from (stages.apply(i) for i in range(stages.size()))
