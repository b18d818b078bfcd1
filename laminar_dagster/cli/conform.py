"""`laminar conform`: run conformance cases through the real front end, Spark and Delta."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from laminar_dagster.cli.options import JsonOption


class RunnerName(StrEnum):
    REFERENCE = "reference"
    SPARK = "spark"
    SPARK_CRASH = "spark-crash"
    SPARK_ONE_TICK = "spark-one-tick"
    SPARK_CONNECT = "spark-connect"


def conform(
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Case files, or directories of them.")],
    runner: Annotated[
        RunnerName,
        typer.Option(
            help="What runs the cases. spark-crash kills after every write and resumes; spark-one-tick takes all "
            "commits in one tick; spark-connect uses a Connect server; reference is plain Python."
        ),
    ] = RunnerName.SPARK,
    as_json: JsonOption = False,
) -> None:
    """Run conformance cases and print a scorecard. Exit code 1 if a case failed."""
    from laminar_dagster.conformance.runners import run_cases
    from laminar_dagster.conformance.scorecard import CaseResult, as_line

    def tell(result: CaseResult) -> None:
        if not as_json:
            typer.echo(as_line(result))

    scorecard = run_cases(paths, runner.value, on_result=tell)
    typer.echo(json.dumps(scorecard.as_json()) if as_json else f"\n{scorecard.summary}")
    raise typer.Exit(scorecard.exit_code)
