"""What all benchmarks take on the command line, and how they show what they found."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from laminar_dagster.engine.session import SparkSettings

CONSOLE = Console(width=110)


class RowsDifferError(Exception):
    """The rows are not what they should be: the times mean nothing."""


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only shows that it runs and rows agree")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--spark", default="local[*]", help="Spark master (default: local[*])")
    parser.add_argument("--driver-memory", default="3g")
    return parser


def settings_for(options: argparse.Namespace) -> SparkSettings:
    if options.quick:
        return SparkSettings.for_tests(options.spark)
    return SparkSettings(spark=options.spark, driver_memory=options.driver_memory)


def main_of(run: Callable[[argparse.Namespace], Mapping[str, Any]], options: argparse.Namespace) -> int:
    """Run a benchmark and write its report; where rows differ, say so and fail."""
    try:
        report = run(options)
    except RowsDifferError as difference:
        print(f"error: {difference}", file=sys.stderr)
        return 1
    if options.json:
        whole = {**report, "quick": options.quick, "machine": _machine()}
        options.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 0


def say(text: str) -> None:
    CONSOLE.print(text)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The first column to the left, numbers to the right."""
    table = Table(title=title, title_justify="left")
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="right" if position else "left")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("pyspark", "delta-spark", "deltalake")},
    }
