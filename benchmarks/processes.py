"""What this process and its JVM use of the machine. Read from /proc: elsewhere it is not known, and shown as 0."""

from __future__ import annotations

import os
from pathlib import Path

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
