"""From a click on Materialize to committed output, on the warm server of `laminar dev`: where the seconds go.

The launch is the one that the button makes, by Dagster's own GraphQL; the times are those of the run's event log.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.generator import generate
from benchmarks.reporting import RowsDifferError, main_of, print_table, say
from state_store import StoreReader
from tests.browser.served import Served, copied, served

VIEW = "sales_per_minute"
LAUNCH = """
mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
EVENTS = """
query ($run: ID!) { logsForRun(runId: $run, limit: 1000) { ... on EventConnection { events {
  __typename ... on MessageEvent { timestamp message eventType } } } } }
"""
# What ends each stretch: the first event of a type, or the first line in the run's log with a text.
STRETCHES = (
    ("click to queue", "RUN_ENQUEUED", ""),
    ("in the queue", "RUN_STARTING", ""),
    ("the run's process starts and imports", "", "Started process for run"),
    ("it loads the definitions, prepares the step", "STEP_START", ""),
    ("connects to Spark, looks what waits", "", "source commit(s) wait"),
    ("the epoch, to its commit", "ASSET_MATERIALIZATION", ""),
    ("reports the partitions", "", "partitions touched"),
    ("metadata, chart, observations", "STEP_SUCCESS", ""),
    ("checks, end of the run", "RUN_SUCCESS", ""),
)
COMMITTED = 6  # that many stretches end with the commit


def launch(shop: Served, view: str) -> str:
    """What the button does."""
    selector = {
        "repositoryLocationName": "shop",
        "repositoryName": "__repository__",
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": [view, "state"]}],
    }
    params = {"mode": "default", "selector": selector, "runConfigData": "{}", "executionMetadata": {"tags": []}}
    answer = shop.ask(LAUNCH, params=params)["launchRun"]
    if answer["__typename"] != "LaunchRunSuccess":
        raise RowsDifferError(f"the run was not launched: {answer}")
    return str(answer["run"]["runId"])


def tick(shop: Served) -> dict[str, float]:
    """New events, a launch, and how long each stretch took."""
    generate(shop.root / "data" / "landing")
    clicked = time.time()
    run = launch(shop, VIEW)
    if shop.ended(run)["status"] != "SUCCESS":
        raise RowsDifferError(f"run {run} failed")
    return stretches(clicked, shop.ask(EVENTS, run=run)["logsForRun"]["events"])


def stretches(clicked: float, events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found, before = {}, clicked
    for name, kind, text in STRETCHES:
        ends = [at(event) for event in events if marks(event, kind, text)]
        if not ends:
            raise RowsDifferError(f"no event ends the stretch '{name}'")
        found[name] = min(ends) - before
        before = min(ends)
    return found


def marks(event: Mapping[str, Any], kind: str, text: str) -> bool:
    return event.get("eventType") == kind if kind else text in (event.get("message") or "")


def at(event: Mapping[str, Any]) -> float:
    return int(event["timestamp"]) / 1000


def run(options: argparse.Namespace) -> dict[str, Any]:
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder))
        with served(root, output=root / "dev.txt") as shop:
            say("the first tick, on a server that has done nothing yet")
            first = tick(shop)
            measured = [tick(shop) for _ in range(rounds)]
        committed = StoreReader(root / "data" / VIEW).commit()
    if committed is None or committed.epoch < rounds + 1:
        raise RowsDifferError("a tick committed nothing")
    print_table(
        f"from click to success, in seconds; later: median of {rounds}",
        ("stretch", "first tick", "later"),
        [(name, f"{first[name]:.2f}", f"{middle(measured, name):.2f}") for name in first]
        + [
            (f"click to {end}", f"{sums([first], upto)[0]:.1f}", f"{statistics.median(sums(measured, upto)):.1f}")
            for end, upto in (("committed output", COMMITTED), ("success", len(STRETCHES)))
        ],
    )
    return {"first": first, "later": measured}


def middle(measured: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.median(one[name] for one in measured)


def sums(measured: Sequence[Mapping[str, float]], upto: int) -> list[float]:
    return [sum(list(one.values())[:upto]) for one in measured]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one tick: only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--rounds", type=int, default=8, help="how many ticks are measured (default: 8)")
    return main_of(run, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
